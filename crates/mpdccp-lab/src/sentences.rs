//! Fills the template of sentences, `templates/sentences.txt`.

use std::collections::BTreeMap;

use minijinja::{Value, context};

use crate::Scenario;
use crate::comparison::{Comparison, Row, number};
use crate::document::render;
use crate::estimate::{Estimate, difference, paired, word};
use crate::scenario::Cell;

/// Rate, in Mbit/s, above which a path counts as being in use.
const IN_USE: u32 = 3;

/// Returns sentences about a cell's variants. Each line produced by the template is a sentence.
pub fn sentences(scenario: &Scenario, all: &[Comparison], cell: &str) -> Vec<String> {
    let here: Vec<&Comparison> = all.iter().filter(|c| c.cell == cell).collect();
    let mut paths = scenario.paths.iter().filter(|p| !p.outside);
    let second = paths.nth(1).map(|path| path.name.as_ref().clone());
    let cell = scenario.cell(cell).unwrap_or(scenario.headline());
    let event = scenario.events_s().last().map(|t| scenario.event_words(*t, cell));
    let with = context! {
        since => since(scenario, cell),
        second => second.filter(|_| event.is_some()),
        event,
        in_use => IN_USE,
        variants => here.iter().map(|c| variant(c)).collect::<Vec<_>>(),
        compared => compared(&here).unwrap_or_default(),
    };
    let text = render("sentences.txt", with).unwrap_or_else(|e| e.to_string());
    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

fn text(estimate: Estimate) -> String {
    number(Some(estimate.median))
}

fn variant(c: &Comparison) -> Value {
    let metrics: BTreeMap<&str, String> =
        c.rows.iter().filter_map(|row| Some((row.metric, text(row.ours?)))).collect();
    let told = [
        ("goodput_mbps", "a goodput of ", " Mbit/s"),
        ("lost_pct", "", " % of all packets that its application sent did not arrive"),
        ("link_lost_pct", "", " % of the packets that it sent over the links were lost there"),
    ];
    let loss = |(metric, before, after): &(&str, &str, &str)| {
        metrics.get(metric).map(|value| format!("{before}{value}{after}"))
    };
    let aim = |row: &Row| {
        let (text, verdict) = row.aim.as_ref()?;
        let verdict = word(*verdict);
        Some(context! { metric => row.metric, ours => c.text(row.ours), text, verdict })
    };
    context! {
        shown => c.shown(),
        losses => told.iter().filter_map(loss).collect::<Vec<_>>(),
        aims => c.rows.iter().filter_map(aim).collect::<Vec<_>>(),
        metrics,
    }
}

/// Returns the beginning of a sentence that states the time span most metrics cover.
fn since(scenario: &Scenario, cell: &Cell) -> String {
    let (from, last) = (scenario.measured_from_s(), scenario.events_s().last().copied());
    match last.filter(|t| *t >= from) {
        Some(t) => format!("From {} at t = {t} s on, ", scenario.event_words(t, cell)),
        None if from > 0.0 => format!("From t = {from} s on, "),
        None => "Over the whole run, ".to_owned(),
    }
}

/// Returns a sentence that compares CCID 5 with CCID 2 in runs with the same seeds.
fn compared(here: &[&Comparison]) -> Option<String> {
    let of =
        |label: &str| here.iter().find(|c| c.label == label)?.rows.iter().find(|r| r.metric == "app_p95_ms");
    let (two, five) = (of("ccid2")?, of("ccid5")?);
    let pairs = paired(&five.runs, &two.runs).into_iter().filter(|(_, two)| *two > 0.0);
    let change = difference(&pairs.map(|(five, two)| (five / two * 100.0, 100.0)).collect::<Vec<_>>())?;
    let (low, high) = change.range();
    if low <= 0.0 && high >= 0.0 {
        return Some(
            "The runs show no difference between the 95th percentiles of latency of ccid5 and ccid2."
                .to_owned(),
        );
    }
    let words = if change.median < 0.0 { "lower" } else { "higher" };
    let interval = change.interval.map_or(String::new(), |i| {
        let (a, b) = (i.low.abs().min(i.high.abs()), i.low.abs().max(i.high.abs()));
        format!(" ({:.0} % interval of {} pairs of runs: {a:.0} to {b:.0} %)", i.coverage * 100.0, change.n)
    });
    let by = change.median.abs();
    Some(format!("The 95th percentile of latency is {by:.0} % {words} with ccid5 than with ccid2{interval}."))
}
