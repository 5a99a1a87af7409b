//! A row of the report's tables.

use crate::bounds::Bounds;
use crate::document::{Section, Shown, Table};
use crate::estimate::{Estimate, Verdict, over_all, word};

/// One row of a table.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) what: String,
    pub(super) paper: Option<&'static str>,
    /// Number of runs.
    pub(super) runs: usize,
    /// The value of each run that has one.
    pub(super) ours: Vec<f64>,
    /// The aim for the value, if there is one.
    pub(super) aim: Option<Bounds>,
}

impl Row {
    /// Returns the estimate over the runs.
    pub(super) fn estimate(&self) -> Option<Estimate> {
        Estimate::of(&self.ours)
    }

    pub(super) fn median(&self) -> Option<f64> {
        self.estimate().map(|e| e.median)
    }

    /// Returns the verdict on the aim, or `None` if there is no aim or no value.
    pub(super) fn met(&self) -> Option<Verdict> {
        over_all(Some(self.aim?.judge(self.estimate()?)), self.ours.len(), self.runs)
    }

    fn ours_text(&self) -> String {
        let runs = |e: Estimate| if e.n > 1 { format!("{}, {} runs", e.text(), e.n) } else { e.text() };
        self.estimate().map_or("–".to_owned(), runs)
    }

    fn aim_text(&self) -> String {
        self.aim.map_or(String::new(), |aim| aim.text())
    }

    fn verdict(&self) -> &'static str {
        if self.aim.is_some() { word(self.met()) } else { "" }
    }

    fn cells(&self) -> Vec<String> {
        let (paper, verdict) = (self.paper.unwrap_or("–").to_owned(), self.verdict().to_owned());
        vec![self.what.clone(), paper, self.ours_text(), self.aim_text(), verdict]
    }
}

/// Returns a section of the report with figures (caption, HTML), a table of `rows`, and a sentence.
pub(super) fn section(
    title: &str,
    sentence: String,
    figures: Vec<(String, String)>,
    rows: &[Row],
) -> Section {
    let head = ["", "paper", "ours", "aim", ""].map(str::to_owned).to_vec();
    let rows = rows.iter().map(Row::cells).collect();
    Section {
        title: title.to_owned(),
        figures: figures.into_iter().map(|(caption, html)| Shown { caption, html }).collect(),
        tables: vec![Table { head, rows, ..Table::default() }],
        sentences: vec![sentence],
        ..Section::default()
    }
}
