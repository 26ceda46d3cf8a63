//! Words and files of a shell script that is pasted as root.

/// A name as one shell word: Linux allows any byte but '/' and white space in a device name (net/core/dev.c,
/// `dev_valid_name`).
pub(super) fn word(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-@:/".contains(c);
    if !name.is_empty() && name.chars().all(plain) {
        name.to_owned()
    } else {
        format!("'{}'", name.replace('\'', r"'\''"))
    }
}

/// Lines that write a file.
pub(super) fn write(path: &str, content: &str) -> Vec<String> {
    here_document(">", path, content)
}

/// Lines that add to a file.
pub(super) fn append(path: &str, content: &str) -> Vec<String> {
    here_document(">>", path, content)
}

fn here_document(how: &str, path: &str, content: &str) -> Vec<String> {
    // Contents come from this program and from configuration files, of which none has such a line; but a copy of one that
    // had would end early.
    let mut end = "NVAPROBE".to_owned();
    while content.lines().any(|line| line == end) {
        end.push('_');
    }
    let mut lines = vec![format!("cat {how} {} <<'{end}'", word(path))];
    lines.extend(content.lines().map(str::to_owned));
    lines.push(end);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_name_is_one_word_and_never_a_command() {
        assert_eq!(word("eth0.100"), "eth0.100");
        assert_eq!(word("$(reboot)"), "'$(reboot)'");
        assert_eq!(word("a;b"), "'a;b'");
        assert_eq!(word("a'b"), r"'a'\''b'");
        assert_eq!(word(""), "''");
    }

    #[test]
    fn a_file_never_ends_early() {
        let lines = write("/etc/x", "a\nNVAPROBE\n$b\n");
        assert_eq!(lines, ["cat > /etc/x <<'NVAPROBE_'", "a", "NVAPROBE", "$b", "NVAPROBE_"]);
    }
}
