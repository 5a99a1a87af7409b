//! Metrics of the DCP paper (2002, section 4.2), computed only from the packets on the link.
//!
//! A sender computes its rate from the loss event rate that it measures. By that measurement, every flow
//! would look friendly, so it is not used here.

use core::time::Duration;

use crate::Plan;
use crate::export::OPPORTUNITY;
use crate::record::{RunRecord, seconds};
use crate::scenario::{FlowSpec, LinkKeys, PathSpec};

/// Start, in seconds, of the period over which rates are measured.
const FROM_S: f64 = 10.0;
/// Length in seconds of the windows for friendliness (section 4.2).
const WINDOW_S: f64 = 6.0;
/// Length in seconds of the windows used for steadiness.
const STEADY_S: f64 = 10.0;
/// A window is steady if its rate differs from the rate of the run's last window by at most this fraction.
const NEAR: f64 = 0.1;
/// Constant C of the throughput equation (equation 2).
const C: f64 = 1.22;

/// A packet of the flow on the link.
struct Step {
    at: f64,
    /// One-way delay, or `None` if the packet was lost.
    delay: Option<f64>,
}

/// A flow's packets, as seen on the link.
pub(crate) struct Seen {
    steps: Vec<Step>,
    /// Mean one-way delay in the reverse direction.
    back: f64,
    end: f64,
}

impl Seen {
    /// Returns flow `index` between t = 0 and `end`, or `None` if the link saw no packet of the flow or
    /// delivered none in the reverse direction.
    pub(crate) fn new(run: &RunRecord, index: usize, end: f64) -> Option<Seen> {
        let delay = |p: &crate::LinkPacket| Some(p.arrived()?.since(p.entered).as_secs_f64());
        let path = run.paths.first()?;
        let steps: Vec<Step> = path
            .forward
            .packets
            .iter()
            .filter(|p| p.data.is_some_and(|(flow, _)| usize::from(flow) == index))
            .map(|p| Step { at: seconds(run, p.entered), delay: delay(p) })
            .filter(|step| (0.0..end).contains(&step.at))
            .collect();
        let back = mean(path.reverse.packets.iter().filter_map(delay))?;
        (!steps.is_empty()).then_some(Seen { steps, back, end })
    }

    fn between(&self, from: f64, to: f64) -> &[Step] {
        let index = |t: f64| self.steps.partition_point(|step| step.at < t);
        &self.steps[index(from)..index(to)]
    }

    /// Returns the number of loss events per packet after the first ten seconds. A loss event consists of its
    /// first loss and all further losses within one round-trip time (RFC 5348 section 5.2).
    pub(crate) fn loss_event_rate(&self) -> Option<f64> {
        let sent = self.between(FROM_S, self.end).len();
        self.loss_events().map(|events| f64::from(events) / sent as f64)
    }

    /// Returns the number of loss events.
    fn loss_events(&self) -> Option<u32> {
        let steps = self.between(FROM_S, self.end);
        let mut round = steps.iter().find_map(|step| step.delay)? + self.back;
        let (mut events, mut since) = (0u32, f64::NEG_INFINITY);
        for step in steps {
            match step.delay {
                Some(delay) => round = delay + self.back,
                None if step.at > since + round => {
                    events += 1;
                    since = step.at;
                }
                None => {}
            }
        }
        Some(events)
    }

    /// Returns the throughput equation's rate divided by the sending rate, for windows of six seconds from t
    /// = 0 on. A point is (middle of the window, ratio).
    pub(crate) fn friendliness(&self) -> Vec<(f64, f64)> {
        let Some(p) = self.loss_event_rate().filter(|p| *p > 0.0) else { return Vec::new() };
        let window = |from: f64| {
            let steps = self.between(from, from + WINDOW_S);
            let round = mean(steps.iter().filter_map(|step| step.delay))? + self.back;
            let calculated = C / (round * p.sqrt());
            Some((from + WINDOW_S / 2.0, calculated * WINDOW_S / steps.len() as f64))
        };
        windows(0.0, self.end, WINDOW_S).filter_map(window).collect()
    }

    /// Returns the mean friendliness over all windows that begin after the first ten seconds.
    pub(crate) fn mean_friendliness(&self) -> Option<f64> {
        let late = |(middle, _): &(f64, f64)| *middle - WINDOW_S / 2.0 >= FROM_S;
        mean(self.friendliness().into_iter().filter(late).map(|(_, ratio)| ratio))
    }

