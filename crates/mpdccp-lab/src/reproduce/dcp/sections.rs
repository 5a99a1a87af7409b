//! Writes the report's section for each experiment of the DCP paper.

use std::path::Path;

use super::experiments::{
    ACKS, ASYMMETRIC, BIN_S, CROSS_TRAFFIC, ECHOES, LONG_S, LOSSES, MANY, Made, with_tcp,
};
use super::row::{Row, section};
use crate::LabError;
use crate::document::Section;
use crate::estimate::Verdict;
use crate::figures::dcp::{self as figures, Lines, against_flows, over_time};
use crate::metrics::NAMES;

/// Returns the sections for all runs, and writes their figures to the directory `figures`.
pub(super) fn sections(runs: &[Made], figures: &Path) -> Result<Vec<Section>, LabError> {
    let mut sections = vec![one_flow(runs, figures)?, among_tcp(runs, figures)?];
    sections.extend(long(runs));
    sections.extend(many(runs));
    sections.extend(fast_link(runs));
    sections.extend(asymmetric(runs));
    sections.extend(acknowledgements(runs));
    sections.extend(overhead(runs));
    Ok(sections)
}

/// Returns the runs with this name, one for each seed.
fn called<'a>(runs: &'a [Made], name: &str) -> Vec<&'a Made> {
    runs.iter().filter(|made| made.name == name).collect()
}

fn row(runs: &[&Made], what: Option<String>, metric: &str, paper: Option<&'static str>) -> Row {
    let words = || NAMES.iter().find(|(name, _)| *name == metric).map_or(metric, |(_, words)| words);
    Row {
        what: what.unwrap_or_else(|| words().to_owned()),
        paper,
        runs: runs.len(),
        ours: runs.iter().filter_map(|made| made.kept.run.metrics.get(metric).copied()).collect(),
        aim: runs.first().and_then(|made| made.aim(metric)),
    }
}

fn alone_rows(runs: &[&Made], paper: bool) -> Vec<Row> {
    let said = |text| Some(text).filter(|_| paper);
    let mut rows = vec![
        row(runs, None, "utilisation_pct", said("48")),
        row(runs, None, "friendliness_run", said("0.94")),
        row(runs, None, "steady_pct", said("“the entire 3 minutes” to settle")),
    ];
    rows.extend(
        ["friendliness", "loss_events", "loss_event_pct", "rx_mbps", "wire_p50_ms"]
            .map(|metric| row(runs, None, metric, None)),
    );
    rows
}

fn value(row: &Row) -> String {
    crate::comparison::number(row.median())
}

/// Returns a sentence that summarises the verdicts of a section.
fn verdict(rows: &[Row]) -> String {
    let aimed: Vec<&Row> = rows.iter().filter(|row| row.aim.is_some()).collect();
    let count = |of| aimed.iter().filter(|row| row.met() == Some(of)).count();
    match (aimed.len(), count(Verdict::Met), count(Verdict::Open)) {
        (0, ..) => String::new(),
        (1, 1, _) => "The aim is met.".to_owned(),
        (n, met, _) if n == met => format!("All {n} aims are met."),
        (n, met, 0) => format!("{met} of {n} aims are met."),
        (n, met, open) => {
            format!(
                "{met} of {n} aims are met; {open} are open because the runs differ too much or lack the value."
            )
        }
    }
}

fn end_of(points: &[(f64, f64)]) -> f64 {
    points.last().map_or(1.0, |(t, _)| t.ceil())
}

fn one_flow(runs: &[Made], figures: &Path) -> Result<Section, LabError> {
    let runs = called(runs, "one-flow");
    let rows = alone_rows(&runs, true);
    let mut drawn = Vec::new();
    if let Some(first) = runs.first() {
        let lines = |name: &str| first.kept.series.get(name).cloned().unwrap_or_default();
        let estimate = lines("estimate");
        let end = end_of(&estimate);
        let panel = |title: &str, points| vec![(title.to_owned(), vec![("", points)])];
        let figure = over_time(
            panel("one flow: the sender's estimate of its rate", estimate),
            "rate, kB/s",
            None,
            end,
            1,
        );
        drawn.push((
            "Figure 2: the allowed sending rate, packet headers included. The link carries 1,250 kB/s."
                .to_owned(),
            figure.save(&figures.join("figure2"))?,
        ));
        let ratio = panel("one flow: friendliness", lines("friendliness"));
        drawn.push((
            "Figure 3: rate of the throughput equation for the losses on the link, divided by the sent rate, in windows of 6 s.".to_owned(),
            over_time(ratio, "friendliness", Some(1.0), end, 1).save(&figures.join("figure3"))?,
        ));
    }
    let sentence = format!(
        "Alone, the flow used {} % of the link, with an F of {}. After the first 10 s, {} % of the 10 s windows had a rate within 10 % of the final window's. {}",
        value(&rows[0]),
        value(&rows[1]),
        value(&rows[2]),
        verdict(&rows),
    );
    Ok(section("One flow alone (figures 2 and 3)", sentence, drawn, &rows))
}

