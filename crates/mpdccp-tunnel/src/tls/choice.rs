//! `encapsulation = "auto"`: packets use UDP while it is answered, and TLS otherwise.
//!
//! If UDP gets no answer for [`SILENCE`], the owner connects by TLS. Until TLS is connected, packets stay on
//! UDP. Then one last echo request is sent over UDP. The time limit for its answer is as long as TLS took to
//! connect, which is at least two round trips, so a line that was down only for a moment can answer in time.
//! If no answer arrives, packets switch to TLS. From then on, echo requests are sent over UDP at growing
//! intervals, and the first answer switches the packets back. A packet that arrives over UDP proves only that
//! one direction works. So if the owner reports that the path is failing although packets arrive, only
//! answers to echo requests count.

use mpdccp_units::{Duration, Time};

/// UDP is silent if no packet arrives for this long although at least [`SENDS`] sends were made. The owner
/// then connects by TLS. Meanwhile packets stay on UDP, so that a slow line loses none.
const SILENCE: Duration = Duration::from_secs(2);
const SENDS: u32 = 3;
/// A longer pause between sends restarts the count, because the line was idle.
const APART: Duration = Duration::from_secs(10);
/// Bounds on the time limit for the answer to the last echo request.
const GRACE: (Duration, Duration) = (Duration::from_millis(300), Duration::from_secs(5));
/// First and longest interval between echo requests over UDP.
const ASK: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(300));
/// If packets arrive over UDP although the path is failing, TLS must connect within this time.
const TRY: Duration = Duration::from_secs(30);
/// If UDP fails again within this time after packets have switched back, the interval between echo requests
/// grows.
const STABLE: Duration = Duration::from_secs(120);

/// Transport that carries a path's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// UDP.
    Udp,
    /// TLS over TCP.
    Tls,
}

/// Packets sent over UDP since the last answer.
#[derive(Clone, Copy, Debug)]
struct Silence {
    since: Time,
    last: Time,
    sends: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Packets use UDP, and UDP answers.
    Udp,
    /// Packets use UDP, but it does not answer. The owner connects by TLS.
    Connecting { since: Time, suspect: bool },
    /// TLS is connected. Packets switch to TLS unless UDP answers before this time.
    Asking { until: Time },
    /// Packets use TLS. If `asked`, an echo request has been sent over UDP, so an answer switches the packets
    /// back.
    Tls { asked: bool },
}

/// Chooses the transport of a path.
#[derive(Clone, Debug)]
pub struct Choice {
    state: State,
    silence: Option<Silence>,
    /// Whether TLS is connected.
    connected: bool,
    /// Until this time, packets wait for the first TLS connection instead of using UDP, because another
    /// server might answer a handshake over UDP.
    first_until: Option<Time>,
    ask_at: Time,
    wait: Duration,
    /// When packets last switched back to UDP.
    back_at: Option<Time>,
}

impl Default for Choice {
    fn default() -> Choice {
        Choice::new()
    }
}

impl Choice {
    /// Creates a choice that starts with UDP.
    pub fn new() -> Choice {
        let (silence, connected, ask_at, back_at) = (None, false, Time::ZERO, None);
        Choice { state: State::Udp, silence, connected, first_until: None, ask_at, wait: ASK.0, back_at }
    }

    /// Creates a choice that starts with TLS, because UDP did not answer on the path's previous socket.
    pub fn with_tls(now: Time) -> Choice {
        let first_until = Some(now + SILENCE);
        Choice { state: State::Tls { asked: false }, first_until, ask_at: now + ASK.0, ..Choice::new() }
    }

    /// Returns the transport for packets. Without a TLS connection, packets use UDP, unless they are still
    /// waiting for the first TLS connection.
    pub fn over(&self) -> Over {
        match self.state {
            State::Tls { .. } if self.connected || self.first_until.is_some() => Over::Tls,
            _ => Over::Udp,
        }
    }

    /// Returns whether packets have switched to TLS.
    pub fn has_moved(&self) -> bool {
        matches!(self.state, State::Tls { .. })
    }

