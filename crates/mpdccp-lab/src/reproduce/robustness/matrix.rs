//! The matrix as data: `scenarios/sets/robustness.toml`, and the scenario of each of its points.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::{Table, Value};

use super::judge::{Aim, FIGURES};
use crate::LabError;
use crate::scenario::Scenario;
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

const FILE: &str = "scenarios/sets/robustness.toml";
const TEXT: &str = include_str!("../../../../../scenarios/sets/robustness.toml");

/// Approximate IP, UDP and DCCP headers per record; small packets must not look inefficient.
const HEADERS: f64 = 45.0;
/// Interval between changes of a walking rate, ...
const WALK_STEP_S: f64 = 0.2;
/// ... largest factor of a change in either direction, ...
const WALK_FACTOR: f64 = 1.35;
/// ... and its limits, Mbit/s.
const WALK_RANGE: (f64, f64) = (1.0, 40.0);

/// The whole matrix.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Matrix {
    pub(super) title: String,
    /// Aims of classes, by name.
    aims: BTreeMap<String, Vec<Aim>>,
    #[serde(rename = "class")]
    pub(super) classes: Vec<Class>,
}

/// Points that are judged alike: every combination of one alternative per axis.
#[derive(Debug, Deserialize)]
pub(super) struct Class {
    pub(super) name: String,
    #[serde(flatten)]
    base: Keys,
    axes: Vec<Vec<Alternative>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Alternative {
    name: String,
    #[serde(default)]
    quick: bool,
    #[serde(flatten)]
    keys: Keys,
}

/// Keys of a class or an alternative; missing keys come from earlier ones.
#[derive(Clone, Debug, Default, Deserialize)]
struct Keys {
    aim: Option<String>,
    /// Variants that the aim applies to.
    judged: Option<Vec<String>>,
    seconds: Option<f64>,
    mbps: Option<f64>,
    rtt_ms: Option<f64>,
    /// The queue, in bandwidth-delay products ...
    bdp: Option<f64>,
    /// ... or in kilobytes.
    queue_kb: Option<f64>,
    /// Reverse rate as a fraction of the forward rate.
    back_share: Option<f64>,
    payload: Option<u32>,
    /// Offered at a constant rate, as a fraction of the link's rate; bulk if absent.
    offered: Option<f64>,
    jitter: Option<Table>,
    /// Directions that have the jitter.
    ways: Option<Vec<String>>,
    /// Successive states of the link, at equal intervals.
    steps: Option<Vec<Step>>,
    /// Outage from 8 s on, for this long.
    outage_s: Option<f64>,
    /// The rate walks at random; number of the walk.
    walk: Option<u64>,
    /// Competing TCP flows with this congestion control, ...
    cross_traffic: Option<String>,
    /// ... this many; one if absent.
    count: Option<i64>,
    /// Flows of the variant's kind with these round-trip times, ms.
    together: Option<Vec<f64>>,
    /// Delay of each start after the previous one.
    apart_s: Option<f64>,
    /// Other keys of the scenario.
    set: Option<Table>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    mbps: Option<f64>,
    rtt_ms: Option<f64>,
}

/// A point of the matrix.
#[derive(Clone, Debug)]
pub(super) struct Point {
    pub(super) name: String,
    pub(super) aims: Vec<Aim>,
    pub(super) judged: Vec<String>,
    pub(super) scenario: Scenario,
    /// The same with a thin flow, if the path's own latency is needed.
    pub(super) thin: Option<Scenario>,
    /// Start of the judged time, s.
    pub(super) skip_s: f64,
}

/// Reads the matrix.
pub(super) fn read() -> Result<Matrix, LabError> {
    let failed = |e: &dyn core::fmt::Display| LabError::Failed(format!("{FILE}: {e}"));
    let matrix: Matrix = toml::from_str(TEXT).map_err(|e| failed(&e))?;
    let known = |aim: &&Aim| FIGURES.contains(&aim.figure.as_str());
    match matrix.aims.values().flatten().find(|aim| !known(aim)) {
        Some(aim) => {
            Err(failed(&format!("unknown figure `{}`; expected one of: {}", aim.figure, FIGURES.join(", "))))
        }
        None => Ok(matrix),
    }
}

impl Matrix {
    /// All points of a class; for a quick run, those from quick alternatives.
    pub(super) fn points(&self, class: &Class, quick: bool) -> Result<Vec<Point>, LabError> {
        let mut all = vec![(Vec::new(), class.base.clone())];
        for axis in &class.axes {
            let marked = axis.iter().any(|a| a.quick);
            let wanted = |(i, a): &(usize, &Alternative)| !quick || a.quick || (!marked && *i == 0);
            let axis: Vec<_> = axis.iter().enumerate().filter(wanted).map(|(_, a)| a).collect();
            let with = |(names, keys): &(Vec<String>, Keys)| {
                let join =
                    |a: &&Alternative| ([names.clone(), vec![a.name.clone()]].concat(), a.keys.over(keys));
                axis.iter().map(join).collect::<Vec<_>>()
            };
            all = all.iter().flat_map(with).collect();
        }
        let made = |(names, keys): (Vec<String>, Keys)| {
            let name = names.join(", ");
            keys.point(name.clone(), &self.aims)
                .map_err(|e| LabError::Failed(format!("{FILE}: {}, {name}: {e}", class.name)))
        };
        all.into_iter().map(made).collect()
    }
}

impl Keys {
    fn over(&self, base: &Keys) -> Keys {
        let merged = |own: &Option<Table>, base: &Option<Table>| match (own, base) {
            (Some(own), Some(base)) => Some(base.clone().into_iter().chain(own.clone()).collect()),
            (own, base) => own.clone().or(base.clone()),
        };
        let base = base.clone();
        let own = self.clone();
        Keys {
            aim: own.aim.or(base.aim),
            count: own.count.or(base.count),
            judged: own.judged.or(base.judged),
            seconds: own.seconds.or(base.seconds),
            mbps: own.mbps.or(base.mbps),
            rtt_ms: own.rtt_ms.or(base.rtt_ms),
            bdp: own.bdp.or(base.bdp),
            queue_kb: own.queue_kb.or(base.queue_kb),
            back_share: own.back_share.or(base.back_share),
            payload: own.payload.or(base.payload),
            offered: own.offered.or(base.offered),
            jitter: merged(&self.jitter, &base.jitter),
            ways: own.ways.or(base.ways),
            steps: own.steps.or(base.steps),
            outage_s: own.outage_s.or(base.outage_s),
            walk: own.walk.or(base.walk),
            cross_traffic: own.cross_traffic.or(base.cross_traffic),
            together: own.together.or(base.together),
            apart_s: own.apart_s.or(base.apart_s),
            set: merged(&self.set, &base.set),
        }
    }

