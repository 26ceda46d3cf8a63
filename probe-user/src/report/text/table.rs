//! One line a series.

use std::collections::HashSet;

use super::{
    Style, lb,
    row::{Row, rows},
};
use crate::report::{
    document::{Report, Series, Severity, Verdict, Window},
    style::{clean, width, wrap},
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    Nic,
    Source,
    Target,
    Protocol,
    Verdict,
    Lb,
    Since,
    Attempts,
    Every,
    P99,
}

impl Column {
    const ALL: [Self; 10] = [
        Self::Nic,
        Self::Source,
        Self::Target,
        Self::Protocol,
        Self::Verdict,
        Self::Lb,
        Self::Since,
        Self::Attempts,
        Self::Every,
        Self::P99,
    ];

    const fn head(self) -> &'static str {
        match self {
            Self::Nic => "NIC",
            Self::Source => "SOURCE",
            Self::Target => "TARGET",
            Self::Protocol => "PROTO",
            Self::Verdict => "VERDICT",
            // The load balancer's view.
            Self::Lb => "LB",
            Self::Since => "SINCE",
            Self::Attempts => "OK/FAIL",
            Self::Every => "EVERY",
            Self::P99 => "P99",
        }
    }

    fn cell(self, row: &Row<'_>, window: &Window) -> String {
        match self {
            Self::Nic => clean(&row.series.nic),
            Self::Source => clean(&row.series.source),
            Self::Target => row.target(),
            Self::Protocol => row.protocol(),
            Self::Verdict => row.verdict(),
            Self::Lb => row.lb(),
            Self::Since => row.since(window),
            Self::Attempts => row.attempts(),
            Self::Every => row.every(),
            Self::P99 => row.p99(),
        }
    }

    fn paint(self, series: &Series, late: bool, cell: &str, style: Style) -> String {
        match (self, &series.lb_view) {
            _ if !series.confirmed => style.faint(cell),
            (Self::Verdict | Self::Lb | Self::Attempts, _) if lb::resting(series) => style.faint(cell),
            (Self::Verdict, _) => style.verdict(series.verdict, cell),
            (Self::Lb, Some(view)) => style.lb(view.state, cell),
            // The latest attempt may be fine although others failed.
            (Self::Attempts, _) if lb::failed(series) > 0 => style.verdict(Verdict::NoReply, cell),
            (Self::P99, _) if late => style.severity(Severity::Warning, cell),
            _ => cell.to_owned(),
        }
    }
}

const GAP: usize = 2;

/// A column with its cells, the head first.
struct Filled {
    column: Column,
    cells: Vec<String>,
    width: usize,
}

pub(super) fn lines(report: &Report, style: Style) -> Vec<String> {
    let rows = rows(report);
    let mut table: Vec<Filled> = Column::ALL.map(|column| filled(column, &rows, &report.window)).into();
    let ambiguous = ambiguous(&report.probes);
    table.retain(|filled| match filled.column {
        Column::Source => ambiguous,
        Column::Lb | Column::Since => filled.cells.iter().skip(1).any(|cell| cell != "-"),
        _ => true,
    });
    let total = |table: &[Filled]| table.iter().map(|filled| filled.width + GAP).sum::<usize>() - GAP;
    for dropped in dispensable(&report.probes) {
        if total(&table) <= style.columns() {
            break;
        }
        table.retain(|filled| filled.column != dropped);
    }
    if total(&table) > style.columns() {
        return rows.iter().flat_map(|row| stacked(row, ambiguous, &report.window, style)).collect();
    }
    let mut lines = vec![style.faint(&line(&table, 0, |_, cell| cell.to_owned()))];
    for (index, row) in rows.iter().enumerate() {
        let paint = |column: Column, cell: &str| column.paint(row.series, row.late(), cell, style);
        lines.push(line(&table, index + 1, paint));
    }
    lines
}

fn filled(column: Column, rows: &[Row<'_>], window: &Window) -> Filled {
    let mut cells = vec![column.head().to_owned()];
    cells.extend(rows.iter().map(|row| column.cell(row, window)));
    let width = cells.iter().map(|cell| width(cell)).max().unwrap_or(0);
    Filled { column, cells, width }
}

/// Whether two series differ in their source alone.
fn ambiguous(probes: &[Series]) -> bool {
    let mut seen = HashSet::new();
    !probes.iter().all(|series| seen.insert((&series.nic, &series.target, series.port)))
}

/// What goes first when a row does not fit; what is wrong stays.
fn dispensable(probes: &[Series]) -> Vec<Column> {
    let plain = probes.first().is_some_and(|first| {
        probes.iter().all(|series| series.protocol == first.protocol && series.proxy.is_none())
    });
    let rest = [Column::P99, Column::Every, Column::Since];
    let protocol = [Column::Protocol];
    if plain { [&protocol[..], &rest].concat() } else { [&rest[..], &protocol].concat() }
}

fn line(table: &[Filled], index: usize, paint: impl Fn(Column, &str) -> String) -> String {
    let mut line = String::new();
    let mut owed = 0;
    for filled in table {
        let Some(cell) = filled.cells.get(index) else { continue };
        // Spaces come before the next cell, not after this one: no line ends in them, and none is painted.
        line.push_str(&" ".repeat(owed));
        owed = filled.width - width(cell) + GAP;
        line.push_str(&paint(filled.column, cell));
    }
    line
}

/// For a terminal that no row fits: what is said of it below its target.
fn stacked(row: &Row<'_>, ambiguous: bool, window: &Window, style: Style) -> Vec<String> {
    let series = row.series;
    let columns = style.columns();
    let mut head = format!("{} {} {}", clean(&series.nic), row.target(), row.protocol());
    if ambiguous {
        head = format!("{head} from {}", clean(&series.source));
    }
    let mut lines = wrap(&head, "", "  ", columns);
    let mut say = |column: Column, text: &str| {
        let told = wrap(text, "  ", "    ", columns);
        lines.extend(told.iter().map(|line| column.paint(series, row.late(), line, style)));
    };
    say(Column::Verdict, &format!("{}, {} ok/fail", row.verdict(), row.attempts()));
    if let Some(view) = &series.lb_view {
        say(Column::Lb, &clean(&format!("load balancer: {}", lb::phrase(view, window))));
    }
    lines
}
