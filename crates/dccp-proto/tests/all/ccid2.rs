//! The window of a CCID 2 sending half, step by step as in RFC 4341 section 5.

use dccp_cc::Window;
use dccp_proto::ccid::{self, Feedback, HalfConfig, SenderHalf};
use dccp_proto::{Gate, Why};
use dccp_wire::Seq;
use dccp_wire::ack_vector::{State, cell};
use mpdccp_units::{Duration, Time};

const MTU: u16 = 1500;

struct Sender {
    half: Box<dyn SenderHalf>,
    now: Time,
    next: u64,
    acked: u64,
}

impl Sender {
    fn new(mtu: u16) -> Sender {
        let half = ccid::sender(2, &HalfConfig::new(mtu, Seq::new(0), None)).unwrap();
        Sender { half, now: Time::from_millis(1000), next: 0, acked: 0 }
    }

    fn cwnd(&self) -> u64 {
        match self.half.view().cwnd {
            Window::Packets(n) => n,
            Window::Bytes(n) => panic!("CCID 2 counts packets, not {n} bytes"),
        }
    }

    /// Sends until the window is full, and returns the number of packets sent.
    fn fill(&mut self) -> u64 {
        let before = self.next;
        while matches!(self.half.gate(self.now), Gate::Open { .. }) {
            self.half.on_sent(self.now, Seq::new(self.next), 700, Some(640));
            self.next += 1;
        }
        assert_eq!(self.half.gate(self.now), Gate::Closed(Why::Window));
        assert_eq!(self.half.view().inflight.packets, self.cwnd().max(self.half.view().inflight.packets));
        self.next - before
    }

    /// Acknowledges the next `packets` packets, cycling through `states`: 0 received, 1 marked, 3 missing.
    fn ack(&mut self, packets: u64, states: &[u8]) {
        self.acked += packets;
        let cells: Vec<u8> = (0..packets)
            .map(|i| match states[(packets - 1 - i) as usize % states.len()] {
                0 => cell(State::Received, 1),
                1 => cell(State::ReceivedEcnMarked, 1),
                _ => cell(State::NotYetReceived, 1),
            })
            .collect();
        let ack = Seq::new(self.acked - 1);
        self.half.on_feedback(self.now, &Feedback::new(ack, &cells));
    }

    /// Simulates a round trip. Acknowledges everything in flight, `each` packets at a time.
    fn round(&mut self, each: u64) {
        self.now += Duration::from_millis(50);
        while self.acked < self.next {
            let packets = each.min(self.next - self.acked);
            self.ack(packets, &[0]);
        }
        self.fill();
    }
}

#[test]
fn initial_window() {
    // RFC 3390, counted in packets: at most four packets, and about 4380 bytes without headers.
    for (mtu, packets) in [(500, 4), (1135, 4), (1400, 3), (1500, 3), (1501, 2), (9000, 2)] {
        assert_eq!(Sender::new(mtu).fill(), packets);
    }
}

#[test]
fn slow_start_adds_one_for_two_acknowledged() {
    let mut s = Sender::new(500);
    s.fill();
    for expected in [6, 9, 13] {
        s.round(2);
        assert_eq!(s.cwnd(), expected);
    }
    // The window grows by at most Ack Ratio / 2 per acknowledgement, however many packets the acknowledgement
    // covers.
    s.round(100);
    assert_eq!(s.cwnd(), 14);
    s.half.on_ack_ratio(8);
    s.round(100);
    assert_eq!(s.cwnd(), 18);
}

/// Creates a sender whose window has been halved, so that it is in congestion avoidance.
fn halved() -> Sender {
    let mut s = Sender::new(500);
    s.fill();
    while s.cwnd() < 21 {
        s.round(2);
    }
    s.now += Duration::from_millis(50);
    let before = s.cwnd();
    s.ack(4, &[3, 0, 0, 0]);
    assert_eq!(s.cwnd(), before / 2);
    s
}

#[test]
fn a_loss_halves_once_a_window() {
    let mut s = halved();
    let cwnd = s.cwnd();
    // Losses and marks in the rest of that window do not reduce it again.
    let rest = s.next - s.acked;
    s.ack(rest, &[3, 0, 1, 0, 0]);
    assert_eq!(s.cwnd(), cwnd);
    assert!(s.half.view().lost.packets > 1 && s.half.view().ce > 0);
}