    fn point(&self, name: String, aims: &BTreeMap<String, Vec<Aim>>) -> Result<Point, String> {
        let aim = self.aim.as_ref().ok_or("no aim")?;
        let aims = aims.get(aim).cloned().ok_or_else(|| format!("no aim `{aim}`"))?;
        let usual = || ["ccid5", "ccid7", "ccid250"].map(str::to_owned).to_vec();
        let scenario = self.scenario(false)?;
        let thin = if aims.iter().any(|aim| aim.figure == "p95") { Some(self.scenario(true)?) } else { None };
        let skip_s = if self.cross_traffic.is_some() || self.together.is_some() {
            *scenario.duration_s.as_ref() / 2.0
        } else {
            (15.0 * self.rtt() / 1e3).max(2.0)
        };
        Ok(Point { name, aims, judged: self.judged.clone().unwrap_or_else(usual), scenario, thin, skip_s })
    }

    fn rate(&self) -> f64 {
        self.mbps.unwrap_or(50.0)
    }

    fn rtt(&self) -> f64 {
        let together = self.together.iter().flatten().copied().min_by(f64::total_cmp);
        self.rtt_ms.or(together).unwrap_or(40.0)
    }

    /// The scenario; with a flow of 1 % of the rate if `thin`.
    fn scenario(&self, thin: bool) -> Result<Scenario, String> {
        let (mbps, rtt) = (self.rate(), self.rtt());
        let seconds = self.seconds.unwrap_or(20.0);
        let kb = self.queue_kb.unwrap_or(self.bdp.unwrap_or(1.0) * mbps * rtt / 8.0);
        let queue = (kb * 1e3).max(3000.0).round();
        let mut values: Vec<(String, Value)> = Vec::new();
        let mut put = |place: &str, value: Value| values.push((place.to_owned(), value));
        put("duration_s", seconds.into());
        put("path.link.rate", rate(mbps));
        put("path.link.owd", time(rtt / 2.0));
        put("path.link.queue", format!("{queue} B").into());
        if let Some(share) = self.back_share {
            put("path.link.reverse.rate", rate(mbps * share));
            put("path.link.reverse.queue", "15000 B".into());
        }
        for way in self.ways.iter().flatten() {
            put(&format!("path.link.{way}.jitter"), self.jitter.clone().unwrap_or_default().into());
        }
        for (place, value) in self.set.iter().flatten() {
            put(place, value.clone());
        }
        let events = self.events(seconds);
        if !events.is_empty() {
            put("path.link.events", events.into());
        }
        put("flow", self.flows(thin).into());
        let wrong = |e: crate::scenario::ScenarioError| e.to_string();
        let places: Vec<(&str, Value)> = values.iter().map(|(k, v)| (k.as_str(), v.clone())).collect();
        Scenario::find("robustness").map_err(wrong)?.with(&places).map_err(wrong)
    }