fn among_tcp(runs: &[Made], figures: &Path) -> Result<Section, LabError> {
    let mut rows = Vec::new();
    let mut panels: Vec<Lines> = Vec::new();
    let mut lines = Vec::new();
    for (i, cross) in CROSS_TRAFFIC.iter().enumerate() {
        let (mut medians, mut dots) = (Vec::new(), Vec::new());
        for n in cross.counts {
            let at = called(runs, &with_tcp(cross, *n));
            let Some(first) = at.first() else { continue };
            if i == 0 {
                let line = |name: &str| first.kept.series.get(name).cloned().unwrap_or_default();
                let flows = if *n == 1 { "one TCP flow".to_owned() } else { format!("{n} TCP flows") };
                panels.push((flows, vec![("DCCP", line("dccp")), ("all TCP", line("tcp"))]));
            }
            let paper = match (i, n) {
                (0, 1) => Some("“equally”"),
                (0, 9) => Some("close to 1"),
                _ => None,
            };
            let row = row(&at, Some(format!("F, n = {n}, {}", cross.words)), "packet_share", paper);
            let x = f64::from(*n);
            medians.extend(row.median().map(|f| (x, f)));
            dots.extend(row.ours.iter().map(|f| (x, *f)));
            rows.push(row);
        }
        lines.push(figures::Curve { name: cross.short, medians, runs: dots });
    }
    let end = panels.first().map_or(1.0, |(_, lines)| end_of(&lines[0].1) + BIN_S / 2.0 - 1.0);
    let drawn = vec![
        (
            "Figure 4: the DCCP flow and all TCP flows together (Reno, derivative random drop); payload, means over 2 s."
                .to_owned(),
            over_time(panels, "rate, kB/s", None, end, 3).save(&figures.join("figure4"))?,
        ),
        (
            "Figure 5: packet rate of the DCCP flow, divided by the mean packet rate of the TCP flows. Lines connect medians; dots are runs."
                .to_owned(),
            against_flows(lines, rows.iter().find_map(|row| row.aim)).save(&figures.join("figure5"))?,
        ),
    ];
    let reno: Vec<f64> = rows.iter().filter(|r| r.aim.is_some()).filter_map(Row::median).collect();
    let (low, high) = (reno.iter().copied().reduce(f64::min), reno.iter().copied().reduce(f64::max));
    let sentence = format!(
        "Among TCP Reno flows, friendliness lay between {} and {}. {}",
        crate::comparison::number(low),
        crate::comparison::number(high),
        verdict(&rows),
    );
    Ok(section("One flow among TCP flows (figures 4 and 5)", sentence, drawn, &rows))
}

fn many(runs: &[Made]) -> Option<Section> {
    let row = |n: u32| {
        let at = called(runs, &format!("many-{n}"));
        row(&at, Some(format!("F, n = {n}, TCP Reno")), "packet_share", None)
    };
    let rows = MANY.map(row);
    rows.iter().any(|row| row.runs > 0).then(|| {
        let each: Vec<String> =
            MANY.iter().zip(&rows).map(|(n, row)| format!("{} among {n}", value(row))).collect();
        let sentence = format!("Friendliness is {}. {}", each.join(", "), verdict(&rows));
        section("More than nine TCP flows", sentence, Vec::new(), &rows)
    })
}

/// Returns the section about a single flow that runs for longer.
fn long(runs: &[Made]) -> Option<Section> {
    let runs = called(runs, "one-flow-long");
    let rows = alone_rows(&runs, false);
    (!runs.is_empty()).then(|| {
        let sentence = format!(
            "Over {LONG_S} s, friendliness is {} at {} loss events in the median run. {}",
            value(&rows[1]),
            value(&rows[4]),
            verdict(&rows),
        );
        section("One flow alone for longer", sentence, Vec::new(), &rows)
    })
}

