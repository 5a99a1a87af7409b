//! Draws points, which are random links from the distribution in `scenarios/judge.toml`.

use serde::Deserialize;

use super::criterion::{Criterion, PACKET};
use super::dice::Dice;

use crate::LabError;

const FILE: &str = "scenarios/judge.toml";
const TEXT: &str = include_str!("../../../../scenarios/judge.toml");

/// Frames per second of a video.
const FRAMES: f64 = 30.0;
/// Bits per second in 1 Mbit/s.
pub(super) const MEGA: f64 = 1e6;

/// The distribution of points.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Distribution {
    mbps: [f64; 2],
    rtt_ms: [f64; 2],
    bdp: [f64; 2],
    least_queue: u32,
    settle: f64,
    settle_s: f64,
    judged: f64,
    judged_s: f64,
    packets: f64,
    others: f64,
    pub(super) criterion: Criterion,
    #[serde(rename = "class")]
    pub(super) classes: Vec<Class>,
}

/// A class of points with a common distribution.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Class {
    pub(super) name: String,
    factor: Factor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Factor {
    None,
    Aqm,
    Policed,
    Loss,
    Jitter,
    Lumps,
    Return,
    Walk,
    Source,
    Own,
    Cubic,
    Bbr,
    Both,
    Short,
}

impl Factor {
    /// Returns whether a run on a fast link, too, must last for the distribution's minimum number of seconds.
    /// The rates of walks, sources and short flows change over seconds, and competing flows need seconds to
    /// reach their shares.
    fn needs_seconds(self) -> bool {
        use Factor::{Bbr, Both, Cubic, Own, Short, Source, Walk};
        matches!(self, Walk | Source | Own | Cubic | Bbr | Both | Short)
    }
}

/// Factors, such as AQM or jitter, that a point may have in addition to the factor of its class.
const OTHERS: [Factor; 5] = [Factor::Aqm, Factor::Loss, Factor::Jitter, Factor::Lumps, Factor::Return];

/// Competing traffic.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Company {
    #[default]
    Alone,
    /// Flows with the same congestion control. Each entry has a flow's extra round-trip time in ms and the
    /// delay of its start in s, both relative to the first flow.
    Own(Vec<(f64, f64)>),
    /// TCP flows with these congestion controls.
    Tcp(&'static [&'static str]),
    /// Short TCP connections.
    Short,
}

/// One point: a link with traffic.
#[derive(Clone, Debug, Default)]
pub(super) struct Point {
    pub(super) index: u64,
    pub(super) class: String,
    /// Description of the point for reports.
    pub(super) words: Vec<String>,
    pub(super) mbps: f64,
    pub(super) rtt_ms: f64,
    pub(super) queue: u64,
    /// The path's keys and events.
    pub(super) link: Vec<String>,
    pub(super) events: Vec<String>,
    pub(super) forward: Vec<String>,
    pub(super) reverse: Vec<String>,
    /// Fraction of packets lost on the wire at random, independently of the load.
    pub(super) own_loss: f64,
    /// Keys of an application-limited source, if the point has one.
    pub(super) source: Option<String>,
    /// Shortest pause that separates the source's transfers, or 0 if each packet is a transfer.
    pub(super) pause_s: f64,
    pub(super) company: Company,
    /// Whether a TCP flow sends in the other direction.
    pub(super) upload: bool,
    /// Keys of the cross traffic for [`Company::Short`].
    pub(super) cross_traffic: String,
    /// Whether the link has a separate queue for each flow.
    pub(super) fair_queue: bool,
    /// Start and end of the judged time, s.
    pub(super) settle_s: f64,
    pub(super) end_s: f64,
    /// Seed of the point's runs.
    pub(super) seed: u64,
}

/// Reads the distribution from its file.
pub(super) fn read() -> Result<Distribution, LabError> {
    toml::from_str(TEXT).map_err(|e| LabError::Failed(format!("{FILE}: {e}")))
}

