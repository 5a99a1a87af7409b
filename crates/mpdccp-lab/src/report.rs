//! `report.html`: one file with everything in it.

use std::fmt::Write as _;

use crate::code;
use crate::comparison::{Comparison, aims, measured, number, of_flows, upright, variants};
use crate::figures::{SCRIPT, STYLE};
use crate::scenario::Scenario;
use crate::sentences::sentences;
use crate::summary::{Run, Summary};

/// The figures of one cell.
#[derive(Clone, Debug)]
pub struct CellFigures {
    /// Cell.
    pub cell: String,
    /// (what it shows, itself as HTML).
    pub figures: Vec<(String, String)>,
    /// Of the runs shown.
    pub lateness_us_p99: Option<f64>,
}

pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The whole document.
pub fn html(scenario: &Scenario, summary: &Summary, all: &[Comparison], cells: &[CellFigures]) -> String {
    let mut out = format!("<p>{}</p>\n", escape(scenario.about.trim()));
    let env = &summary.environment;
    let _ = writeln!(
        out,
        "<p>Scenario <code>{}</code>, backend <code>{}</code>, seed {}, version {}, {}, scenario hash {}{}.</p>",
        escape(&summary.scenario),
        summary.backend,
        summary.seed,
        summary.version,
        code::words(),
        summary.scenario_hash,
        escape(&env.words()),
    );
    for warning in summary.runs.iter().filter_map(warning) {
        let _ = writeln!(out, "<p class=\"missed\">{}</p>", escape(&warning));
    }
    for cell in cells {
        let _ = writeln!(out, "<h2>{}</h2>", escape(&cell.cell));
        cell_html(&mut out, scenario, all, cell);
    }
    page(&scenario.title, &out)
}

/// Packets on no link's account late; more spoils a figure of milliseconds.
const TOO_LATE_US: f64 = 1_000.0;

/// What the machine did to a run that its links did not, if it was much.
pub fn warning(run: &Run) -> Option<String> {
    let late = |what: &str, us: Option<f64>| {
        let us = us.filter(|us| *us > TOO_LATE_US)?;
        Some(format!("1 % of packets {what} more than {us:.0} µs late"))
    };
    let drops = (run.device_drops > 0).then(|| {
        format!("devices of this machine dropped {} packets before they came to a link", run.device_drops)
    });
    let said = [
        late("left the links", run.link_lateness_us_p99),
        late("were taken by the links", run.link_read_lateness_us_p99),
        late("were sent", run.send_lateness_us_p99),
        drops,
    ];
    let said: Vec<String> = said.into_iter().flatten().collect();
    let which = format!("{}, {}, run {}", run.label, run.cell, run.repeat);
    (!said.is_empty()).then(|| format!("The machine was too busy ({which}): {}.", said.join("; ")))
}

/// A document with a title: one file with everything in it, that needs no script to be read.
pub(crate) fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>{title}</title>\n\
         <style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n{body}{SCRIPT}</body></html>\n",
        title = escape(title),
    )
}

/// Sentences as a list.
pub(crate) fn list(out: &mut String, sentences: &[String]) {
    let items: String = sentences.iter().map(|s| format!("<li>{}</li>\n", escape(s))).collect();
    let _ = write!(out, "<ul>\n{items}</ul>\n");
}

/// What stands in a table's cell: an interval has a line of its own, below its median, so that columns stay narrow.
pub(crate) fn entry(text: &str) -> String {
    let parts = text.strip_suffix(')').and_then(|text| text.split_once(" ("));
    match parts.filter(|(_, rest)| rest.contains(" to ")) {
        Some((median, interval)) => format!("{}<small>{}</small>", escape(median), escape(interval)),
        None => escape(text),
    }
}

/// A figure, as [`crate::figures::Figure::save`] gives it, with what it shows.
pub(crate) fn figure(html: &str, caption: &str) -> String {
    format!("<figure>{html}<figcaption>{}</figcaption></figure>\n", escape(caption))
}

/// What one cell shows: sentences, figures, tables.
pub(crate) fn cell_html(out: &mut String, scenario: &Scenario, all: &[Comparison], cell: &CellFigures) {
    let lateness = match cell.lateness_us_p99 {
        Some(us) => {
            format!("99 % of packets left the emulated links no more than {} µs late.", number(Some(us)))
        }
        None => "In virtual time: the links are exact.".to_owned(),
    };
    let mut figures = cell.figures.iter().map(|(what, html)| figure(html, &format!("{what} {lateness}")));
    out.extend(figures.next());
    let here: Vec<&Comparison> = all.iter().filter(|c| c.cell == cell.cell).collect();
    let spread = spread(here.iter().map(|c| c.n).max().unwrap_or(0));
    table(
        out,
        &format!("Medians of the runs{spread}, of {} unless a line says otherwise", measured(&here)),
        &upright(variants(&here, &[])),
    );
    let of_flows = of_flows(&here);
    if !of_flows.is_empty() {
        table(out, &format!("Every flow, medians of the runs{spread}"), &of_flows);
    }
    let aims = aims(&here);
    if aims.len() > 1 {
        table(
            out,
            "Aims: met if the whole interval lies where it should, open if only the median does",
            &aims,
        );
    }
    list(out, &sentences(scenario, all, &cell.cell));
    out.extend(figures);
}

/// What the intervals of so many runs are.
pub(crate) fn spread(n: u64) -> &'static str {
    match n {
        0..=2 => "",
        3..=5 => {
            ", with all runs between the ends of the intervals, and how often such ends lie around the median"
        }
        _ => ", with 95 % intervals",
    }
}

fn table(out: &mut String, caption: &str, lines: &[Vec<String>]) {
    let _ = write!(out, "<div class=\"wide\"><table><caption>{}</caption>", escape(caption));
    for (i, line) in lines.iter().enumerate() {
        let tag = if i == 0 { "th" } else { "td" };
        let cells: String =
            line.iter().map(|cell| format!("<{tag}{}>{}</{tag}>", class(cell), entry(cell))).collect();
        let _ = writeln!(out, "<tr>{cells}</tr>");
    }
    out.push_str("</table></div>\n");
}

/// Colours verdicts.
pub(crate) fn class(cell: &str) -> &'static str {
    match cell {
        "met" => " class=\"met\"",
        "missed" => " class=\"missed\"",
        "open" => " class=\"open\"",
        _ => "",
    }
}