    fn flows(&self, thin: bool) -> Vec<Value> {
        let payload = self.payload.unwrap_or(1300);
        let bulk = |name: String, owd_ms: f64, start_s: f64| {
            let mut flow = table([
                ("name", name.into()),
                ("kind", "udp".into()),
                ("payload", i64::from(payload).into()),
                ("owd", time(owd_ms)),
                ("start_s", start_s.into()),
            ]);
            let net = f64::from(payload) / (f64::from(payload) + HEADERS);
            match self.offered.or(thin.then_some(0.01)) {
                Some(share) if !thin => flow.insert("rate".to_owned(), rate(self.rate() * share * net)),
                Some(_) => flow.insert("rate".to_owned(), rate(self.rate() * 0.01)),
                None => flow.insert("source".to_owned(), table([("kind", "bulk".into())]).into()),
            };
            Value::Table(flow)
        };
        if let Some(together) = &self.together {
            let nth = |(i, rtt): (usize, &f64)| {
                bulk(format!("bulk-{i}"), (rtt - self.rtt()) / 2.0, self.apart_s.unwrap_or(0.0) * i as f64)
            };
            return together.iter().enumerate().map(nth).collect();
        }
        let mut flows = vec![bulk("bulk".to_owned(), 0.0, 0.0)];
        if let Some(cc) = &self.cross_traffic {
            let tcp = [
                ("name", "tcp".into()),
                ("kind", "tcp".into()),
                ("cc", cc.as_str().into()),
                ("count", self.count.unwrap_or(1).into()),
            ];
            flows.push(table(tcp).into());
        }
        flows
    }

    fn events(&self, seconds: f64) -> Vec<Value> {
        let at = |s: f64, keys: Vec<(&str, Value)>| {
            let mut event = table([("at_s", s.into())]);
            event.extend(keys.into_iter().map(|(k, v)| (k.to_owned(), v)));
            Value::Table(event)
        };
        let mut events = Vec::new();
        let steps = self.steps.as_deref().unwrap_or_default();
        for (i, step) in steps.iter().enumerate() {
            let keys = [step.mbps.map(|m| ("rate", rate(m))), step.rtt_ms.map(|r| ("owd", time(r / 2.0)))];
            let s = seconds * (i + 1) as f64 / (steps.len() + 1) as f64;
            events.push(at(s, keys.into_iter().flatten().collect()));
        }
        if let Some(outage) = self.outage_s {
            events.push(at(8.0, vec![("up", false.into())]));
            events.push(at(8.0 + outage, vec![("up", true.into())]));
        }
        if let Some(walk) = self.walk {
            let mut random = ChaCha8Rng::seed_from_u64(walk);
            let mut mbps = 10.0_f64;
            for i in 0..(seconds / WALK_STEP_S) as u32 - 1 {
                let way = f64::from(random.next_u32()) / f64::from(u32::MAX) * 2.0 - 1.0;
                mbps = (mbps * WALK_FACTOR.powf(way)).clamp(WALK_RANGE.0, WALK_RANGE.1);
                events.push(at(f64::from(i + 1) * WALK_STEP_S, vec![("rate", rate(mbps))]));
            }
        }
        events
    }
}

fn table<const N: usize>(keys: [(&str, Value); N]) -> Table {
    keys.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()
}

fn rate(mbps: f64) -> Value {
    format!("{} bit/s", (mbps * 1e6).round()).into()
}

fn time(ms: f64) -> Value {
    format!("{} us", (ms * 1e3).round()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_makes_a_scenario() {
        let matrix = read().unwrap();
        let all = |quick| -> Vec<usize> {
            matrix.classes.iter().map(|class| matrix.points(class, quick).unwrap().len()).collect()
        };
        let (quick, full) = (all(true), all(false));
        assert!(quick.iter().zip(&full).all(|(q, f)| (1..=*f).contains(q)), "{quick:?} of {full:?}");
        assert!(full.iter().sum::<usize>() > 200, "{full:?}");
    }
}