    /// Returns whether the owner should connect by TLS, and stay connected.
    pub fn wants_tls(&self) -> bool {
        self.state != State::Udp
    }

    /// Handles a send; call this before the packets are sent. Returns true if these packets are the first to
    /// use TLS.
    pub fn on_send(&mut self, now: Time) -> bool {
        self.first_until.take_if(|until| *until <= now);
        match self.state {
            State::Udp => {
                let fresh = Silence { since: now, last: now, sends: 0 };
                let silence = self.silence.filter(|s| now.since(s.last) < APART).unwrap_or(fresh);
                let silence = Silence { last: now, sends: silence.sends + 1, ..silence };
                self.silence = Some(silence);
                if silence.sends >= SENDS && now.since(silence.since) >= SILENCE {
                    self.state = State::Connecting { since: now, suspect: false };
                }
                false
            }
            State::Asking { until } if now >= until => {
                let early = self.back_at.is_some_and(|at| now.since(at) < STABLE);
                self.wait = if early { (self.wait * 2).min(ASK.1) } else { ASK.0 };
                self.state = State::Tls { asked: false };
                self.ask_at = now + self.wait;
                true
            }
            _ => false,
        }
    }

    /// Handles the arrival of a packet over UDP.
    pub fn on_udp(&mut self, now: Time) {
        self.silence = None;
        if let State::Connecting { since, suspect } = self.state
            && (!suspect || now.since(since) >= TRY)
        {
            self.state = State::Udp;
        }
    }

    /// Handles the answer to an echo request over UDP.
    pub fn on_answer(&mut self, now: Time) {
        match self.state {
            State::Tls { asked: false } | State::Udp | State::Connecting { .. } => {}
            State::Tls { asked: true } => {
                self.back_at = Some(now);
                self.state = State::Udp;
            }
            State::Asking { .. } => self.state = State::Udp,
        }
    }

    /// Handles the report that the path is failing, possibly although packets still arrive over UDP.
    pub fn on_suspect(&mut self, now: Time) {
        match self.state {
            State::Udp => self.state = State::Connecting { since: now, suspect: true },
            // An attempt to connect by TLS is already in progress and continues.
            State::Connecting { since, .. } => self.state = State::Connecting { since, suspect: true },
            State::Asking { .. } | State::Tls { .. } => {}
        }
    }

    /// Handles the report that the kernel or the network refused to carry UDP packets.
    pub fn on_udp_refused(&mut self, now: Time) {
        if self.state == State::Udp {
            self.state = State::Connecting { since: now, suspect: false };
        }
    }

    /// Handles the success of the TLS connection.
    pub fn on_connected(&mut self, now: Time) {
        self.connected = true;
        if let State::Connecting { since, .. } = self.state {
            let grace = now.since(since).clamp(GRACE.0, GRACE.1);
            self.state = State::Asking { until: now + grace };
            self.ask_at = now;
        }
    }

    /// Handles the failure or the loss of the TLS connection. UDP may work meanwhile, so it is asked at once.
    pub fn on_disconnected(&mut self, now: Time) {
        (self.connected, self.first_until, self.ask_at) = (false, None, self.ask_at.min(now));
        if let State::Asking { .. } = self.state {
            self.state = State::Connecting { since: now, suspect: true };
        }
    }

