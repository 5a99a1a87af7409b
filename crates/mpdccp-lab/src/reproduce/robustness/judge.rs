//! Figures of a run of the matrix, and their aims.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::bounds::Bounds;
use crate::record::{Fate, seconds};
use crate::scenario::LinkKeys;
use crate::store::AllSeries;
use crate::summary::Latency;
use crate::{Plan, RunRecord};

/// Figures that can have aims.
pub(super) const FIGURES: [&str; 7] = ["utilisation", "p95", "dropped", "jain", "share", "worst", "back"];
/// Rates are counted in bins of this, s.
const BIN_S: f64 = 0.1;
/// A rate counts as reached if it is held for this long, s.
const HELD_S: f64 = 0.5;
/// Time after a change before it is judged, s.
const AFTER_S: f64 = 2.0;

/// The aim for one figure of a point.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Aim {
    /// Name, see [`figures`].
    pub(super) figure: String,
    /// Text for a table's head.
    pub(super) words: String,
    min: Option<f64>,
    max: Option<f64>,
    /// Variants it applies to; all judged ones if empty.
    #[serde(default)]
    only: Vec<String>,
}

impl Aim {
    /// Its bounds.
    pub(super) fn bounds(&self) -> Bounds {
        Bounds { min: self.min, max: self.max }
    }

    /// Whether this variant's figure is shown or judged.
    pub(super) fn concerns(&self, label: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == label) || !self.bounds().any()
    }

    /// The aim in words.
    pub(super) fn text(&self) -> String {
        let bounds = self.bounds().text();
        if bounds.is_empty() { self.words.clone() } else { format!("{} ({bounds})", self.words) }
    }
}

/// Mean capacity of one direction, bit/s, with its loss and medium access.
fn capacity(way: &LinkKeys, packet_bits: f64) -> f64 {
    if !way.is_up() {
        return 0.0;
    }
    let mut rate = way.mean_rate().bps() as f64;
    if let Some(a) = way.aggregation {
        let burst = f64::from(a.packets) * packet_bits;
        rate = burst / (a.access.as_secs_f64() + burst / rate);
    }
    if let Some(p) = way.policer {
        rate = rate.min(p.rate.bps() as f64);
    }
    let lost = way.loss.unwrap_or(0.0);
    let in_bursts = way.burst_loss.map_or(0.0, |b| {
        let bad = b.begin / (b.begin + b.end);
        bad * b.bad.unwrap_or(1.0) + (1.0 - bad) * b.good
    });
    rate * (1.0 - lost) * (1.0 - in_bursts)
}

/// Stored series of a run: bits delivered and possible in each bin, and figures over the judged time.
pub(super) fn series(plan: &Plan<'_>, run: &RunRecord, skip_s: f64) -> AllSeries {
    let end = *plan.scenario.duration_s.as_ref();
    let forward = || run.paths.iter().flat_map(|path| &path.forward.packets).filter(|p| p.bytes > 0);
    let data = || forward().filter(|p| p.data.is_some() || run.flows.len() > 1);
    let mut bins = vec![(0.0, 0.0, 0.0); (end / BIN_S).round() as usize];
    for (i, bin) in bins.iter_mut().enumerate() {
        bin.0 = i as f64 * BIN_S;
    }
    let mut sizes = (0.0, 0.0);
    for p in data() {
        let Fate::Delivered(at) = p.fate else { continue };
        sizes = (sizes.0 + f64::from(p.bytes) * 8.0, sizes.1 + 1.0);
        let t = seconds(run, at);
        if let Some(bin) = bins.get_mut((t / BIN_S) as usize).filter(|_| t >= 0.0) {
            bin.1 += f64::from(p.bytes) * 8.0;
        }
    }
    let path = plan.scenario.path_in(0, plan.cell);
    let packet = sizes.0 / f64::max(sizes.1, 1.0);
    let course: Vec<(f64, f64)> = core::iter::once((0.0, path.ways.clone()))
        .chain(path.course())
        .map(|(s, ways)| (s, capacity(&ways[0], packet)))
        .collect();
    let offered = run.flows.first().and_then(|f| f.offered).map(|r| r.bps() as f64);
    for bin in &mut bins {
        let now = course.iter().take_while(|(s, _)| *s <= bin.0 + BIN_S / 2.0).last();
        let can = now.map_or(0.0, |(_, rate)| *rate);
        // Headers add to the offered rate; the link's share of it counts.
        bin.2 = offered.filter(|_| run.flows.len() == 1).map_or(can, |o| can.min(o)) * BIN_S;
    }
    let judged = |t: f64| (skip_s..end).contains(&t);
    let entered = || data().filter(|p| judged(seconds(run, p.entered)));
    let own = || entered().filter(|p| run.flows.len() == 1 || p.data.is_some_and(|(flow, _)| flow == 0));
    let delay = |p: &crate::LinkPacket| match p.fate {
        Fate::Delivered(at) => Some(at.since(p.entered).as_secs_f64() * 1e3),
        Fate::QueueDrop | Fate::Lost => None,
    };
    let dropped = own().filter(|p| p.fate == Fate::QueueDrop).count() as f64;
    let mut all = AllSeries::new();
    let mut figure = |name: &str, value: Option<f64>| {
        all.insert(name.to_owned(), value.map(|v| (0.0, v)).into_iter().collect());
    };
    figure("p95_ms", Latency::of(own().filter_map(delay).collect()).map(|l| l.p95));
    figure("dropped", Some(dropped * 100.0 / (own().count() as f64).max(1.0)));
    let received = |flow: &crate::FlowRecord| -> f64 {
        let late = flow.received.iter().filter(|p| judged(seconds(run, p.at)));
        late.map(|p| f64::from(p.bytes)).sum()
    };
    let rates: Vec<f64> = run.flows.iter().map(received).collect();
    if rates.len() > 1 {
        let (sum, squares) = (rates.iter().sum::<f64>(), rates.iter().map(|r| r * r).sum::<f64>());
        figure("jain", (squares > 0.0).then(|| sum * sum / (rates.len() as f64 * squares)));
        let others = (sum - rates[0]) / (rates.len() - 1) as f64;
        figure("share", Some(rates[0] / others.max(1.0)));
    }
    all.insert("bits".to_owned(), bins.iter().map(|(t, bits, _)| (*t, *bits)).collect());
    all.insert("capacity".to_owned(), bins.iter().map(|(t, _, can)| (*t, *can)).collect());
    let steps = path.course().into_iter().map(|(s, ways)| (s, f64::from(u8::from(ways[0].is_up()))));
    all.insert("events".to_owned(), steps.collect());
    all
}