impl Distribution {
    /// Returns point number `index` of a seed. The class alternates with the index.
    pub(super) fn point(&self, seed: u64, index: u64) -> Point {
        let class = &self.classes[index as usize % self.classes.len()];
        let mut dice = Dice::new(seed, index);
        loop {
            let mbps = dice.log(self.mbps[0]..self.mbps[1]);
            let rtt_ms = dice.log(self.rtt_ms[0]..self.rtt_ms[1]);
            let most_s = self.packets * PACKET * 8.0 / (mbps * MEGA);
            let mut least_s = self.settle_s + self.judged_s;
            let settle_share = self.settle_s / least_s;
            if !class.factor.needs_seconds() {
                least_s = least_s.min(most_s);
            }
            let settle_s = (self.settle * rtt_ms / 1e3).max(settle_share * least_s);
            let end_s = (settle_s + self.judged * rtt_ms / 1e3).max(least_s);
            if end_s > most_s {
                continue;
            }
            let bdp = mbps * MEGA * rtt_ms / 1e3 / 8.0;
            let bdps = dice.log(self.bdp[0]..self.bdp[1]);
            let queue = (bdp * bdps).max(f64::from(self.least_queue) * PACKET).round();
            let mut point = Point {
                index,
                class: class.name.clone(),
                words: vec![format!("{mbps:.3} Mbit/s, {rtt_ms:.1} ms, queue {:.2} BDP", queue / bdp)],
                mbps,
                rtt_ms,
                queue: queue as u64,
                settle_s,
                end_s,
                seed: seed.wrapping_mul(1_000_003).wrapping_add(index),
                ..Point::default()
            };
            point.add(class.factor, &mut dice);
            let mut others = 0;
            for other in OTHERS {
                // A link that follows a model has rate 0 here and gets no other factors.
                if other != class.factor && others < 2 && point.mbps > 0.0 && dice.chance(self.others) {
                    point.add(other, &mut dice);
                    others += 1;
                }
            }
            return point;
        }
    }
}

impl Point {
    fn says(&mut self, words: String) {
        self.words.push(words);
    }

    fn bytes_per_second(&self) -> f64 {
        self.mbps * MEGA / 8.0
    }

    fn add(&mut self, factor: Factor, dice: &mut Dice) {
        match factor {
            Factor::None => {}
            Factor::Aqm => self.aqm(dice),
            Factor::Policed => self.policed(dice),
            Factor::Loss => self.loss(dice),
            Factor::Jitter => self.jitter(dice),
            Factor::Lumps => self.lumps(dice),
            Factor::Return => self.reverse_path(dice),
            Factor::Walk => self.walk(dice),
            Factor::Source => self.source(dice),
            Factor::Own => self.own_kind(dice),
            Factor::Cubic => self.tcp(&["cubic"]),
            Factor::Bbr => self.tcp(&["bbr"]),
            Factor::Both => self.tcp(&["cubic", "bbr"]),
            Factor::Short => self.short(dice),
        }
    }

    fn aqm(&mut self, dice: &mut Dice) {
        let ecn = dice.chance(0.5);
        let level = (self.queue / 6).max(3_000);
        let kind = match dice.pick(6) {
            0 => format!("kind = \"codel\", ecn = {ecn}"),
            1 => format!("kind = \"fq-codel\", ecn = {ecn}"),
            2 => format!("kind = \"pie\", ecn = {ecn}"),
            3 => format!("kind = \"red\", min = \"{level} B\", max = \"{} B\", ecn = {ecn}", 3 * level),
            4 => "kind = \"dual-pi2\"".to_owned(),
            _ => format!("kind = \"mark-above\", above = \"{level} B\""),
        };
        self.fair_queue = kind.contains("fq-");
        self.link.push(format!("discipline = {{ {kind} }}"));
        self.says(kind.replace("kind = ", "").replace('"', ""));
    }

