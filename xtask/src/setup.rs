//! `cargo xtask setup`: what building and testing need and this machine lacks.

use std::fmt::Write as _;

use anyhow::{Result, bail};

use crate::{
    build::Toolchain,
    debian::{self, Package},
    linker,
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
        tools: debian::missing_tools(),
        linker: rustc.as_ref().is_none_or(|rustc| linker::find(workspace, rustc.llvm).is_none()),
        clippy: debian::is_supported() && rustc.as_ref().is_none_or(|rustc| rustc.clippy().is_none()),
        rustc,
    };
    if missing.is_nothing() {
        return Ok(());
    }
    if !debian::is_supported() {
        bail!("{}", missing.the_rustup_way());
    }
    install(&missing.packages(has_llvm))?;

    // Only now is it known which LLVM bpf-linker must read.
    let Some(rustc) = rustc::find() else {
        bail!("the packages are installed, and yet no rustc here compiles for {}", rustc::TARGET);
    };
    if linker::find(workspace, rustc.llvm).is_some() {
        return Ok(());
    }
    if !has_llvm(rustc.llvm) {
        install(&[debian::llvm(rustc.llvm)])?;
    }
    linker::install(workspace, rustc.llvm)?;
    if linker::find(workspace, rustc.llvm).is_none() {
        bail!("bpf-linker {} was built for LLVM {} and does not run", linker::VERSION, rustc.llvm);
    }
    Ok(())
}

fn has_llvm(major: u32) -> bool {
    debian::llvm_folder(major).join("bin/llvm-config").exists()
}

fn install(packages: &[Package]) -> Result<()> {
    if packages.is_empty() {
        return Ok(());
    }
    if !is_root() {
        bail!("{}", as_root(packages));
    }
    debian::install(packages)
}

struct Missing {
    tools: Vec<Package>,
    /// The compiler that was found.
    rustc: Option<Rustc>,
    linker: bool,
    clippy: bool,
}

impl Missing {
    fn is_nothing(&self) -> bool {
        self.tools.is_empty() && self.rustc.is_some() && !self.linker && !self.clippy
    }

    /// Debian's packages for what is missing.
    fn packages(&self, has_llvm: impl Fn(u32) -> bool) -> Vec<Package> {
        let mut packages = self.tools.clone();
        if self.rustc.is_none() {
            packages.extend(debian::rustc());
        }
        // A rustc from elsewhere has its clippy from there, too.
        if self.clippy && self.rustc.as_ref().is_none_or(Rustc::is_debian) {
            packages.push(debian::clippy());
        }
        let llvm = self.rustc.as_ref().map_or(debian::LLVM, |rustc| rustc.llvm);
        if self.linker && !has_llvm(llvm) {
            packages.push(debian::llvm(llvm));
        }
        packages
    }

    fn the_rustup_way(&self) -> String {
        let mut text = String::from(
            "this is not Debian 11, 12 or 13, where setup could install what is missing. Install it so:\n",
        );
        if self.rustc.is_none() {
            text += "  rustup toolchain install nightly --component rust-src\n";
        }
        if self.linker {
            let _ = writeln!(
                text,
                "  cargo install bpf-linker --version {}\n    \
                 (it needs an LLVM no older than rustc's; see https://github.com/aya-rs/bpf-linker)",
                linker::VERSION
            );
        }
        for tool in &self.tools {
            let _ = writeln!(text, "  your distribution's {} ({})", tool.name, tool.reason);
        }
        text + "then run `cargo xtask setup` again"
    }
}

fn as_root(packages: &[Package]) -> String {
    let [update, install] = debian::commands(packages).map(|command| command.join(" "));
    format!(
        "packages are missing, and installing them needs root:\n  sudo {update}\n  sudo {install}\n\
         then run `cargo xtask setup` again"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rustc(path: &str, llvm: u32) -> Rustc {
        Rustc { path: path.into(), release: "1.96.0".into(), llvm, core: Core::Prebuilt }
    }

    fn tool() -> Vec<Package> {
        vec![Package { name: "iproute2".into(), reason: "lists" }]
    }

    fn names(packages: &[Package]) -> String {
        packages.iter().map(|package| package.name.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_bare_machine_gets_everything() {
        let missing = Missing { tools: tool(), rustc: None, linker: true, clippy: true };
        assert_eq!(
            names(&missing.packages(|_| false)),
            "iproute2 rustc-web libstd-rust-web-dev-bpf rust-web-clippy llvm-22-dev"
        );
    }

    #[test]
    fn what_is_there_is_not_installed_again() {
        let debian = Some(rustc("/usr/bin/rustc", 23));
        let linker_only = Missing { tools: vec![], rustc: debian.clone(), linker: true, clippy: false };
        assert_eq!(names(&linker_only.packages(|_| false)), "llvm-23-dev");
        assert!(linker_only.packages(|llvm| llvm == 23).is_empty());

        let clippy_only = Missing { tools: vec![], rustc: debian.clone(), linker: false, clippy: true };
        assert_eq!(names(&clippy_only.packages(|_| true)), "rust-web-clippy");

        let nothing = Missing { tools: vec![], rustc: debian, linker: false, clippy: false };
        assert!(nothing.is_nothing());
        assert!(!Missing { tools: tool(), ..nothing }.is_nothing());
    }

    #[test]
    fn a_rustc_from_elsewhere_gets_no_clippy_of_debian() {
        let rustc = Some(rustc("/opt/nightly/bin/rustc", 23));
        let missing = Missing { tools: vec![], rustc, linker: false, clippy: true };
        assert!(missing.packages(|_| true).is_empty());
    }

    #[test]
    fn elsewhere_the_rustup_way_is_named() {
        let text = Missing { tools: tool(), rustc: None, linker: true, clippy: false }.the_rustup_way();
        assert!(text.contains("rustup toolchain install nightly --component rust-src"), "{text}");
        assert!(text.contains("cargo install bpf-linker --version 0.13.0"), "{text}");
        assert!(text.contains("iproute2"), "{text}");

        let rustc = Some(rustc("/usr/bin/rustc", 22));
        let text = Missing { tools: vec![], rustc, linker: true, clippy: false }.the_rustup_way();
        assert!(!text.contains("nightly"), "{text}");
    }

    #[test]
    fn a_user_gets_the_commands_to_run() {
        let text = as_root(&tool());
        assert!(text.contains("sudo apt-get update"), "{text}");
        assert!(
            text.contains("sudo apt-get install -y --no-install-recommends --no-remove iproute2"),
            "{text}"
        );
    }
}