/// The figures of a run, by the names of [`FIGURES`]; `own_p95` is the path's own latency.
pub(super) fn figures(all: &AllSeries, skip_s: f64, own_p95: Option<f64>) -> BTreeMap<&'static str, f64> {
    let points = |name: &str| all.get(name).map(Vec::as_slice).unwrap_or_default();
    let one = |name: &str| points(name).first().map(|(_, v)| *v);
    let (bits, can) = (points("bits"), points("capacity"));
    // Fraction delivered of the possible bits between two times, if there were any.
    let share = |from: f64, to: f64| {
        let within = |points: &[(f64, f64)]| -> f64 {
            let inside = |t: f64| t > from - BIN_S / 2.0 && t < to - BIN_S / 2.0;
            points.iter().filter(|(t, _)| inside(*t)).map(|(_, v)| v).sum()
        };
        let possible = within(can);
        (possible > 0.0).then(|| within(bits) * 100.0 / possible)
    };
    let end = bits.last().map_or(0.0, |(t, _)| t + BIN_S);
    let starts = |from: f64, to: f64, len: f64| {
        bits.iter().map(|(t, _)| *t).filter(move |t| *t > from - BIN_S / 2.0 && *t + len < to + BIN_S / 2.0)
    };
    let events = points("events");
    let until = |i: usize| events.get(i + 1).map_or(end, |(s, _)| *s);
    let worst = events
        .iter()
        .enumerate()
        .flat_map(|(i, (s, _))| starts(s + AFTER_S, until(i), 1.0).filter_map(|t| share(t, t + 1.0)));
    let back = events.last().filter(|(_, up)| *up > 0.0).map(|(s, _)| {
        starts(*s, end, HELD_S).find(|t| share(*t, t + HELD_S) >= Some(90.0)).map_or(end - s, |t| t - s)
    });
    let found = [
        ("utilisation", share(skip_s, end)),
        ("p95", own_p95.and_then(|own| Some(one("p95_ms")? / own))),
        ("dropped", one("dropped")),
        ("jain", one("jain")),
        ("share", one("share")),
        ("worst", worst.min_by(f64::total_cmp)),
        ("back", back),
    ];
    found.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 Mbit/s for 20 s, of which the fraction `delivered` arrives each second; down from 5 s to 8 s.
    fn run(delivered: impl Fn(f64) -> f64) -> AllSeries {
        let bins = || (0..200).map(|i| f64::from(i) * BIN_S);
        let up = |t: f64| f64::from(u8::from(!(5.0..8.0).contains(&t))) * 1e6 * BIN_S;
        AllSeries::from([
            ("bits".to_owned(), bins().map(|t| (t, up(t) * delivered(t))).collect()),
            ("capacity".to_owned(), bins().map(|t| (t, up(t))).collect()),
            ("events".to_owned(), vec![(5.0, 0.0), (8.0, 1.0)]),
            ("p95_ms".to_owned(), vec![(0.0, 30.0)]),
        ])
    }

    #[test]
    fn what_a_run_says() {
        let found = figures(&run(|t| if t < 8.95 { 0.5 } else { 1.0 }), 2.0, Some(20.0));
        assert!((found["back"] - 1.0).abs() < 0.11, "{found:?}");
        assert!((found["p95"] - 1.5).abs() < 1e-9, "{found:?}");
        assert!((found["utilisation"] - 86.7).abs() < 1.0, "{found:?}");
        // The half second without data, 4 s after the return.
        let found = figures(&run(|t| if (12.0..12.5).contains(&t) { 0.0 } else { 1.0 }), 2.0, None);
        assert!((found["worst"] - 50.0).abs() < 1.0, "{found:?}");
        assert!(!found.contains_key("p95"));
    }

    #[test]
    fn what_a_link_carries() {
        let mut way =
            LinkKeys { rate: Some(mpdccp_units::Rate::from_bps(10_000_000)), ..LinkKeys::default() };
        assert_eq!(capacity(&way, 1e4), 1e7);
        way.loss = Some(0.1);
        assert_eq!(capacity(&way, 1e4), 9e6);
        // Ten packets take 10 ms, after 10 ms of waiting.
        let access = core::time::Duration::from_millis(10);
        way.aggregation = Some(crate::scenario::AggregationSpec { access, packets: 10 });
        assert_eq!(capacity(&way, 1e4), 4.5e6);
        way.up = Some(false);
        assert_eq!(capacity(&way, 1e4), 0.0);
    }
}
