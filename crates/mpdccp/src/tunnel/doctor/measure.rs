//! Measures a line whose server answers: loss, packet sizes, NAT timeout and queues.

use super::probe::{Got, Prober};
use super::system::full_buffers;
use dccp_net::Clock;
use mpdccp_units::{Duration, Rate, Time};
use serde::Serialize;
use std::collections::BTreeMap;

const MS: Duration = Duration::from_millis(1);
/// Number of probes that measure the loss, and the interval between them. They take five seconds and about 75
/// kB in each direction.
const LOSS: u32 = 500;
const LOSS_EVERY: Duration = Duration::from_millis(10);
const SMALL: u16 = 150;
/// Number of copies of each size probe. If the size fits, at least one copy arrives even if the line loses
/// most packets.
const COPIES: usize = 5;
/// A packet size that every path carries, and the size at which the search begins.
const LEAST: u16 = 576;
const USUAL: u16 = 1_200;
/// The lengths of silence that the NAT test tries, in seconds.
const SILENCES: [u64; 9] = [5, 10, 15, 20, 25, 30, 40, 60, 120];
/// How long the NAT test exchanges packets before the silence. Linux's NAT applies its full UDP timeout only
/// to flows that have had packets in both directions for at least two seconds.
const WARM: Duration = Duration::from_millis(3_000);
/// Duration, packet size and highest rate of the load test, and the rate at which it starts.
const LOAD_TIME: Duration = Duration::from_secs(6);
const LOAD_SIZE: u16 = 1_200;
pub(super) const LOAD_RATE: Rate = Rate::from_bps(100_000_000);
const FIRST_RATE: Rate = Rate::from_bps(2_000_000);
/// Number of probes per answer in an upload test, and number of answers per probe in a download test.
const SPARSE: u64 = 8;
const COPIED: u8 = 4;
const LONGEST_QUEUE: Duration = Duration::from_millis(3_000);
/// Interval between rate changes. If the smallest delay within an interval is at least `QUEUED`, the line has
/// a queue.
const STEP: Duration = Duration::from_millis(200);
const QUEUED: Duration = Duration::from_millis(60);

/// Share of packets lost in each direction, and the round-trip time without load.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Loss {
    pub(crate) up: f64,
    pub(crate) down: f64,
    /// Round-trip time, milliseconds.
    pub(crate) rtt_ms: f64,
    pub(crate) rtt_max_ms: f64,
}

/// Largest IP packets in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Sizes {
    /// Largest packet that the interface accepts.
    pub(crate) device: u16,
    /// Size of the largest packet that arrived at the server, and of the largest that arrived at this end.
    pub(crate) up: u16,
    pub(crate) down: u16,
    /// Largest size reported by an ICMP message.
    pub(crate) told: Option<u16>,
}

/// How long a flow may be silent, in seconds, before the NAT or firewall drops packets to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Silence {
    /// The longest silence after which an answer still arrived.
    pub(crate) holds: u64,
    /// The shortest silence after which no answer arrived any more.
    pub(crate) fails: Option<u64>,
}

/// Result of the load test in one direction.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Load {
    #[serde(serialize_with = "bps")]
    pub(crate) rate: Rate,
    /// Round-trip time that the queue added, in milliseconds.
    pub(crate) queue_ms: f64,
    /// Whether the line is faster than the test's highest rate.
    pub(crate) faster: bool,
    /// Whether this host was too busy to produce a reliable result.
    pub(crate) busy: bool,
}

fn bps<S: serde::Serializer>(rate: &Rate, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(rate.bps())
}

pub(crate) fn ms(d: Duration) -> f64 {
    (d.as_secs_f64() * 10_000.0).round() / 10.0
}