fn fast_link(runs: &[Made]) -> Option<Section> {
    let runs = called(runs, "fast-link");
    let rows = alone_rows(&runs, false);
    (!runs.is_empty()).then(|| {
        let sentence = format!(
            "On 100 Mbit/s with 5 ms each way, the flow used {} % of the link, with an F of {}. {}",
            value(&rows[0]),
            value(&rows[1]),
            verdict(&rows),
        );
        section("A faster link with a lower delay", sentence, Vec::new(), &rows)
    })
}

fn asymmetric(runs: &[Made]) -> Option<Section> {
    let mut rows = Vec::new();
    let mut words = Vec::new();
    for label in ASYMMETRIC {
        let at = called(runs, &format!("asymmetric-{label}"));
        let there = row(&at, Some(format!("{label}: received forward, Mbit/s")), "rx_mbps", None);
        let total = row(&at, None, "total_mbps", None);
        let back = total.ours.iter().zip(&there.ours).map(|(all, there)| (all - there) * 1e3).collect();
        let back = Row { what: format!("{label}: received in reverse, kbit/s"), ours: back, ..there.clone() };
        words.push(format!(
            "{label} {} Mbit/s forward and {} kbit/s in reverse",
            value(&there),
            value(&back)
        ));
        rows.extend([there, back]);
    }
    let sentence = format!("Payload received: {}.", words.join("; "));
    let title = "One CCID forward, another in reverse, over 10 Mbit/s and 256 kbit/s";
    rows.iter().any(|row| !row.ours.is_empty()).then(|| section(title, sentence, Vec::new(), &rows))
}

fn acknowledgements(runs: &[Made]) -> Option<Section> {
    let mut rows = Vec::new();
    let mut words = Vec::new();
    for label in ACKS {
        let at = called(runs, &format!("ack-ratio-{label}"));
        let of = |what: &str, metric: &str| row(&at, Some(format!("{label}: {what}")), metric, None);
        let (bytes, packets) = (
            of("reverse bytes per 100 forward bytes", "reverse_pct"),
            of("reverse packets per 100 forward packets", "reverse_packets_pct"),
        );
        words.push(format!("{} with {label}", value(&bytes)));
        rows.extend([bytes, packets, of("share of the link's rate delivered, %", "utilisation_pct")]);
    }
    rows.iter().any(|row| !row.ours.is_empty()).then(|| {
        section(
            "Cost of acknowledgements",
            format!("Bytes in the reverse direction per 100 bytes forward: {}.", words.join(", ")),
            Vec::new(),
            &rows,
        )
    })
}

fn overhead(runs: &[Made]) -> Option<Section> {
    let mut rows = Vec::new();
    let mut words = Vec::new();
    for label in ECHOES {
        for (loss, _) in LOSSES {
            let at = called(runs, &format!("overhead-{label}-{loss}"));
            let of =
                |what: &str, metric: &str| row(&at, Some(format!("{label}, {loss}: {what}")), metric, None);
            let total = of("until the last echo, ms", "all_back_ms");
            if loss == LOSSES[0].0 {
                words.push(format!("{} ms with {label}", value(&total)));
            }
            rows.extend([total, of("median round trip of a packet, ms", "app_p50_ms")]);
            if loss != LOSSES[0].0 {
                rows.push(of("packets without echo, %", "lost_pct"));
            }
        }
    }
    rows.iter().any(|row| !row.ours.is_empty()).then(|| {
        section(
            "Delay of ten packets and their echoes (section 4.3)",
            format!("Without loss, the last echo arrived after {}.", words.join(", ")),
            Vec::new(),
            &rows,
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds::Bounds;

    #[test]
    fn runs_without_a_value_do_not_meet_an_aim() {
        let row = |ours: &[f64]| Row {
            what: String::new(),
            paper: None,
            runs: 2,
            ours: ours.to_vec(),
            aim: Some(Bounds { min: Some(1.0), max: None }),
        };
        assert_eq!(verdict(&[row(&[1.0, 2.0])]), "The aim is met.");
        assert!(verdict(&[row(&[1.0, 2.0]), row(&[1.0])]).starts_with("1 of 2 aims are met; 1 are open"));
        assert_eq!(verdict(&[row(&[1.0, 2.0]), row(&[])]), "1 of 2 aims are met.");
        let section = section("", String::new(), Vec::new(), &[row(&[]), Row { aim: None, ..row(&[]) }]);
        let words: Vec<&str> = section.tables[0].rows.iter().map(|row| row[4].as_str()).collect();
        assert_eq!(words, ["not judged", ""]);
    }
}