    /// Returns the mean friendliness over all windows.
    fn friendliness_of_run(&self) -> Option<f64> {
        mean(self.friendliness().into_iter().map(|(_, ratio)| ratio))
    }

    /// Returns the percentage of ten-second windows whose rate is within a tenth of the last window's rate.
    /// The first window begins at ten seconds; the last window is not counted.
    pub(crate) fn steady_pct(&self) -> Option<f64> {
        let count = |from: f64| self.between(from, from + STEADY_S).len() as f64;
        let counts: Vec<f64> = windows(FROM_S, self.end, STEADY_S).map(count).collect();
        let (last, others) = counts.split_last()?;
        let near = others.iter().filter(|n| (*n - last).abs() <= NEAR * last).count();
        (!others.is_empty()).then(|| near as f64 * 100.0 / others.len() as f64)
    }
}

/// Returns the start times of consecutive windows, the last of which ends no later than `to`.
fn windows(from: f64, to: f64, len: f64) -> impl Iterator<Item = f64> {
    let count = ((to - from) / len + 1e-9).floor().max(0.0) as usize;
    (0..count).map(move |i| from + i as f64 * len)
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut n) = (0.0, 0u32);
    for value in values {
        sum += value;
        n += 1;
    }
    (n > 0).then(|| sum / f64::from(n))
}

/// Returns the mean packet rate of the measured flows divided by the mean packet rate of the other flows
/// (equation 5).
fn packet_share(run: &RunRecord, measured: &[usize], end: f64) -> Option<f64> {
    let count = |i: usize| {
        let received = run.flows[i].received.iter();
        received.filter(|p| (0.0..end).contains(&seconds(run, p.at))).count() as f64
    };
    let others = (0..run.flows.len()).filter(|i| !measured.contains(i));
    let others = mean(others.map(count)).filter(|others| *others > 0.0)?;
    Some(mean(measured.iter().copied().map(count))? / others)
}

/// Returns what the first path delivered in the reverse direction, in bytes and in packets, as a percentage
/// of what was offered to it in the forward direction.
pub(crate) fn back_pct(run: &RunRecord) -> Option<(f64, f64)> {
    let path = run.paths.first()?;
    let bytes = |link: &crate::LinkRecord| link.packets.iter().map(|p| f64::from(p.bytes)).sum::<f64>();
    let share = |back: f64, there: f64| back * 100.0 / there;
    (!path.forward.packets.is_empty()).then(|| {
        (
            share(bytes(&path.reverse), bytes(&path.forward)),
            share(path.reverse.packets.len() as f64, path.forward.packets.len() as f64),
        )
    })
}