/// Sends probes until the first answer arrives, then one more probe. Returns the last answer, or `None` if no
/// answer arrived within `patience`.
pub(crate) fn reach(prober: &mut Prober, patience: Duration) -> Option<Got> {
    let end = Clock.now() + patience;
    let mut first = None;
    while first.is_none() && Clock.now() < end {
        prober.ask(0, SMALL, SMALL, Duration::ZERO);
        let until = (Clock.now() + 500 * MS).min(end);
        prober.receive(until, |got| first.replace(*got).is_none());
    }
    // Do not use the first probe's time, because that probe waited for the handshake.
    let mut again = None;
    first?;
    prober.ask(0, SMALL, SMALL, Duration::ZERO);
    prober.receive(Clock.now() + 1_000 * MS, |got| again.replace(*got).is_none());
    // Wait until the earlier probes have arrived, so that the next measurement does not count them.
    prober.receive(Clock.now() + 200 * MS, |_| false);
    again.or(first)
}

pub(crate) fn loss(prober: &mut Prober) -> Loss {
    let (before, begin) = (prober.counted, Clock.now());
    let (mut came, mut last) = (0, prober.counted);
    let (mut least, mut most) = (Duration::MAX, Duration::ZERO);
    let mut note = |got: &Got| {
        came += 1;
        last = last.max(got.answer.count);
        (least, most) = (least.min(got.rtt()), most.max(got.rtt()));
        false
    };
    for n in 1..=LOSS {
        prober.ask(0, SMALL, SMALL, Duration::ZERO);
        prober.receive(begin + LOSS_EVERY * n, &mut note);
    }
    prober.receive(Clock.now() + 1_500 * MS, &mut note);
    // Each answer says how many probes have arrived. Request several answers, because some may be lost.
    let asked = LOSS + COPIES as u32;
    for _ in 0..COPIES {
        prober.ask(0, SMALL, SMALL, Duration::ZERO);
        prober.receive(Clock.now() + 50 * MS, &mut note);
    }
    prober.receive(Clock.now() + 1_000 * MS, &mut note);
    let arrived = last.wrapping_sub(before).min(asked);
    let part = |lost: u32, of: u32| if of == 0 { 1.0 } else { f64::from(lost) / f64::from(of) };
    Loss {
        up: part(asked - arrived, asked),
        down: part(arrived.saturating_sub(came), arrived),
        rtt_ms: if came == 0 { 0.0 } else { ms(least) },
        rtt_max_ms: ms(most),
    }
}

pub(crate) fn sizes(prober: &mut Prober, rtt: Duration) -> std::io::Result<Sizes> {
    let device = prober.device_mtu()?.min(9_000);
    let mut fits = |up: u16, down: u16| {
        let first = prober.next_number();
        let mut passed = false;
        for copy in 1..=COPIES {
            prober.ask(0, up, down, Duration::ZERO);
            let last = if copy == COPIES { rtt * 2 + 300 * MS } else { Duration::ZERO };
            prober.receive(Clock.now() + 20 * MS + last, |got| {
                passed |= got.answer.number >= first;
                passed
            });
            if passed {
                break;
            }
        }
        passed
    };
    let up = largest(device, |size| fits(size, SMALL));
    let down = largest(device, |size| fits(SMALL, size));
    Ok(Sizes { device, up, down, told: prober.path_mtu().ok() })
}

/// Returns the largest size that fits, using bisection.
fn largest(most: u16, mut fits: impl FnMut(u16) -> bool) -> u16 {
    if fits(most) {
        return most;
    }
    let (mut low, mut high) = if most > USUAL && fits(USUAL) {
        (USUAL, most)
    } else if most > LEAST {
        (LEAST, most.min(USUAL))
    } else {
        // The server has answered probes of this size.
        (SMALL.min(most), most)
    };
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle) { low = middle } else { high = middle }
    }
    low
}

/// The probes of the NAT test. The server answers each probe after the delay that the probe requests. During
/// this delay, no other packet is sent in the probe's flow.
pub(crate) struct Silences {
    /// The silence in seconds that each probe requests, by probe number.
    waiting: BTreeMap<u64, u64>,
    until: Time,
}

