//! Runs the tool that knows the rules, and never waits long for it.

use std::{path::PathBuf, process::Stdio, time::Duration};

use tokio::{process::Command, time::timeout};

/// Listing thousands of rules takes some 10 ms; a tool that waits for a lock is not waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why there is no output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// The tool is not installed.
    Absent,
    Failed(String),
}

/// Standard output of a tool, run in the calling thread's network namespace.
pub(super) async fn run(program: &str, arguments: &[&str]) -> Result<String, Missing> {
    run_for(PATIENCE, program, arguments).await
}

async fn run_for(patience: Duration, program: &str, arguments: &[&str]) -> Result<String, Missing> {
    let path = find(program).ok_or(Missing::Absent)?;
    let words = || format!("`{program} {}`", arguments.join(" "));
    let output = Command::new(path)
        .args(arguments)
        // Names of protocols and services in English, and no surprise from the caller's environment.
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = match timeout(patience, output).await {
        Ok(Ok(output)) => output,
        Ok(Err(error)) => return Err(Missing::Failed(format!("cannot run {}: {error}", words()))),
        Err(_) => {
            return Err(Missing::Failed(format!("{} gave no answer within {patience:?}", words())));
        }
    };
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        let first = complaint.lines().next().unwrap_or("it says nothing").trim();
        return Err(Missing::Failed(format!("{} failed ({}): {first}", words(), output.status)));
    }
    String::from_utf8(output.stdout).map_err(|_| Missing::Failed(format!("{} printed no UTF-8", words())))
}

/// Services often run with a PATH that leaves out where these tools are.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin", "/usr/bin", "/bin", "/usr/local/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|file| file.is_absolute() && file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_tool_that_hangs_is_given_up() {
        let result = run_for(Duration::from_millis(50), "sleep", &["60"]).await;
        assert_eq!(result, Err(Missing::Failed("`sleep 60` gave no answer within 50ms".to_owned())));
    }

    #[tokio::test]
    async fn a_tool_that_is_absent_or_fails_says_so() {
        assert_eq!(run("no-such-tool-here", &[]).await, Err(Missing::Absent));
        let result = run("sh", &["-c", "echo broken >&2; exit 3"]).await;
        let Err(Missing::Failed(why)) = result else { panic!("{result:?}") };
        assert!(why.contains("exit status: 3") && why.ends_with("broken"), "{why}");
        assert_eq!(run("sh", &["-c", "printf fine"]).await, Ok("fine".to_owned()));
    }
}
