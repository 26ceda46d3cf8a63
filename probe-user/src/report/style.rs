//! How text looks: colour, width, and what may be printed at all.

use super::document::{Severity, Verdict};

/// Settings of a text report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    pub colour: bool,
    /// Columns.
    pub width: u16,
}

impl Style {
    /// 80 columns, no colour.
    pub const PLAIN: Self = Self { colour: false, width: 80 };

    /// Red for what the load balancer counts as failed, green for OK, yellow for what is open.
    pub fn verdict(self, verdict: Verdict, text: &str) -> String {
        self.paint(
            match verdict {
                Verdict::Ok => "32",
                Verdict::Pending => "33",
                _ => "31",
            },
            text,
        )
    }

    pub fn severity(self, severity: Severity, text: &str) -> String {
        self.paint(
            match severity {
                Severity::Error => "1;31",
                Severity::Warning => "33",
                Severity::Info => "36",
            },
            text,
        )
    }

    pub fn good(self, text: &str) -> String {
        self.paint("1;32", text)
    }

    pub fn faint(self, text: &str) -> String {
        self.paint("2", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Names come from the system and from captures: control characters must not reach a terminal.
pub fn clean(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            // Bidirectional overrides reorder what an operator reads.
            let hostile = c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
            if hostile { c.escape_default().collect::<Vec<_>>() } else { vec![c] }
        })
        .collect()
}

/// Breaks prose at spaces; a word longer than the line is cut. The first line starts with `first`, the others with
/// `rest`.
pub fn wrap(text: &str, first: &str, rest: &str, width: usize) -> Vec<String> {
    let length = |line: &str| line.chars().count();
    let mut lines = Vec::new();
    let mut line = first.to_owned();
    let mut empty = true;
    for word in text.split_whitespace() {
        let mut word: Vec<char> = word.chars().collect();
        while !word.is_empty() {
            let gap = usize::from(!empty);
            if length(&line) + gap + word.len() <= width {
                if !empty {
                    line.push(' ');
                }
                line.extend(word.drain(..));
                empty = false;
            } else if !empty {
                lines.push(std::mem::replace(&mut line, rest.to_owned()));
                empty = true;
            } else {
                let room = width.saturating_sub(length(&line)).max(1).min(word.len());
                line.extend(word.drain(..room));
                empty = false;
            }
        }
    }
    if !empty || lines.is_empty() {
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_broken_at_spaces_and_long_words_are_cut() {
        assert_eq!(wrap("one two three", "- ", "  ", 9), ["- one two", "  three"]);
        assert_eq!(wrap("abcdefgh", "", "", 3), ["abc", "def", "gh"]);
        assert_eq!(wrap("", "- ", "  ", 9), ["- "]);
    }

    #[test]
    fn control_characters_are_shown_not_obeyed() {
        assert_eq!(clean("eth0\x1b[2J\n"), "eth0\\u{1b}[2J\\n");
        assert_eq!(clean("a\u{202e}b"), "a\\u{202e}b");
    }
}