impl Silences {
    /// Sends one probe for each silence of up to `longest` seconds. Each probe uses its own port.
    pub(crate) fn start(prober: &mut Prober, longest: u64) -> std::io::Result<Option<Silences>> {
        let tried: Vec<u64> = SILENCES.into_iter().filter(|s| *s <= longest).collect();
        if tried.is_empty() || !prober.has_ports() {
            return Ok(None);
        }
        let sockets = tried.iter().map(|_| prober.add_socket()).collect::<std::io::Result<Vec<_>>>()?;
        let begin = Clock.now();
        while Clock.now().since(begin) < WARM {
            for socket in &sockets {
                prober.ask(*socket, SMALL, SMALL, Duration::ZERO);
            }
            prober.receive(Clock.now() + 500 * MS, |_| false);
        }
        let waiting = sockets.iter().zip(&tried).map(|(socket, silence)| {
            (prober.ask(*socket, SMALL, SMALL, Duration::from_secs(*silence)), *silence)
        });
        let waiting = waiting.collect();
        let longest = tried.last().copied().unwrap_or(0);
        let until = Clock.now() + Duration::from_secs(longest) + 2_000 * MS;
        Ok(Some(Silences { waiting, until }))
    }

    /// Waits for the answers that are still missing.
    pub(crate) fn finish(self, prober: &mut Prober) -> Silence {
        let last = self.waiting.last_key_value().map(|(number, _)| *number);
        prober.receive(self.until, |got| Some(got.answer.number) == last);
        let answered = prober.answered();
        let holds = self.waiting.iter().filter(|(number, _)| answered.contains(number));
        let holds = holds.map(|(_, silence)| *silence).max().unwrap_or(0);
        // Ignore unanswered probes whose silence is shorter than `holds`: the binding lasted longer than
        // that, so their answers were lost for another reason.
        let fails = self.waiting.values().copied().filter(|silence| *silence > holds).min();
        Silence { holds, fails }
    }
}

/// Loads the line in one direction. Increases the rate until a queue forms, then sends at twice the line's
/// rate until the queue is long or full, or until the time limit.
pub(crate) fn load(prober: &mut Prober, up: bool, base: Duration, size: u16) -> Load {
    let size = size.min(LOAD_SIZE);
    let begin = Clock.now();
    let end = begin + LOAD_TIME;
    // Late answers to the NAT test can arrive during this test. They are not counted, because their numbers
    // are smaller than `from`.
    let mut run = Run::new(base, size, begin);
    (run.from, run.counted, run.up) = (prober.next_number(), prober.counted, up);
    let dropped = full_buffers();
    while !run.is_over() && Clock.now() < end {
        let now = Clock.now();
        for _ in 0..run.due(now) {
            // The other direction may be slow, so keep its traffic low: an upload requests few answers, and a
            // download requests several answers per probe.
            let answered = prober.next_number().is_multiple_of(SPARSE);
            run.newest = match up {
                true => prober.ask_for(0, size, (SMALL, u8::from(answered)), Duration::ZERO),
                false => prober.ask_for(0, SMALL, (size, COPIED), Duration::ZERO),
            };
        }
        prober.receive(now + MS, |got| {
            run.on_answer(got);
            false
        });
        run.step(Clock.now());
    }
    // Wait until the queue has drained, so that the next test starts on an idle line.
    let newest = prober.ask(0, SMALL, SMALL, Duration::ZERO);
    prober.receive(Clock.now() + LONGEST_QUEUE + base, |got| {
        if got.answer.number != newest {
            run.on_answer(got);
        }
        got.answer.number == newest
    });
    run.overflowed = full_buffers() > dropped;
    run.result()
}

