//! What is wrong with a configuration, shown where it is wrong.

use std::{fmt, ops::Range};

use unicode_width::UnicodeWidthStr;

/// Characters shown of a line on either side of a problem.
const AROUND: usize = 60;

/// One problem, by its place in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    span: Range<usize>,
    message: String,
    hint: String,
}

impl Problem {
    pub(super) fn new(span: Range<usize>, message: &str, hint: &str) -> Self {
        // Both quote the file, and a terminal would obey what is in it.
        Self {
            span,
            message: message.replace(char::is_control, " "),
            hint: hint.replace(char::is_control, " "),
        }
    }

    /// A sentence with a hint behind its last "; ".
    pub(super) fn said(span: Range<usize>, sentence: &str) -> Self {
        let (message, hint) = sentence.rsplit_once("; ").unwrap_or((sentence, ""));
        Self::new(span, message, hint)
    }
}

/// Every problem of a configuration, in the order of its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errors {
    file: String,
    problems: Vec<Shown>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Shown {
    line: usize,
    column: usize,
    /// The line, or the part of it that matters.
    excerpt: String,
    /// Columns before the marker, and its width.
    marker: (usize, usize),
    message: String,
    hint: String,
}

impl Errors {
    pub(super) fn new(text: &str, mut problems: Vec<Problem>) -> Self {
        problems.sort_by_key(|problem| problem.span.start);
        let problems = problems.into_iter().map(|problem| show(text, problem)).collect();
        Self { file: "configuration".to_owned(), problems }
    }

    /// The same, of a file with this name.
    #[must_use]
    pub fn of(self, file: String) -> Self {
        Self { file, ..self }
    }

    /// Line and column of each, from 1.
    pub fn places(&self) -> impl Iterator<Item = (usize, usize)> {
        self.problems.iter().map(|problem| (problem.line, problem.column))
    }
}

fn show(text: &str, problem: Problem) -> Shown {
    let start = text.floor_char_boundary(problem.span.start);
    let end = text.floor_char_boundary(problem.span.end.max(start));
    let before = text.get(..start).unwrap_or_default();
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let (line, rest) = (before.matches('\n').count() + 1, text.get(line_start..).unwrap_or_default());
    let whole = rest.split('\n').next().unwrap_or_default();
    let ahead = text.get(line_start..start).unwrap_or_default();
    let column = ahead.chars().count() + 1;
    let marked = text.get(start..end).unwrap_or_default().split('\n').next().unwrap_or_default();
    // A long line is shown in part; what a terminal would obey is not shown at all.
    let skipped = (column - 1).saturating_sub(AROUND);
    let clean = |part: &str, skip: usize, take: usize| -> String {
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        part.trim_end_matches('\r').chars().skip(skip).take(take).map(plain).collect()
    };
    let excerpt = clean(whole, skipped, 2 * AROUND);
    let indent = clean(ahead, skipped, AROUND).width();
    let width = clean(marked, 0, AROUND).width();
    Shown {
        line,
        column,
        marker: (indent, width.max(1)),
        excerpt,
        message: problem.message,
        hint: problem.hint,
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.problems.as_slice() {
            [_] => writeln!(f, "the configuration has an error; nothing was started")?,
            all => writeln!(f, "the configuration has {} errors; nothing was started", all.len())?,
        }
        for (index, problem) in self.problems.iter().enumerate() {
            let Shown { line, column, excerpt, marker: (indent, width), message, hint } = problem;
            let number = line.to_string();
            let margin = " ".repeat(number.len());
            writeln!(f, "{}:{line}:{column}: {message}", self.file)?;
            writeln!(f, "{margin} |\n{number} | {}", excerpt.trim_end())?;
            write!(f, "{margin} | {}{}", " ".repeat(*indent), "^".repeat(*width))?;
            if !hint.is_empty() {
                write!(f, "\n{margin} = hint: {hint}")?;
            }
            if index + 1 < self.problems.len() {
                f.write_str("\n\n")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Errors {}