    fn policed(&mut self, dice: &mut Dice) {
        let share = dice.uniform(0.1..0.9);
        // Limit the burst so that the bucket fills within half the settling time.
        let burst_s = dice.log(0.002..1.0_f64).min(self.settle_s / 2.0);
        let burst = (self.bytes_per_second() * share * burst_s).max(5.0 * PACKET).round();
        if dice.chance(0.7) {
            let rate = (self.mbps * share * MEGA).round();
            self.link.push(format!("policer = {{ rate = \"{rate} bit/s\", burst = \"{burst} B\" }}"));
            self.says(format!("policed to {:.3} Mbit/s, burst {burst} B", self.mbps * share));
        } else {
            self.link.push(format!("burst = \"{burst} B\""));
            self.says(format!("rate limited by a token bucket of {burst} B"));
        }
    }

    fn loss(&mut self, dice: &mut Dice) {
        let share = dice.log(0.0002..0.03);
        self.own_loss = share;
        if dice.chance(0.5) {
            self.forward.push(format!("loss = \"{:.4} %\"", share * 100.0));
            self.says(format!("{:.2} % of packets lost", share * 100.0));
        } else {
            let length = dice.log(2.0..20.0);
            let begin = share / (1.0 - share) / length * 100.0;
            let end = 100.0 / length;
            self.forward.push(format!("burst_loss = {{ begin = \"{begin:.5} %\", end = \"{end:.3} %\" }}"));
            self.says(format!("{:.2} % of packets lost in bursts of {length:.0} packets", share * 100.0));
        }
    }

    fn jitter(&mut self, dice: &mut Dice) {
        let by = self.rtt_ms * dice.log(0.01..0.5);
        let (reorder, slow) = (dice.chance(0.4), dice.chance(0.3));
        let memory = if slow { ", memory = \"100 ms\"" } else { "" };
        let jitter = format!("jitter = {{ by = \"{:.0} us\", reorder = {reorder}{memory} }}", by * 1e3);
        let order = if reorder { "reordering" } else { "in order" };
        match dice.pick(3) {
            0 => self.forward.push(jitter),
            1 => self.reverse.push(jitter),
            _ => self.link.push(jitter),
        }
        self.says(format!("jitter {by:.2} ms, {order}{}", if slow { ", varying slowly" } else { "" }));
        if dice.chance(0.2) {
            let share = dice.log(0.001..0.05) * 100.0;
            self.forward.push(format!("duplicate = \"{share:.2} %\""));
            self.says(format!("{share:.1} % of packets duplicated"));
        }
    }

    fn lumps(&mut self, dice: &mut Dice) {
        if dice.chance(0.3) {
            self.reverse.push("thin_acks = \"100 B\"".to_owned());
            self.says("acknowledgements thinned".to_owned());
            return;
        }
        let (access, packets) = (dice.log(0.2..20.0), dice.log(4.0..128.0).round());
        self.link
            .push(format!("aggregation = {{ access = \"{:.0} us\", packets = {packets} }}", access * 1e3));
        self.says(format!("bursts of {packets} packets after {access:.1} ms"));
    }

    fn reverse_path(&mut self, dice: &mut Dice) {
        match dice.pick(4) {
            0 => {
                let share = dice.log(0.003..0.1);
                let rate = (self.mbps * MEGA * share).max(8_000.0).round();
                self.reverse.push(format!("rate = \"{rate} bit/s\""));
                self.reverse.push("queue = \"15000 B\"".to_owned());
                self.says(format!("return path with {:.1} % of the forward rate", share * 100.0));
            }
            1 => {
                let share = dice.log(0.005..0.2) * 100.0;
                self.reverse.push(format!("loss = \"{share:.2} %\""));
                self.says(format!("return path loses {share:.1} %"));
            }
            2 => {
                // The length of a loss burst is a number of packets. A sender whose packets are all lost
                // sends one packet per timeout, so a long burst would stop it until the end of the run.
                let length = dice.log(2.0..6.0);
                let (begin, end) = (25.0 / length, 100.0 / length);
                self.reverse
                    .push(format!("burst_loss = {{ begin = \"{begin:.3} %\", end = \"{end:.3} %\" }}"));
                self.says(format!("return path loses 20 % in bursts of {length:.0} packets"));
            }
            _ => {
                let share = dice.log(0.1..1.0);
                let rate = (self.mbps * MEGA * share).max(8_000.0).round();
                let queue = (self.queue as f64 * share).max(10.0 * PACKET).round();
                self.reverse.push(format!("rate = \"{rate} bit/s\""));
                self.reverse.push(format!("queue = \"{queue} B\""));
                self.upload = true;
                self.says(format!("upload on a return path with {:.0} % of the forward rate", share * 100.0));
            }
        }
    }

