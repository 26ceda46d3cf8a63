//! One line a series.

use super::{Style, answer::failed, ms};
use crate::report::{
    document::{Protocol, Series, Verdict},
    endpoint::endpoint,
    style::{clean, width, wrap},
};

const HEAD: [&str; COLUMNS] = ["NIC", "TARGET", "PROTO", "VERDICT", "OUT", "OK/FAIL", "EVERY", "P99"];
const COLUMNS: usize = 8;
const VERDICT: usize = 3;
const ATTEMPTS: usize = 5;
const OUT: usize = 4;
/// What goes first when a row does not fit; what is wrong stays.
const DISPENSABLE: [usize; 4] = [2, 7, 6, OUT];
const GAP: usize = 2;

pub(super) fn lines(series: &[Series], style: Style) -> Vec<String> {
    let rows: Vec<[String; COLUMNS]> = series.iter().map(cells).collect();
    let widths: [usize; COLUMNS] = std::array::from_fn(|column| {
        rows.iter().map(|row| width(&row[column])).chain([HEAD[column].len()]).max().unwrap_or(0)
    });
    let mut columns: Vec<usize> = (0..COLUMNS).collect();
    let total = |columns: &[usize]| columns.iter().map(|column| widths[*column] + GAP).sum::<usize>() - GAP;
    for dropped in DISPENSABLE {
        let needed = dropped == OUT && series.iter().any(|one| one.out_nic.is_some());
        if total(&columns) <= style.columns() || needed {
            break;
        }
        columns.retain(|column| *column != dropped);
    }
    if total(&columns) > style.columns() {
        return series.iter().zip(&rows).flat_map(|(one, row)| stacked(one, row, style)).collect();
    }
    let head = HEAD.map(str::to_owned);
    let mut lines = vec![style.faint(&row(&head, &columns, &widths, |_, cell| cell))];
    for (one, cells) in series.iter().zip(&rows) {
        lines.push(row(cells, &columns, &widths, |column, cell| match column {
            _ if !one.confirmed => style.faint(&cell),
            VERDICT => style.verdict(one.verdict, &cell),
            // The latest attempt may be fine although others failed.
            ATTEMPTS if failed(one) > 0 => style.verdict(Verdict::NoReply, &cell),
            _ => cell,
        }));
    }
    lines
}

fn row(
    cells: &[String; COLUMNS],
    columns: &[usize],
    widths: &[usize; COLUMNS],
    paint: impl Fn(usize, String) -> String,
) -> String {
    let mut line = String::new();
    let mut owed = 0;
    for column in columns {
        // Spaces come before the next cell, not after this one: no line ends in them, and none is painted.
        line.push_str(&" ".repeat(owed));
        owed = widths[*column] - width(&cells[*column]) + GAP;
        line.push_str(&paint(*column, cells[*column].clone()));
    }
    line
}

fn cells(series: &Series) -> [String; COLUMNS] {
    let ok = series.counts.get(&Verdict::Ok).copied().unwrap_or(0);
    [
        clean(&series.nic),
        endpoint(&series.target, series.port),
        protocol(series.protocol).to_owned(),
        series.verdict.code().to_owned(),
        series.out_nic.as_deref().map_or_else(|| "-".to_owned(), clean),
        format!("{ok}/{}", failed(series)),
        interval(series),
        series.latency_ms.map_or_else(|| "-".to_owned(), |latency| ms(latency.p99)),
    ]
}

/// For a terminal that no row fits: the verdict below its target.
fn stacked(series: &Series, cells: &[String; COLUMNS], style: Style) -> Vec<String> {
    let [nic, target, _, code, out, ..] = cells;
    let mut lines = wrap(&format!("{nic} {target}"), "", "  ", style.columns());
    let by = series.out_nic.as_ref().map(|_| format!(" by {out}")).unwrap_or_default();
    let ok = series.counts.get(&Verdict::Ok).copied().unwrap_or(0);
    let text = format!("{code}{by}, {ok} ok, {} failed", failed(series));
    let verdict = wrap(&text, "  ", "  ", style.columns());
    lines.extend(verdict.iter().map(|line| style.verdict(series.verdict, line)));
    lines
}

const fn protocol(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "tcp",
        Protocol::Http => "http",
        Protocol::Https => "https",
    }
}

fn interval(series: &Series) -> String {
    match series.interval_s {
        // Two load balancers on one port.
        Some(_) if series.cadences.len() > 1 => {
            series.cadences.iter().map(|seconds| format!("{seconds:.1}s")).collect::<Vec<_>>().join("+")
        }
        Some(seconds) => format!("{seconds:.1}s"),
        None if series.confirmed => "?".to_owned(),
        None => "once".to_owned(),
    }
}