    /// Returns whether the owner must send an echo request over UDP now. Schedules the next request if so.
    pub fn asks(&mut self, now: Time) -> bool {
        let due = now >= self.ask_at;
        match &mut self.state {
            State::Asking { until } if due => self.ask_at = *until + ASK.0,
            State::Tls { asked } if due => {
                *asked = true;
                self.wait = (self.wait * 2).min(ASK.1);
                self.ask_at = now + self.wait;
            }
            _ => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A simulated line: its round-trip time, and functions of time that say whether UDP gets through,
    /// whether TCP gets through, and whether the line is idle.
    struct Line {
        rtt: u64,
        udp: fn(u64) -> bool,
        tcp: fn(u64) -> bool,
        idle: fn(u64) -> bool,
        choice: Choice,
        answers: Vec<(u64, bool)>,
        connected_at: Option<u64>,
        /// The time of each switch in ms, and the transport after the switch.
        moves: Vec<(u64, Over)>,
        connections: u32,
    }

    impl Line {
        fn new(rtt: u64, udp: fn(u64) -> bool) -> Line {
            let choice = Choice::new();
            let (answers, moves) = (Vec::new(), Vec::new());
            Line {
                rtt,
                udp,
                tcp: |_| true,
                idle: |_| false,
                choice,
                answers,
                connected_at: None,
                moves,
                connections: 0,
            }
        }

        /// Runs the simulation until `end`, in ms. Sends a packet every 200 ms, and an echo request over UDP
        /// whenever one is due. The peer answers all of them.
        fn run(mut self, end: u64) -> Line {
            let mut last = Over::Udp;
            for ms in (0..end).step_by(20) {
                let now = Time::from_millis(ms + 1);
                for (_, question) in self.answers.extract_if(.., |(at, _)| *at <= ms) {
                    self.choice.on_udp(now);
                    if question {
                        self.choice.on_answer(now);
                    }
                }
                match (self.choice.wants_tls(), self.connected_at) {
                    (false, Some(_)) => {
                        self.connected_at = None;
                        self.choice.on_disconnected(now);
                    }
                    // TLS takes two round trips to connect.
                    (true, None) if (self.tcp)(ms) && ms % 1_000 == 0 => {
                        self.connected_at = Some(ms + 2 * self.rtt);
                        self.connections += 1;
                    }
                    (true, Some(at)) if at <= ms && !self.choice.connected => self.choice.on_connected(now),
                    _ => {}
                }
                if ms % 200 == 0 && !(self.idle)(ms) {
                    self.choice.on_send(now);
                    if self.choice.over() == Over::Udp && (self.udp)(ms) {
                        self.answers.push((ms + self.rtt, false));
                    }
                    if self.choice.asks(now) && (self.udp)(ms) {
                        self.answers.push((ms + self.rtt, true));
                    }
                }
                if self.choice.over() != last {
                    last = self.choice.over();
                    self.moves.push((ms, last));
                }
            }
            self
        }
    }

    #[test]
    fn udp_that_answers_stays_also_over_a_satellite_and_an_idle_line_connects_nothing() {
        for rtt in [1, 40, 600, 1_200] {
            let line = Line::new(rtt, |_| true).run(60_000);
            assert_eq!((line.moves, line.connections), (vec![], 0), "{rtt} ms");
        }
        let now_and_then = Line { idle: |ms| ms % 30_000 != 0, ..Line::new(40, |_| true) }.run(600_000);
        assert_eq!((now_and_then.moves, now_and_then.connections), (vec![], 0));
    }

    #[test]
    fn udp_blocked_from_the_start_takes_tls_once_and_is_asked_ever_less_often() {
        for rtt in [1, 40, 600, 1_200] {
            let line = Line::new(rtt, |_| false).run(900_000);
            let [(at, Over::Tls)] = line.moves[..] else { panic!("{rtt} ms: {:?}", line.moves) };
            // The limit is the sum of the 2 s of silence, a margin of 1.3 s, and twice the time to connect.
            // Connecting takes up to one second until the attempt starts, plus two round trips. It counts
            // twice because the wait for the last answer may take as long.
            assert!(at <= 2_000 + 1_000 + 300 + 2 * (2 * rtt + 1_000), "{rtt} ms: after {at} ms");
            assert_eq!(line.connections, 1);
        }
    }

    #[test]
    fn udp_blocked_in_the_middle_and_healed_returns() {
        let line = Line::new(40, |ms| !(20_000..100_000).contains(&ms)).run(600_000);
        let [(to, Over::Tls), (back, Over::Udp)] = line.moves[..] else { panic!("{:?}", line.moves) };
        assert!((22_000..25_000).contains(&to), "{to}");
        assert!((100_000..260_000).contains(&back), "{back}");
    }

    #[test]
    fn udp_that_comes_and_goes_does_not_make_the_path_flap() {
        // UDP gets through for ten seconds out of every twenty.
        let line = Line::new(40, |ms| ms / 10_000 % 2 == 0).run(3_600_000);
        assert!(line.moves.len() < 60, "{} moves in an hour", line.moves.len());
        assert_eq!(line.moves.last().map(|m| m.1), Some(Over::Tls));
    }

    #[test]
    fn a_dead_line_that_returns_stays_with_udp() {
        let dead: fn(u64) -> bool = |ms| !(20_000..31_010).contains(&ms);
        let line = Line { tcp: dead, ..Line::new(40, dead) }.run(120_000);
        assert_eq!(line.moves, [], "the last echo request is answered");
        // If UDP stays blocked and nothing else fails, packets switch to TLS.
        let line = Line { tcp: dead, ..Line::new(40, |ms| ms < 20_000) }.run(120_000);
        assert!(matches!(line.moves[..], [(_, Over::Tls)]), "{:?}", line.moves);
    }

    #[test]
    fn each_path_chooses_for_itself() {
        let lines =
            [Line::new(40, |_| true), Line::new(40, |_| false)].map(|line| line.run(30_000).choice.over());
        assert_eq!(lines, [Over::Udp, Over::Tls]);
    }

    #[test]
    fn late_packets_over_udp_do_not_bring_it_back_but_an_answer_does() {
        let mut choice = Choice::new();
        let at = Time::from_millis;
        choice.on_udp_refused(at(1_000));
        assert!(choice.wants_tls());
        choice.on_connected(at(1_080));
        assert!(choice.asks(at(1_080)) && !choice.asks(at(1_100)), "one last echo request");
        assert!(!choice.on_send(at(1_200)) && choice.on_send(at(1_500)) && !choice.on_send(at(1_600)));
        choice.on_answer(at(1_700));
        assert_eq!(choice.over(), Over::Tls, "the answer belongs to an old request");
        choice.on_disconnected(at(2_000));
        assert_eq!((choice.over(), choice.has_moved()), (Over::Udp, true), "without TLS, packets use UDP");
        choice.on_connected(at(2_500));
        assert_eq!(choice.over(), Over::Tls);
        assert!(choice.asks(at(2_500)), "the loss of TLS is a reason to ask");
        choice.on_answer(at(7_050));
        assert_eq!((choice.over(), choice.wants_tls()), (Over::Udp, false));
    }

    #[test]
    fn only_sends_that_belong_together_show_silence() {
        let at = Time::from_millis;
        let wants = |sends: &[u64]| {
            let mut choice = Choice::new();
            for ms in sends {
                choice.on_send(at(*ms));
            }
            choice.wants_tls()
        };
        assert!(wants(&[0, 1_000, 2_000]));
        assert!(!wants(&[0, 1_000, 1_999]), "the silence is too short");
        assert!(!wants(&[0, 3_000]), "two packets may be lost");
        assert!(!wants(&[0, 1, 20_000, 20_001]), "the line was idle in between");
        let mut choice = Choice::new();
        for ms in [0, 1_000, 1_900] {
            choice.on_send(at(ms));
        }
        choice.on_udp(at(1_950));
        choice.on_send(at(2_000));
        assert!(!choice.wants_tls(), "UDP has answered");
    }

    #[test]
    fn the_last_question_has_as_long_as_the_connection_took() {
        let at = Time::from_millis;
        for (took, grace) in [(40, 300), (4_000, 4_000), (20_000, 5_000)] {
            let mut choice = Choice::new();
            choice.on_suspect(at(1_000));
            choice.on_connected(at(1_000 + took));
            assert!(!choice.on_send(at(999 + took + grace)), "{took} ms");
            assert!(choice.on_send(at(1_000 + took + grace)), "{took} ms");
        }
        // When the TLS connection is lost, packets stay on UDP. After the next connection, another echo
        // request is sent.
        let mut choice = Choice::new();
        choice.on_udp_refused(at(1_000));
        choice.on_connected(at(1_100));
        choice.on_disconnected(at(1_200));
        assert!(!choice.on_send(at(3_000)) && choice.wants_tls());
        choice.on_connected(at(3_100));
        assert!(choice.asks(at(3_100)) && !choice.on_send(at(3_200)) && choice.on_send(at(5_100)));
        // An answer within the time limit ends the attempt to switch to TLS.
        let mut choice = Choice::new();
        choice.on_suspect(at(1_000));
        choice.on_connected(at(1_100));
        assert!(choice.asks(at(1_100)));
        choice.on_answer(at(1_200));
        assert!(!choice.wants_tls() && !choice.on_send(at(9_000)));
        // The TLS connection is lost before the answer to the echo request arrives. A packet that arrives
        // afterwards does not count as an answer.
        choice.on_udp_refused(at(10_000));
        choice.on_connected(at(10_100));
        choice.on_disconnected(at(10_200));
        choice.on_udp(at(10_300));
        assert!(choice.wants_tls());
    }

    #[test]
    fn questions_get_rarer_and_a_new_suspicion_asks_at_once() {
        let at = |seconds: u64| Time::from_millis(seconds * 1_000);
        let mut choice = Choice::with_tls(at(0));
        choice.on_connected(at(0));
        let asked: Vec<u64> = (0..1_300).filter(|seconds| choice.asks(at(*seconds))).collect();
        assert_eq!(asked, [5, 15, 35, 75, 155, 315, 615, 915, 1_215]);
        // While packets use TLS, reports about UDP have no effect.
        choice.on_suspect(at(1_300));
        choice.on_udp_refused(at(1_300));
        assert_eq!(choice.over(), Over::Tls);
        choice.on_answer(at(1_300));
        choice.on_disconnected(at(1_300));
        choice.on_suspect(at(1_310));
        choice.on_connected(at(1_311));
        assert!(choice.asks(at(1_311)));
    }

    #[test]
    fn a_path_that_used_tls_begins_with_it_and_asks_udp_later() {
        let at = Time::from_millis;
        let mut choice = Choice::with_tls(at(1_000));
        assert!(choice.wants_tls() && choice.has_moved());
        choice.on_send(at(2_990));
        assert_eq!(choice.over(), Over::Tls, "packets wait for the connection");
        for fail in [false, true] {
            let mut choice = choice.clone();
            let sent = if fail { 2_996 } else { 3_000 };
            if fail {
                choice.on_disconnected(at(2_995));
            }
            choice.on_send(at(sent));
            assert_eq!(choice.over(), Over::Udp, "the wait is short, and ends at a failure");
        }
        choice.on_udp(at(2_995));
        choice.on_connected(at(2_996));
        choice.on_send(at(4_000));
        assert_eq!(choice.over(), Over::Tls);
        assert!(!choice.asks(at(5_990)) && choice.asks(at(6_000)));
        choice.on_answer(at(6_050));
        assert_eq!(choice.over(), Over::Udp);
    }

    #[test]
    fn packets_that_arrive_do_not_keep_a_path_on_udp_that_works_one_way_only() {
        let at = Time::from_millis;
        // By the time the path fails, UDP has already been silent for two seconds.
        let mut choice = Choice::new();
        for sent in [0, 1_000, 2_000] {
            choice.on_send(at(sent));
        }
        choice.on_suspect(at(2_000));
        choice.on_udp(at(2_050));
        assert!(choice.wants_tls());
        let mut choice = Choice::new();
        choice.on_suspect(at(1_000));
        choice.on_udp(at(1_050));
        assert!(choice.wants_tls());
        choice.on_connected(at(1_100));
        assert!(choice.asks(at(1_100)));
        choice.on_udp(at(1_200));
        assert!(choice.on_send(at(1_500)));
        assert!(choice.asks(at(7_000)));
        choice.on_udp(at(7_100));
        assert_eq!(choice.over(), Over::Tls);
        choice.on_answer(at(7_200));
        assert_eq!((choice.over(), choice.wants_tls()), (Over::Udp, false));
        // TCP is blocked, and UDP works again.
        choice.on_suspect(at(10_000));
        choice.on_suspect(at(25_000));
        choice.on_udp(at(39_000));
        assert!(choice.wants_tls());
        choice.on_udp(at(40_000));
        assert!(!choice.wants_tls());
    }
}