#[test]
fn a_mark_halves_too() {
    let mut s = halved();
    s.fill();
    s.round(2);
    let cwnd = s.cwnd();
    s.now += Duration::from_millis(50);
    s.ack(1, &[1]);
    assert_eq!((s.cwnd(), s.half.view().lost.packets), (cwnd / 2, 1));
}

#[test]
fn congestion_avoidance_adds_one_a_window() {
    let mut s = halved();
    s.fill();
    s.round(2);
    for _ in 0..5 {
        let cwnd = s.cwnd();
        s.round(2);
        assert_eq!(s.cwnd(), cwnd + 1);
    }
}

#[test]
fn a_timeout_leaves_one_packet_and_half_the_threshold() {
    let mut s = halved();
    s.fill();
    s.round(2);
    let cwnd = s.cwnd();
    // Probes leave before the timeout.
    while s.half.view().timeouts == 0 {
        s.now = s.half.next_timeout().unwrap();
        s.half.on_timeout(s.now);
    }
    assert_eq!((s.cwnd(), s.half.view().inflight.packets), (1, 0));
    // The window grows by slow start up to half of its old size, then by one packet per window.
    s.acked = s.next;
    assert_eq!(s.fill(), 1);
    let mut last = 1;
    for _ in 0..100 {
        s.round(2);
        assert!(s.cwnd() <= last + (last / 2).max(1));
        if last >= cwnd / 2 {
            assert!(s.cwnd() <= last + 1, "{} {last} {cwnd}", s.cwnd());
        }
        last = s.cwnd();
    }
    assert!(last > cwnd / 2);
}

#[test]
fn the_window_never_falls_below_one() {
    let mut s = Sender::new(1500);
    for _ in 0..8 {
        s.fill();
        s.now += Duration::from_millis(50);
        let packets = s.next - s.acked;
        s.ack(packets, &[1]);
    }
    assert_eq!(s.cwnd(), 1);
    assert_eq!(s.fill(), 1);
}

#[test]
fn an_unused_window_is_kept_for_five_minutes() {
    let mut s = Sender::new(500);
    s.fill();
    while s.cwnd() < 60 {
        s.round(2);
    }
    s.now += Duration::from_millis(50);
    let rest = s.next - s.acked;
    s.ack(rest, &[0]);
    let cwnd = s.cwnd();
    // RFC 7661 sections 4.4 and 4.4.3: an unused window is kept for five minutes, then halved.
    s.now += Duration::from_secs(60);
    s.half.on_sent(s.now, Seq::new(s.next), 700, Some(640));
    assert_eq!(s.cwnd(), cwnd);
    s.now += Duration::from_millis(50);
    s.next += 1;
    s.ack(1, &[0]);
    s.now += Duration::from_secs(301);
    s.half.on_sent(s.now, Seq::new(s.next), 700, Some(640));
    assert_eq!(s.cwnd(), (cwnd / 2).max(4));
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let mut s = Sender::new(500);
    s.fill();
    s.round(2);
    s.now += Duration::from_millis(50);
    let rest = s.next - s.acked;
    s.ack(rest, &[0]);
    let cwnd = s.cwnd();
    for _ in 0..40 {
        s.half.on_sent(s.now, Seq::new(s.next), 700, Some(640));
        s.next += 1;
        s.now += Duration::from_millis(50);
        s.ack(1, &[0]);
    }
    // The first acknowledgement may still count as window-limited.
    assert!(s.cwnd() <= cwnd + 1, "{} {cwnd}", s.cwnd());
}

#[test]
fn the_window_counts_packets_whatever_their_size() {
    let mut s = Sender::new(500);
    let cwnd = s.fill();
    s.half.on_mtu(MTU);
    assert_eq!(s.cwnd(), cwnd);
}

#[test]
fn a_slow_receiver_ends_slow_start() {
    let mut s = Sender::new(500);
    s.fill();
    s.round(2);
    s.round(2);
    let cwnd = s.cwnd();
    s.half.on_slow_receiver(s.now, 2);
    assert_eq!(s.cwnd(), cwnd - 2);
    s.fill();
    s.round(2);
    assert!(s.cwnd() <= cwnd, "{} {cwnd}", s.cwnd());
}