    fn at(&mut self, at_s: f64, change: &str) {
        self.events.push(format!("{{ at_s = {at_s:.3}, {change} }}"));
    }

    fn walk(&mut self, dice: &mut Dice) {
        // The return path may have a different rate.
        let rate = |mbps: f64| format!("forward = {{ rate = \"{} bit/s\" }}", (mbps * MEGA).round());
        let (from, to) = (self.settle_s, self.end_s);
        let middle = from + (to - from) / 3.0;
        match dice.pick(6) {
            0 => {
                let model = ["lte", "5g", "wifi", "starlink", "dsl", "cable"][dice.pick(6)];
                self.link = vec![format!("model = \"{model}\"")];
                (self.mbps, self.queue) = (0.0, 0);
                self.words = vec![model.to_owned()];
                (self.rtt_ms, self.settle_s, self.end_s) = (40.0, 2.0, 20.0);
            }
            1 => {
                let (step, factor) = (dice.log(0.05..1.0), dice.uniform(1.1..1.6));
                let (mut mbps, mut at) = (self.mbps, step);
                // Times are written in milliseconds, and all must be before the end.
                while at < to - 0.001 {
                    mbps =
                        (mbps * factor.powf(dice.uniform(-1.0..1.0))).clamp(self.mbps / 5.0, self.mbps * 2.0);
                    self.at(at, &rate(mbps));
                    at += step;
                }
                self.says(format!("rate changes by a factor of up to {factor:.1} every {step:.2} s"));
            }
            2 => {
                let factor = dice.log(2.0..10.0);
                for i in 0..40 {
                    let part = f64::from(i) / 40.0;
                    let down = if part < 0.5 { 1.0 - 2.0 * part } else { 2.0 * part - 1.0 };
                    self.at(
                        0.01 + to * part,
                        &rate(self.mbps * (1.0 / factor + (1.0 - 1.0 / factor) * down)),
                    );
                }
                self.says(format!("rate falls to 1/{factor:.1} and rises again"));
            }
            3 => {
                let factor = dice.log(0.1..1.0);
                self.at(middle, &rate(self.mbps * factor));
                self.at(2.0 * middle - from, &rate(self.mbps));
                self.says(format!("rate multiplied by {factor:.2} for a third of the judged time"));
            }
            4 => {
                let factor = dice.log(0.3..5.0);
                self.at(middle, &format!("owd = \"{:.0} us\"", self.rtt_ms * factor * 500.0));
                self.says(format!("delay multiplied by {factor:.2} after a third of the judged time"));
            }
            _ => {
                let length = dice.log(0.2..3.0_f64).min((to - from) / 3.0);
                self.at(middle, "up = false");
                self.at(middle + length, "up = true");
                self.says(format!("outage of {length:.1} s"));
            }
        }
    }

