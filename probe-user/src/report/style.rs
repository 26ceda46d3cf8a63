//! How text looks: colour, width, and what may be printed at all.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::document::{LbState, Severity, Verdict};

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

    /// Fewer columns than this hold no report: it is laid out for this many then.
    pub const NARROWEST: u16 = 20;

    /// Columns to lay out for.
    pub(super) fn columns(self) -> usize {
        usize::from(self.width.max(Self::NARROWEST))
    }

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

    /// Red for what is out of rotation, yellow for what is not known.
    pub fn lb(self, state: LbState, text: &str) -> String {
        self.paint(
            match state {
                LbState::Up => "32",
                LbState::Unknown => "33",
                LbState::Down | LbState::Held => "31",
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

/// Names come from the system and from captures: what a terminal would obey, hide or reorder is shown instead.
///
/// Characters without a width (zero-width spaces, joiners, bidirectional controls, combining marks) are among it:
/// two names that look alike are then told apart.
pub fn clean(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        let blank = c.is_whitespace() && c != ' ';
        // Control characters have no width at all.
        if blank || c.width().is_none_or(|width| width == 0) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Columns that a text takes.
pub fn width(text: &str) -> usize {
    text.width()
}

/// The text and spaces up to so many columns.
pub fn pad(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

/// Breaks prose at spaces; a word longer than the line is cut. The first line starts with `first`, the others with
/// `rest`, as far as they leave room.
pub fn wrap(text: &str, first: &str, rest: &str, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = first.to_owned();
    let mut used = width(first);
    let mut empty = true;
    for word in text.split_whitespace() {
        let needed = width(word);
        if !empty && used + 1 + needed > columns {
            lines.push(std::mem::replace(&mut line, rest.to_owned()));
            used = width(rest);
            empty = true;
        }
        if !empty {
            line.push(' ');
            used += 1;
        }
        for c in word.chars() {
            let wide = c.width().unwrap_or(0);
            if used + wide > columns && !empty {
                lines.push(std::mem::replace(&mut line, rest.to_owned()));
                used = width(rest);
            }
            line.push(c);
            used += wide;
            empty = false;
        }
    }
    if !empty || lines.is_empty() {
        lines.push(line);
    }
    lines
}

/// `1 warning`, `2 warnings`.
pub fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_broken_at_spaces_and_long_words_are_cut() {
        assert_eq!(wrap("one two three", "- ", "  ", 9), ["- one two", "  three"]);
        assert_eq!(wrap("abcdefgh", "", "", 3), ["abc", "def", "gh"]);
        assert_eq!(wrap("ab cdefgh", "", " ", 4), ["ab", " cde", " fgh"]);
        assert_eq!(wrap("", "- ", "  ", 9), ["- "]);
    }

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(wrap("網卡一 x", "", "", 6), ["網卡一", "x"]);
        assert_eq!(wrap("網卡一", "", "", 5), ["網卡", "一"]);
        assert_eq!(pad("網", 4), "網  ");
    }

    #[test]
    fn what_a_terminal_would_obey_hide_or_reorder_is_shown() {
        assert_eq!(clean("eth0\x1b[2J\n"), "eth0\\u{1b}[2J\\n");
        assert_eq!(clean("a\u{202e}b\u{200b}c\u{2028}d\u{9b}"), "a\\u{202e}b\\u{200b}c\\u{2028}d\\u{9b}");
        assert_eq!(clean("eth0 → 網卡"), "eth0 → 網卡");
    }
}
