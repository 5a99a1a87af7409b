//! Makes `report.html` of an experiment.

use crate::comparison::{Comparison, aims, measured, number, of_flows, upright, variants};
use crate::document::{Document, Section, Shown, Table};
use crate::scenario::Scenario;
use crate::sentences::sentences;
use crate::summary::{Run, Summary};

/// The rendered figures of one cell.
#[derive(Clone, Debug)]
pub struct CellFigures {
    /// Name of the cell.
    pub cell: String,
    /// Caption and HTML of each figure.
    pub figures: Vec<(String, String)>,
    /// 99th percentile of how late links delivered packets in the runs shown, in µs, or `None` in virtual
    /// time.
    pub lateness_us_p99: Option<f64>,
}

/// Returns the whole report.
pub(crate) fn document(
    scenario: &Scenario,
    summary: &Summary,
    all: &[Comparison],
    cells: &[CellFigures],
) -> Document {
    let Summary { scenario: name, backend, seed, scenario_hash, environment, .. } = summary;
    let made_by = format!(
        "Scenario {name}, backend {backend}, seed {seed}, scenario hash {scenario_hash}{}",
        environment.words()
    );
    Document {
        about: scenario.about.trim().to_owned(),
        warnings: summary.runs.iter().filter_map(warning).collect(),
        sections: cells.iter().map(|cell| section(scenario, all, cell)).collect(),
        ..Document::new(&scenario.title, &made_by)
    }
}

/// Maximum lateness in a valid run, in µs. Anything larger would distort latencies of a few milliseconds.
const TOO_LATE_US: f64 = 1_000.0;

/// Returns a warning if the machine had too much influence on a run's results.
pub fn warning(run: &Run) -> Option<String> {
    let late = |what: &str, us: Option<f64>| {
        let us = us.filter(|us| *us > TOO_LATE_US)?;
        Some(format!("1 % of packets {what} more than {us:.0} µs late"))
    };
    let drops = (run.device_drops > 0)
        .then(|| format!("network devices at the ends of the links dropped {} packets", run.device_drops));
    let said = [
        late("left the links", run.link_lateness_us_p99),
        late("entered the links", run.link_read_lateness_us_p99),
        late("were sent", run.send_lateness_us_p99),
        drops,
    ];
    let said: Vec<String> = said.into_iter().flatten().collect();
    let which = format!("{}, {}, run {}", run.label, run.cell, run.repeat);
    (!said.is_empty()).then(|| format!("The machine was too busy ({which}): {}.", said.join("; ")))
}

/// Returns the section for one cell.
pub(crate) fn section(scenario: &Scenario, all: &[Comparison], cell: &CellFigures) -> Section {
    let lateness = match cell.lateness_us_p99 {
        Some(us) => {
            format!("99 % of packets left the emulated links no more than {} µs late.", number(Some(us)))
        }
        None => "No packet left the emulated links late, because the run was in virtual time.".to_owned(),
    };
    let shown =
        |(what, html): &(String, String)| Shown { caption: format!("{what} {lateness}"), html: html.clone() };
    let here: Vec<&Comparison> = all.iter().filter(|c| c.cell == cell.cell).collect();
    let spread = spread(here.iter().map(|c| c.n).max().unwrap_or(0));
    let of = measured(&here);
    let tables = [
        Table::of(
            format!("Medians of the runs{spread}, of {of} unless stated otherwise"),
            upright(variants(&here, &[])),
        ),
        Table::of(format!("Medians of the runs for every flow{spread}"), of_flows(&here)),
        Table::of(
            "Aims: met if the whole interval meets the aim, open if only the median does, or if some runs lack the metric",
            aims(&here),
        ),
    ];
    Section {
        title: cell.cell.clone(),
        about: String::new(),
        figures: cell.figures.iter().map(shown).collect(),
        tables: tables.into_iter().flatten().collect(),
        sentences: sentences(scenario, all, &cell.cell),
    }
}

/// Returns text that says what the intervals mean for this number of runs.
pub(crate) fn spread(n: u64) -> &'static str {
    match n {
        0..=2 => "",
        3..=5 => {
            ", with intervals that contain all runs, and the probability that such an interval contains the true median"
        }
        _ => ", with 95 % intervals",
    }
}
