//! `report.html`: one file with everything in it.

use std::fmt::Write as _;

use crate::comparison::{Comparison, number, sentences};
use crate::figures::{SCRIPT, STYLE};
use crate::scenario::Scenario;
use crate::summary::Summary;

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
        "<p>Scenario <code>{}</code>, backend <code>{}</code>, seed {}, version {} ({}), kernel {}, {} CPUs.</p>",
        escape(&summary.scenario),
        summary.backend,
        summary.seed,
        summary.version,
        summary.commit.unwrap_or("commit unknown"),
        escape(env.kernel.as_deref().unwrap_or("unknown")),
        env.cpus,
    );
    for cell in cells {
        let _ = writeln!(out, "<h2>{}</h2>", escape(&cell.cell));
        cell_html(&mut out, scenario, all, cell);
    }
    page(&scenario.title, &out)
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

/// A figure, as [`crate::figures::Figure::save`] gives it, with what it shows.
pub(crate) fn figure(html: &str, caption: &str) -> String {
    format!("<figure>{html}<figcaption>{}</figcaption></figure>\n", escape(caption))
}

/// What one cell shows: sentences, figures, tables.
pub(crate) fn cell_html(out: &mut String, scenario: &Scenario, all: &[Comparison], cell: &CellFigures) {
    for sentence in sentences(scenario, all, &cell.cell) {
        let _ = writeln!(out, "<p>{}</p>", escape(&sentence));
    }
    let lateness = match cell.lateness_us_p99 {
        Some(us) => {
            format!("99 % of packets left the emulated links no more than {} µs late.", number(Some(us)))
        }
        None => "In virtual time: the links are exact.".to_owned(),
    };
    for (what, html) in &cell.figures {
        out.push_str(&figure(html, &format!("{what} {lateness}")));
    }
    for c in all.iter().filter(|c| c.cell == cell.cell) {
        table(out, c);
    }
}

fn table(out: &mut String, c: &Comparison) {
    let plural = if c.n == 1 { "" } else { "s" };
    let _ = write!(
        out,
        "<div class=\"wide\"><table><caption>{}, median of {} run{plural}</caption><tr><th>metric</th>",
        escape(&c.shown()),
        c.n
    );
    for source in &c.sources {
        let _ = write!(out, "<th>{}</th>", escape(source));
    }
    out.push_str("<th>ours</th><th>aim</th><th></th></tr>\n");
    for row in &c.rows {
        let _ = write!(out, "<tr><td>{}</td>", escape(row.words));
        for value in &row.references {
            let _ = write!(out, "<td>{}</td>", number(*value));
        }
        let (aim, met) = row.aim.clone().unwrap_or_default();
        let verdict = match met {
            Some(true) => "<td class=\"met\">met</td>",
            Some(false) => "<td class=\"missed\">missed</td>",
            None => "<td></td>",
        };
        let _ = writeln!(out, "<td>{}</td><td>{}</td>{verdict}</tr>", number(row.ours), escape(&aim));
    }
    out.push_str("</table></div>\n");
}