/// A load test in progress.
#[derive(Default)]
struct Run {
    size: u16,
    base: Duration,
    begin: Time,
    /// The sending rate now.
    rate: Rate,
    /// When the current interval between rate changes began.
    looked: Time,
    /// When the test's loop last ran.
    turn: Time,
    /// Number of probes that may be sent now. It can be a fraction.
    credit: f64,
    /// Number of the first probe.
    from: u64,
    /// Number of the last probe.
    newest: u64,
    /// Number of probes that had arrived before this test began.
    counted: u32,
    up: bool,
    /// Number of load packets that have arrived at the receiving end.
    arrived: u64,
    lost: u64,
    /// The longest queueing delay.
    queue: Duration,
    /// The shortest queueing delay since the last rate change.
    least: Option<Duration>,
    /// The value of `least` in the last interval that had an answer. Zero until there is one.
    least_before: Duration,
    /// The longest delay that was exceeded throughout two intervals in a row. A single interval is not
    /// enough, because a pause at one end may delay all packets of that interval.
    standing: Duration,
    /// Whether a queue has formed.
    full: bool,
    faster: bool,
    /// The longest time between two iterations of the test's loop.
    late: Duration,
    /// Whether this host's own sockets overflowed.
    overflowed: bool,
    /// Number of load packets that arrived in each quarter of a second.
    bins: BTreeMap<u64, u64>,
}

impl Run {
    fn new(base: Duration, size: u16, begin: Time) -> Run {
        Run {
            size,
            base,
            begin,
            rate: FIRST_RATE,
            looked: begin,
            turn: begin,
            from: 1,
            up: true,
            ..Run::default()
        }
    }

    /// Returns the number of probes that are due.
    fn due(&mut self, now: Time) -> u32 {
        let passed = now.since(self.turn);
        self.late = self.late.max(passed);
        self.turn = now;
        // If this process was paused, do not send the missed probes in a burst.
        self.credit += self.rate.bytes_per_sec() * passed.min(5 * MS).as_secs_f64() / f64::from(self.size);
        let each = if self.up { 1.0 } else { f64::from(COPIED) };
        let due = (self.credit / each).floor();
        self.credit -= due * each;
        due as u32
    }

    fn on_answer(&mut self, got: &Got) {
        let Some(before) = got.answer.number.checked_sub(self.from) else { return };
        let (sent, arrived) = match self.up {
            true => (before + 1, u64::from(got.answer.count.wrapping_sub(self.counted))),
            false => (before * u64::from(COPIED), self.arrived + 1),
        };
        let new = arrived.saturating_sub(self.arrived);
        *self.bins.entry(got.at.since(self.begin).as_millis() as u64 / 250).or_default() += new;
        self.arrived = self.arrived.max(arrived);
        self.lost = self.lost.max(sent.saturating_sub(self.arrived));
        let queue = got.rtt().saturating_sub(self.base);
        self.queue = self.queue.max(queue);
        self.least = Some(self.least.map_or(queue, |least| least.min(queue)));
    }

    /// Changes the rate at the end of each interval.
    fn step(&mut self, now: Time) {
        if now.since(self.looked) < STEP.max(self.base) {
            return;
        }
        self.looked = now;
        // If no answer arrived in this interval, the test has just begun, or all answers are still queued.
        let least = self.least.take();
        if let Some(least) = least {
            self.standing = self.standing.max(least.min(self.least_before));
            self.least_before = least;
        }
        match least {
            _ if self.full => {}
            Some(least) if least < QUEUED => {
                self.faster = self.rate >= LOAD_RATE;
                self.rate = self.rate.scale(1.6).min(LOAD_RATE);
            }
            Some(_) => {
                self.full = true;
                self.rate = self.carried().scale(2.0).clamp(FIRST_RATE, LOAD_RATE);
            }
            None => {}
        }
    }

    fn carried(&self) -> Rate {
        Rate::from_bps(self.bins.values().copied().max().unwrap_or(0) * u64::from(self.size) * 8 * 4)
    }

