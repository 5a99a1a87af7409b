//! What the numbers say, in sentences: each names the time that its figure is taken over, and speaks of the scenario's own events.

use crate::Scenario;
use crate::comparison::{Comparison, number};
use crate::estimate::{Estimate, Verdict, paired};

/// A path is in use when it carries more than this, Mbit/s.
const IN_USE: u32 = 3;

/// What the numbers say of the variants in a cell.
pub fn sentences(scenario: &Scenario, all: &[Comparison], cell: &str) -> Vec<String> {
    let here: Vec<&Comparison> = all.iter().filter(|c| c.cell == cell).collect();
    let mut out = Vec::new();
    for c in &here {
        out.push(received(scenario, c));
        out.extend(losses(c));
        out.extend(second_path(scenario, c));
        out.extend(mirrored(c));
    }
    out.extend(compared(&here));
    out.extend(here.iter().filter_map(|c| aims(c)));
    out
}

fn text(estimate: Estimate) -> String {
    number(Some(estimate.median))
}

/// The time that most metrics are taken over.
fn since(scenario: &Scenario) -> String {
    let (from, last) = (scenario.measured_from_s(), scenario.events_s().last().copied());
    match last.filter(|t| *t >= from) {
        Some(t) => format!("From {} at t = {t} s on ", scenario.event_words(t)),
        None if from > 0.0 => format!("From t = {from} s on "),
        None => "Over the whole run ".to_owned(),
    }
}

fn received(scenario: &Scenario, c: &Comparison) -> String {
    let rate = c.estimate("rx_mbps").map_or("–".to_owned(), text);
    let mut out = format!("{}{} received {rate} Mbit/s", since(scenario), c.shown());
    if let (Some(p50), Some(p95)) = (c.estimate("app_p50_ms"), c.estimate("app_p95_ms")) {
        out += &format!(
            " at a latency of {} ms in the median and {} ms at the 95th percentile",
            text(p50),
            text(p95)
        );
    }
    out + "."
}

fn losses(c: &Comparison) -> Option<String> {
    let goodput = c.estimate("goodput_mbps").map(|e| format!("a goodput of {} Mbit/s", text(e)));
    let said = [
        ("lost_pct", "of all packets that its application sent did not arrive"),
        ("link_lost_pct", "of its packets on the links were lost there"),
    ];
    let part = |(metric, words): &(&str, &str)| Some(format!("{} % {words}", text(c.estimate(metric)?)));
    let parts: Vec<String> = goodput.into_iter().chain(said.iter().filter_map(part)).collect();
    (!parts.is_empty()).then(|| format!("Over the whole run, for {}: {}.", c.shown(), parts.join(", ")))
}

fn second_path(scenario: &Scenario, c: &Comparison) -> Option<String> {
    let mut paths = scenario.paths.iter().filter(|p| !p.outside);
    let (_, second) = (paths.next()?, paths.next()?);
    let event = scenario.events_s().last().map(|t| scenario.event_words(*t))?;
    let (label, name) = (c.shown(), second.name.as_ref());
    let first = c.estimate("second_path_first_ms");
    let rise = c.estimate("second_path_ms");
    Some(match (first, rise) {
        (Some(first), Some(rise)) => format!(
            "{label} sent its first packet over {name} {} ms after {event}, and had sent more than {IN_USE} Mbit/s over 100 ms {} ms after it.",
            text(first),
            text(rise)
        ),
        (None, Some(rise)) => format!(
            "{label} used {name} before {event}, and had sent more than {IN_USE} Mbit/s over it for 100 ms {} ms after it.",
            text(rise)
        ),
        (Some(first), None) => format!(
            "{label} sent its first packet over {name} {} ms after {event}, and never more than {IN_USE} Mbit/s in 100 ms.",
            text(first)
        ),
        (None, None) => {
            format!("After {event} {label} never sent more than {IN_USE} Mbit/s over {name} in 100 ms.")
        }
    })
}

fn mirrored(c: &Comparison) -> Option<String> {
    let (p50, apart) = (c.estimate("mirror_p50_ms")?, c.estimate("mirror_offset_ms")?);
    Some(format!(
        "Mirrored back to the client, the same packets of {} show {} ms in the median; p50, p95 and p99 of both ways to measure lie within {} ms.",
        c.shown(),
        text(p50),
        text(apart)
    ))
}

/// CCID 5 beside CCID 2, run by run: seeds are the same.
fn compared(here: &[&Comparison]) -> Option<String> {
    let of =
        |label: &str| here.iter().find(|c| c.label == label)?.rows.iter().find(|r| r.metric == "app_p95_ms");
    let (two, five) = (of("ccid2")?, of("ccid5")?);
    let other = |seed: u64| two.runs.iter().find(|(s, _)| *s == seed).map(|(_, v)| *v);
    let pairs: Vec<(f64, f64)> = five
        .runs
        .iter()
        .filter_map(|(seed, v)| Some((*v, other(*seed)?)))
        .filter(|(_, two)| *two > 0.0)
        .collect();
    let (first, second): (Vec<f64>, Vec<f64>) =
        pairs.iter().map(|(five, two)| (five / two * 100.0, 100.0)).unzip();
    let change = paired(&first, &second)?;
    let (low, high) = change.range();
    if low <= 0.0 && high >= 0.0 {
        return Some(
            "The runs do not tell the 95th percentiles of latency of ccid5 and ccid2 apart.".to_owned(),
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

fn aims(c: &Comparison) -> Option<String> {
    let judged: Vec<_> = c.rows.iter().filter_map(|r| Some((r, r.aim.as_ref()?.1?))).collect();
    let named = |of: Verdict| -> Vec<String> {
        let these = judged.iter().filter(|(_, verdict)| *verdict == of);
        let name = |(r, _): &(&crate::comparison::Row, Verdict)| {
            let ours = r.ours.map_or("–".to_owned(), |e| e.text());
            format!("{} ({ours}, aim {})", r.metric, r.aim.as_ref().map_or("", |a| a.0.as_str()))
        };
        these.map(name).collect()
    };
    let (missed, open) = (named(Verdict::Missed), named(Verdict::Open));
    let met = judged.len() - missed.len() - open.len();
    let mut out = match (judged.len(), met) {
        (0, _) => return None,
        (1, 1) => format!("{} reaches its aim", c.shown()),
        (n, met) if n == met => format!("{} reaches all of its {n} aims", c.shown()),
        (n, met) => format!("{} reaches {met} of its {n} aims", c.shown()),
    };
    if !missed.is_empty() {
        out += &format!("; it misses {}", missed.join(", "));
    }
    if !open.is_empty() {
        out += &format!("; the runs leave open {}", open.join(", "));
    }
    match c.rows.iter().filter(|r| r.aim.as_ref().is_some_and(|a| a.1.is_none())).count() {
        0 => {}
        n => out += &format!("; {n} could not be judged, for what they compare with was not run"),
    }
    Some(out + ".")
}
