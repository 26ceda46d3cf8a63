//! The `nvaprobe` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    probe_user::cli::main()
}