/// Returns this module's metrics that apply to a run, with their names from [`crate::metrics::NAMES`]. `spec`
/// describes the measured flow if there is only one.
pub(crate) fn metrics(
    plan: &Plan<'_>,
    run: &RunRecord,
    measured: &[usize],
    spec: Option<&FlowSpec>,
) -> Vec<(&'static str, f64)> {
    let end = *plan.scenario.duration_s.as_ref();
    let single = measured.first().copied().filter(|_| measured.len() == 1);
    let seen = single.and_then(|i| Seen::new(run, i, end));
    let back = back_pct(run);
    let echoing = single.filter(|_| spec.is_some_and(|flow| flow.echo)).map(|i| &run.flows[i]);
    let last = |flow: &crate::FlowRecord| flow.received.iter().map(|p| p.at).max();
    let ends = echoing.and_then(|f| Some((f.sent.first()?.at, last(f)?)));
    let all = [
        ("all_back_ms", ends.map(|(first, last)| last.since(first).as_secs_f64() * 1e3)),
        ("utilisation_pct", utilisation_pct(plan, run, end)),
        ("friendliness", seen.as_ref().and_then(Seen::mean_friendliness)),
        ("friendliness_run", seen.as_ref().and_then(Seen::friendliness_of_run)),
        ("loss_events", seen.as_ref().and_then(Seen::loss_events).map(f64::from)),
        ("loss_event_pct", seen.as_ref().and_then(Seen::loss_event_rate).map(|p| p * 100.0)),
        ("steady_pct", seen.as_ref().and_then(Seen::steady_pct)),
        ("packet_share", packet_share(run, measured, end)),
        ("reverse_pct", back.map(|(bytes, _)| bytes)),
        ("reverse_packets_pct", back.map(|(_, packets)| packets)),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// Returns how many bytes a path can deliver from client to server until `end`. A model's rate changes in
/// this time, and a trace may be longer.
fn capacity(path: &PathSpec, end: f64) -> f64 {
    let course = path.course_with_models(end);
    let stage = |(i, (from, ways)): (usize, &(f64, [LinkKeys; 2]))| {
        let until = course.get(i + 1).map_or(end, |next| next.0);
        match &ways[0].trace {
            Some(trace) => {
                let [from, until] = [*from, until].map(Duration::from_secs_f64);
                trace.opportunities(from, until) as f64 * OPPORTUNITY
            }
            None => ways[0].mean_rate().bps() as f64 / 8.0 * (until - from),
        }
    };
    course.iter().enumerate().map(stage).sum()
}

/// Returns the bytes that the first path delivered, as a percentage of the bytes that its rate allows.
/// Returns `None` for a scenario with events, and if the path can deliver nothing until the end.
fn utilisation_pct(plan: &Plan<'_>, run: &RunRecord, end: f64) -> Option<f64> {
    let could = capacity(plan.paths().first()?, end);
    let arrived =
        |p: &&crate::LinkPacket| p.arrived().is_some_and(|at| (0.0..end).contains(&seconds(run, at)));
    let packets = &run.paths.first()?.forward.packets;
    let delivered: f64 = packets.iter().filter(arrived).map(|p| f64::from(p.bytes)).sum();
    (plan.scenario.events_s().is_empty() && could > 0.0).then(|| delivered * 100.0 / could)
}

#[cfg(test)]
mod tests {
    use mpdccp_units::Time;

    use super::*;
    use crate::{Fate, FlowRecord, LinkPacket, PathRecord, ReceivedPacket, Scenario};

    fn packet(ms: u64, delay_ms: u64, data: Option<(u16, u64)>, bytes: u32) -> LinkPacket {
        let entered = Time::from_millis(1_000 + ms);
        let fate = Fate::Delivered(entered + Duration::from_millis(delay_ms));
        LinkPacket { entered, fate, bytes, data, queue_bytes: 0, ce: false }
    }

    /// Returns a run with a flow that sends a packet every 10 ms for 70 s, at a one-way delay of 60 ms. One
    /// packet in ten is acknowledged, with a one-way delay of 40 ms. Packets of another flow are
    /// interspersed.
    fn run() -> RunRecord {
        let mut path = PathRecord::default();
        for i in 0..7_000 {
            path.forward.packets.push(packet(i * 10, 60, Some((0, i)), 1_000));
            path.forward.packets.push(packet(i * 10 + 1, 500, Some((1, i)), 1_000));
            if i % 10 == 0 {
                path.reverse.packets.push(packet(i * 10 + 60, 40, None, 50));
            }
        }
        RunRecord { start: Time::from_millis(1_000), paths: vec![path], ..RunRecord::default() }
    }

    /// Marks as lost the packet that the flow sent at `ms`.
    fn lose(run: &mut RunRecord, ms: u64) {
        run.paths[0].forward.packets[ms as usize / 10 * 2].fate = Fate::QueueDrop;
    }

    #[test]
    fn losses_within_a_round_trip_are_one_event_and_those_of_the_start_do_not_count() {
        let mut record = run();
        for ms in [5_000, 20_000, 20_050, 20_100, 20_110, 30_000] {
            lose(&mut record, ms);
        }
        // The round-trip time is 100 ms, so loss events begin at 20,000, 20,110 and 30,000 ms; 6,000 packets
        // are sent after the tenth second.
        let seen = Seen::new(&record, 0, 70.0).unwrap();
        assert_eq!(seen.loss_event_rate(), Some(3.0 / 6_000.0));
        // The expected friendliness is the equation's rate, 1.22 / (0.1 s * sqrt(p)), divided by the sending
        // rate of 100 packets per second.
        let expected = 1.22 / (0.1 * (3.0f64 / 6_000.0).sqrt()) / 100.0;
        let windows = seen.friendliness();
        assert_eq!(windows.len(), 11);
        assert!(windows.iter().all(|(_, f)| (f - expected).abs() < 1e-9), "{windows:?}, not {expected}");
        assert!((seen.mean_friendliness().unwrap() - expected).abs() < 1e-9);
        assert_eq!(seen.loss_events(), Some(3));
        assert!(
            Seen::new(&run(), 0, 70.0).unwrap().friendliness().is_empty(),
            "the equation has no rate without losses"
        );
    }

    #[test]
    fn the_capacity_is_that_of_the_run() {
        let dir = tempfile::tempdir().unwrap();
        // The trace has most of its opportunities after the end of the run.
        std::fs::write(dir.path().join("t.trace"), "2\n1000\n1000\n1000\n1000\n1000\n").unwrap();
        std::fs::write(dir.path().join("late.trace"), "1000\n").unwrap();
        let file = dir.path().join("t.toml");
        let scenario = |link: &str| {
            let text = format!(
                "name = 't'\ntitle = 't'\nduration_s = 0.5\npath = [{{ name = 'a', {link} }}]\n\
                 variant = [{{ label = 'v' }}]\n\
                 flow = [{{ name = 'f', kind = 'udp', payload = 100, rate = '1 Mbit/s' }}]\n"
            );
            Scenario::parse(file.to_str().unwrap(), &text).unwrap()
        };
        let of = |link: &str| {
            let scenario = scenario(link);
            capacity(&scenario.path_in(0, scenario.headline()), 0.5)
        };
        assert_eq!(of("rate = '8 Mbit/s', queue = '9 packets'"), 500_000.0);
        assert_eq!(of("rate_trace = 't.trace', queue = '9 packets'"), 1_500.0);
        // A share of nothing is no number, and a stored run could not be read with it.
        let scenario = scenario("rate_trace = 'late.trace', queue = '9 packets'");
        let (variant, cell) = (&scenario.variants[0], scenario.headline());
        let plan = Plan { scenario: &scenario, variant, cell, repeat: 0, seed: 1 };
        assert_eq!(utilisation_pct(&plan, &run(), 0.5), None);
        // The rate of this model varies around 6 Mbit/s.
        let lte = of("model = 'lte'");
        assert!(lte > 0.0 && (lte / (6e6 / 8.0 * 0.5) - 1.0).abs() > 1e-3, "{lte}");
    }

    #[test]
    fn half_the_rate_doubles_friendliness_in_its_window_and_is_not_steady() {
        let mut record = run();
        lose(&mut record, 20_000);
        // From 34 s to 40 s every other packet is removed.
        record.paths[0].forward.packets.retain(|p| {
            let (flow, seq) = p.data.unwrap();
            flow == 1 || !(3_400..4_000).contains(&seq) || seq % 2 == 0
        });
        let seen = Seen::new(&record, 0, 70.0).unwrap();
        let windows = seen.friendliness();
        // The removed packets belong to the last two seconds of the window from 30 to 36 s, and to the first
        // four seconds of the window from 36 to 42 s.
        let ratio = |i: usize| windows[i].1 / windows[0].1;
        assert!((ratio(5) - 600.0 / 500.0).abs() < 1e-9 && (ratio(6) - 600.0 / 400.0).abs() < 1e-9);
        assert_eq!(ratio(7), 1.0);
        // Of the windows that begin at 10, 20, 30, 40 and 50 s, one has a rate 30 % below that of the last
        // window, which begins at 60 s.
        assert_eq!(seen.steady_pct(), Some(80.0));
        // The friendliness of the whole run also counts the windows before the tenth second.
        let mut slow = record;
        slow.paths[0].forward.packets.retain(|p| {
            let (flow, seq) = p.data.unwrap();
            flow == 1 || seq >= 600 || seq % 2 == 0
        });
        let seen = Seen::new(&slow, 0, 70.0).unwrap();
        assert!(seen.friendliness_of_run().unwrap() > seen.mean_friendliness().unwrap() * 1.03);
    }

    #[test]
    fn shares_count_packets_and_the_way_back_counts_both() {
        let mut record = run();
        let flow = |every: u64| FlowRecord {
            received: (0..7_000 / every)
                .map(|seq| ReceivedPacket { seq, at: Time::from_millis(1_000 + seq * 10 * every), bytes: 1 })
                .collect(),
            ..FlowRecord::default()
        };
        record.flows = vec![flow(2), flow(1), flow(4)];
        // The first flow has 3,500 packets, the others have 7,000 and 1,750.
        assert_eq!(packet_share(&record, &[0], 70.0), Some(3_500.0 / 4_375.0));
        assert_eq!(packet_share(&record, &[1], 70.0), Some(7_000.0 / 2_625.0));
        assert_eq!(packet_share(&record, &[1, 2], 70.0), Some(4_375.0 / 3_500.0));
        // In the forward direction the link carried 14,000 packets of 1,000 bytes, in the reverse direction
        // 700 packets of 50 bytes.
        let (bytes, packets) = back_pct(&record).unwrap();
        assert!((bytes - 0.25).abs() < 1e-9 && (packets - 5.0).abs() < 1e-9, "{bytes} {packets}");
        record.flows.truncate(1);
        assert_eq!(packet_share(&record, &[0], 70.0), None);
    }
}