    /// Returns whether the test can end: the queue is very long, the queue overflows, or the line carries
    /// everything that the test can send.
    fn is_over(&self) -> bool {
        let overflows = self.lost > 50 && self.lost * 50 > self.arrived;
        self.queue > LONGEST_QUEUE || overflows || self.faster
    }

    fn result(&self) -> Load {
        // Each end may have paused several times, so compare a multiple of the longest pause with the delay.
        let busy = self.overflowed || self.late * 4 > self.standing;
        Load { rate: self.carried(), queue_ms: ms(self.standing), faster: self.faster, busy }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dccp_secure::EchoAnswer;

    #[test]
    fn the_largest_size_is_found_whatever_it_is() {
        for limit in [577, 1_000, 1_199, 1_200, 1_201, 1_280, 1_420, 1_492, 1_499, 1_500, 9_000] {
            let most = 1_500.max(limit);
            assert_eq!(largest(most, |size| size <= limit), limit);
        }
        assert_eq!(largest(1_500, |_| false), LEAST);
        assert_eq!(largest(1_000, |size| size <= 800), 800);
        for limit in [SMALL, 300, 499, 500] {
            assert_eq!(largest(500, |size| size <= limit), limit, "the interface has an MTU below {LEAST}");
        }
        assert_eq!(largest(100, |_| false), 100);
    }

    fn got(number: u64, count: u32, (asked, at): (u64, u64)) -> Got {
        let answer = EchoAnswer {
            number,
            count,
            unix: Duration::ZERO,
            forwards: [false; 2],
            seen: ([192, 0, 2, 1], 1).into(),
        };
        Got { answer, asked: Time::from_millis(asked), at: Time::from_millis(at) }
    }

    #[test]
    fn a_load_grows_until_a_queue_begins_and_ends_where_it_is_full() {
        let at = Time::from_millis;
        let mut run = Run::new(20 * MS, LOAD_SIZE, Time::ZERO);
        assert_eq!(run.due(at(5)), 1);
        run.on_answer(&got(8, 8, (0, 20)));
        run.step(at(200));
        assert_eq!((run.rate, run.full), (FIRST_RATE.scale(1.6), false));
        // A single packet with a long delay is no evidence of a queue; all packets of an interval must be
        // delayed.
        run.on_answer(&got(16, 16, (200, 520)));
        run.on_answer(&got(24, 24, (200, 221)));
        run.step(at(400));
        assert!(!run.full && run.queue == 300 * MS && run.result().queue_ms == 0.0);
        (4..50).for_each(|n| run.on_answer(&got(n * 8, n as u32 * 8, (300, 600))));
        run.step(at(600));
        assert!(run.full && !run.is_over() && run.rate > FIRST_RATE && run.lost == 0);
        assert_eq!(run.result().queue_ms, 1.0, "an end may have paused for this interval");
        run.on_answer(&got(400, 400, (500, 800)));
        run.step(at(800));
        assert_eq!(run.result().queue_ms, 280.0);
        // From here on, every second probe is lost.
        (50..80).for_each(|n| run.on_answer(&got(n * 8, 400 + (n as u32 - 50) * 4, (700, 1_000))));
        assert!(run.is_over(), "{}", run.lost);
        assert!(!run.result().busy);
        run.due(at(900));
        assert!(run.result().busy, "the loop paused for too long");
    }

    #[test]
    fn a_line_that_carries_all_is_not_filled() {
        for up in [true, false] {
            let mut run = Run { up, ..Run::new(20 * MS, LOAD_SIZE, Time::ZERO) };
            for step in 1..20 {
                for _ in 0..COPIED {
                    run.on_answer(&got(step, step as u32, (step * 200 - 50, step * 200 - 25)));
                }
                run.step(Time::from_millis(step * 200));
            }
            assert!(run.is_over() && run.faster && !run.full && run.lost == 0, "{}", run.lost);
        }
    }
}