    fn source(&mut self, dice: &mut Dice) {
        let share = dice.uniform(0.3..1.5);
        let rate = self.mbps * MEGA * share * 0.96;
        let on_off = |on: f64, off: f64| {
            format!(
                "source = {{ kind = \"on-off\", on = \"{:.0} us\", off = \"{:.0} us\" }}",
                on * 1e6,
                off * 1e6
            )
        };
        let rated = |rate: f64, kind: &str| format!("rate = \"{} bit/s\"\n{kind}", rate.round());
        let (keys, words) = match dice.pick(5) {
            0 => (rated(rate, "source = { kind = \"constant\" }"), "constant"),
            1 => (rated(rate, "source = { kind = \"poisson\" }"), "Poisson"),
            2 => {
                let on = dice.log(0.05..2.0);
                let off = on * dice.log(0.3..3.0);
                self.pause_s = off / 2.0;
                (rated(rate, &on_off(on, off)), "on and off")
            }
            // The source sends tens to hundreds of packets faster than the link's rate, then pauses for more
            // than a round trip.
            3 => {
                let (fast, packets) = (self.mbps * MEGA * dice.uniform(1.5..4.0), dice.log(10.0..300.0));
                let on = packets * PACKET * 8.0 / fast;
                let off = (self.rtt_ms / 1e3 * dice.log(2.0..20.0)).max(4.0 * on);
                self.pause_s = off / 2.0;
                (rated(fast, &on_off(on, off)), "short transfers")
            }
            _ => {
                let rungs = [0.1, 0.2, 0.4, 0.7, 1.0].map(|part| format!("\"{:.0} bit/s\"", rate * part));
                let ladder = rungs.join(", ");
                self.pause_s = 0.5 / FRAMES;
                let video =
                    format!("source = {{ kind = \"video\", frames_per_s = {FRAMES}, ladder = [{ladder}] }}");
                (video, "video")
            }
        };
        self.source = Some(keys);
        self.says(format!("the source offers {share:.2} times the link's rate, {words}"));
    }

    /// Adds short flows that together use a share of the link.
    fn short(&mut self, dice: &mut Dice) {
        let (share, size) = (dice.uniform(0.1..0.5), dice.log(5_000.0..500_000.0).round());
        // The lower limit on the interval keeps the number of flows per run to at most 2,000.
        let every = (size / (self.bytes_per_second() * share)).max(self.end_s / 2_000.0);
        self.cross_traffic = format!(
            "kind = \"short\"\ncc = \"cubic\"\nsizes = [\"{size} B\"]\nevery = \"{:.0} us\"",
            every * 1e6
        );
        self.company = Company::Short;
        self.says(format!("short flows of {:.0} kB every {every:.2} s", size / 1e3));
    }

    fn own_kind(&mut self, dice: &mut Dice) {
        let n = 2 + dice.pick(7);
        let (unequal, late) = (dice.chance(0.4), dice.chance(0.3));
        let longer = |dice: &mut Dice| if unequal { self.rtt_ms * dice.uniform(0.0..3.0) } else { 0.0 };
        let all: Vec<(f64, f64)> = (0..n)
            .map(|i| {
                (
                    if i == 0 { 0.0 } else { longer(dice) },
                    if late { i as f64 * self.settle_s / n as f64 } else { 0.0 },
                )
            })
            .collect();
        self.says(format!(
            "{n} flows of the same kind{}{}",
            if unequal { ", different round trips" } else { "" },
            if late { ", starting one after another" } else { "" }
        ));
        self.company = Company::Own(all);
        self.stay(4.0);
    }

    fn tcp(&mut self, all: &'static [&'static str]) {
        self.says(format!("with {}", all.join(" and ")));
        self.company = Company::Tcp(all);
        self.stay(3.0);
    }

    /// Extends the run, because flows that share a link take longer to settle.
    fn stay(&mut self, times: f64) {
        let judged = self.end_s - self.settle_s;
        self.settle_s *= times;
        self.end_s = self.settle_s + judged * 2.0;
    }

    /// Returns whether the point's source is application-limited.
    pub(super) fn app_limited(&self) -> bool {
        self.source.is_some()
    }

    /// Returns whether the point's source adapts its rate to the path.
    pub(super) fn adapts(&self) -> bool {
        self.source.as_ref().is_some_and(|keys| keys.contains("video"))
    }

    /// Returns whether flows of the same kind have different round-trip times.
    pub(super) fn unequal(&self) -> bool {
        matches!(&self.company, Company::Own(all) if all.iter().any(|(longer, _)| *longer > 0.0))
    }
}

#[cfg(test)]
#[path = "draw_tests.rs"]
mod tests;
