//! The report of a set: sections of a sentence, figures and a table.

use super::options::{Options, command};
use crate::bounds::Bounds;
use crate::code;
use crate::estimate::{Estimate, Verdict};
use crate::report::{self, escape};

/// The whole report.
#[derive(Clone, Debug, Default)]
pub(super) struct Page {
    pub(super) title: &'static str,
    pub(super) set: &'static str,
    pub(super) sections: Vec<Section>,
}

/// One experiment.
#[derive(Clone, Debug, Default)]
pub(super) struct Section {
    pub(super) title: String,
    /// Made from the figures below.
    pub(super) sentence: String,
    /// (what it shows, itself as HTML).
    pub(super) figures: Vec<(String, String)>,
    pub(super) rows: Vec<Row>,
}

/// One line of a table.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) what: String,
    pub(super) paper: Option<&'static str>,
    /// One a run.
    pub(super) ours: Vec<f64>,
    /// What is wanted.
    pub(super) aim: Option<Bounds>,
}

impl Row {
    /// Over the runs.
    pub(super) fn estimate(&self) -> Option<Estimate> {
        Estimate::of(&self.ours)
    }

    pub(super) fn median(&self) -> Option<f64> {
        self.estimate().map(|e| e.median)
    }

    /// Whether it lies where it should.
    pub(super) fn met(&self) -> Option<Verdict> {
        Some(self.aim?.judge(self.estimate()?))
    }

    fn ours_text(&self) -> String {
        let runs = |e: Estimate| if e.n > 1 { format!("{}, {} runs", e.text(), e.n) } else { e.text() };
        self.estimate().map_or("–".to_owned(), runs)
    }

    fn aim_text(&self) -> String {
        self.aim.map_or(String::new(), |aim| aim.text())
    }

    fn verdict(&self) -> &'static str {
        self.met().map_or("", Verdict::word)
    }

    fn cells(&self) -> [String; 4] {
        [self.what.clone(), self.paper.unwrap_or("–").to_owned(), self.ours_text(), self.aim_text()]
    }
}

impl Page {
    fn made_by(&self, backend: &str, options: &Options) -> String {
        command(self.set, backend, options)
    }

    fn warning(options: &Options) -> &'static str {
        if options.quick { " Quick runs are too short for their figures to say much." } else { "" }
    }

    /// One file with everything in it.
    pub(super) fn html(&self, backend: &str, options: &Options) -> String {
        let mut out = format!(
            "<p>Made by <code>{}</code>, version {}, {}.{}</p>\n",
            escape(&self.made_by(backend, options)),
            env!("CARGO_PKG_VERSION"),
            code::words(),
            Self::warning(options),
        );
        for section in &self.sections {
            out += &format!("<h2>{}</h2>\n<p>{}</p>\n", escape(&section.title), escape(&section.sentence));
            for (what, html) in &section.figures {
                out += &report::figure(html, what);
            }
            out += "<div class=\"wide\"><table><tr><th></th><th>paper</th><th>ours</th><th>aim</th><th></th></tr>\n";
            for row in &section.rows {
                let cells: String =
                    row.cells().iter().map(|cell| format!("<td>{}</td>", escape(cell))).collect();
                let verdict = row.verdict();
                out += &format!("<tr>{cells}<td class=\"{verdict}\">{verdict}</td></tr>\n");
            }
            out += "</table></div>\n";
        }
        report::page(self.title, &out)
    }

    /// Sentences and tables alone.
    pub(super) fn markdown(&self, backend: &str, options: &Options) -> String {
        let mut out = format!(
            "# {}\n\n`{}`, {}.{}\n",
            self.title,
            self.made_by(backend, options),
            code::words(),
            Self::warning(options)
        );
        for section in &self.sections {
            out += &format!(
                "\n## {}\n\n{}\n\n| | paper | ours | aim | |\n|---|---|---|---|---|\n",
                section.title, section.sentence
            );
            for row in &section.rows {
                out += &format!("| {} | {} |\n", row.cells().join(" | "), row.verdict());
            }
        }
        out
    }
}
