//! `cargo xtask setup`: what building and testing need and this machine lacks.

use std::fmt::Write as _;

use anyhow::{Result, bail};

use crate::{
    build::Toolchain,
    debian, linker,
    rustc::{self, Core, Rustc},
    workspace::{Workspace, is_root},
};

/// Installs what is missing, and says so also when that is nothing.
pub(crate) fn run_command(workspace: &Workspace) -> Result<()> {
    ensure(workspace)?;
    let Toolchain { rustc, linker } = Toolchain::find(workspace)?;
    let core = match rustc.core {
        Core::Prebuilt => "prebuilt core",
        Core::Source => "core built from rust-src",
    };
    eprintln!("setup: BPF programs compile with {} ({}, {core})", rustc.path.display(), rustc.release);
    eprintln!("setup: and link with {} (LLVM {})", linker.display(), rustc.llvm);
    eprintln!("setup: nothing is missing");
    Ok(())
}

/// Installs what is missing. Silent and quick when that is nothing.
pub(crate) fn ensure(workspace: &Workspace) -> Result<()> {
    let rustc = rustc::find();
    let missing = Missing {
        tools: debian::packages_of_missing_tools(),
        linker: rustc.as_ref().is_none_or(|rustc| linker::find(workspace, rustc.llvm).is_none()),
        rustc,
    };
    if missing.is_nothing() {
        return Ok(());
    }
    if !debian::is_supported() {
        bail!("{}", missing.the_rustup_way());
    }
    let packages = missing.packages(|llvm| linker::debian_llvm(llvm).join("bin/llvm-config").exists());
    if !packages.is_empty() {
        if !is_root() {
            bail!("{}", as_root(&packages));
        }
        debian::install(&packages)?;
    }
    install_linker(workspace)
}

/// Once rustc is there, which decides on the LLVM.
fn install_linker(workspace: &Workspace) -> Result<()> {
    let Some(rustc) = rustc::find() else {
        bail!(
            "{} are installed, and yet no rustc compiles for {}",
            debian::RUSTC.join(" and "),
            rustc::TARGET
        );
    };
    if linker::find(workspace, rustc.llvm).is_some() {
        return Ok(());
    }
    if !linker::debian_llvm(rustc.llvm).join("bin/llvm-config").exists() {
        // Debian's rustc has moved on to an LLVM that the first round did not install.
        let packages = [debian::linker_package(rustc.llvm)];
        if !is_root() {
            bail!("{}", as_root(&packages));
        }
        debian::install(&packages)?;
    }
    linker::install(workspace, rustc.llvm)?;
    if linker::find(workspace, rustc.llvm).is_none() {
        bail!("bpf-linker {} was built for LLVM {} and does not run", linker::VERSION, rustc.llvm);
    }
    Ok(())
}

struct Missing {
    /// Packages of programs that are not in PATH.
    tools: Vec<&'static str>,
    /// The compiler that was found.
    rustc: Option<Rustc>,
    linker: bool,
}

impl Missing {
    fn is_nothing(&self) -> bool {
        self.tools.is_empty() && self.rustc.is_some() && !self.linker
    }

    /// Debian's packages for what is missing.
    fn packages(&self, has_llvm: impl Fn(u32) -> bool) -> Vec<String> {
        let mut packages: Vec<String> = self.tools.iter().map(|&package| package.to_owned()).collect();
        if self.rustc.is_none() {
            packages.extend(debian::RUSTC.map(str::to_owned));
        }
        let llvm = self.rustc.as_ref().map_or(debian::LLVM, |rustc| rustc.llvm);
        if self.linker && !has_llvm(llvm) {
            packages.push(debian::linker_package(llvm));
        }
        packages
    }

    fn the_rustup_way(&self) -> String {
        let mut text =
            String::from("this is not Debian 11, 12 or 13, where setup could install what is missing:\n");
        if self.rustc.is_none() {
            text += "  a rustc for BPF:  rustup toolchain install nightly --component rust-src\n";
        }
        if self.linker {
            let _ = writeln!(
                text,
                "  bpf-linker:       cargo install bpf-linker --version {}\n  \
                 (it needs an LLVM no older than rustc's; see https://github.com/aya-rs/bpf-linker)",
                linker::VERSION
            );
        }
        for tool in debian::TOOLS.iter().filter(|tool| self.tools.contains(&tool.package)) {
            let _ = writeln!(text, "  {}:  from your distribution ({})", tool.program, tool.reason);
        }
        text + "then run `cargo xtask setup` again"
    }
}

fn as_root(packages: &[String]) -> String {
    let [update, install] = debian::commands(packages).map(|command| command.join(" "));
    format!(
        "packages are missing, and installing them needs root:\n  sudo {update}\n  sudo {install}\n\
         then run `cargo xtask setup` again"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rustc(llvm: u32) -> Rustc {
        Rustc { path: "/usr/bin/rustc".into(), release: "1.96.0".into(), llvm, core: Core::Prebuilt }
    }

    #[test]
    fn a_bare_machine_gets_everything() {
        let missing = Missing { tools: vec!["iproute2"], rustc: None, linker: true };
        assert_eq!(
            missing.packages(|_| false).join(" "),
            "iproute2 rustc-web libstd-rust-web-dev-bpf llvm-22-dev"
        );
    }

    #[test]
    fn what_is_there_is_not_installed_again() {
        let linker_only = Missing { tools: vec![], rustc: Some(rustc(23)), linker: true };
        assert_eq!(linker_only.packages(|_| false).join(" "), "llvm-23-dev");
        assert!(linker_only.packages(|llvm| llvm == 23).is_empty());
        assert!(Missing { tools: vec![], rustc: Some(rustc(22)), linker: false }.is_nothing());
        assert!(!Missing { tools: vec!["iproute2"], rustc: Some(rustc(22)), linker: false }.is_nothing());
    }

    #[test]
    fn elsewhere_the_rustup_way_is_named() {
        let text = Missing { tools: vec!["iproute2"], rustc: None, linker: true }.the_rustup_way();
        assert!(text.contains("rustup toolchain install nightly --component rust-src"), "{text}");
        assert!(text.contains("cargo install bpf-linker --version 0.13.0"), "{text}");
        assert!(text.contains("ip:"), "{text}");

        let text = Missing { tools: vec![], rustc: Some(rustc(22)), linker: true }.the_rustup_way();
        assert!(!text.contains("nightly"), "{text}");
    }

    #[test]
    fn a_user_gets_the_commands_to_run() {
        let text = as_root(&["iproute2".to_owned()]);
        assert!(text.contains("sudo apt-get update"), "{text}");
        assert!(
            text.contains("sudo apt-get install -y --no-install-recommends --no-remove iproute2"),
            "{text}"
        );
    }
}
