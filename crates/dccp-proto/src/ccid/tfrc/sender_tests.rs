use super::*;
use crate::Ecn;
use crate::ccid::tfrc::TfrcReceiver;
use crate::ccid::{AckDue, Arrival, Outstanding, ReceiverHalf, ms};
use dccp_wire::{Opt, OptionBuf, Options};
use proptest::prelude::*;

const RTT: Duration = Duration::from_millis(100);
const FIRST: Seq = Seq::new(Seq::MODULUS - 3);

fn config() -> HalfConfig {
    HalfConfig::new(1500, FIRST, Some(RTT))
}

/// Returns the feedback as Linux sends it: receive rate and loss event rate, but no intervals.
fn rates(receive_rate: u32, loss_event_rate: u32) -> OptionBuf {
    let mut out = OptionBuf::new();
    let told =
        Told { receive_rate: Some(receive_rate), loss_event_rate: Some(loss_event_rate), ..Told::default() };
    told.write(false, 100, &mut out);
    out
}

fn feedback<'a>(ack: Seq, options: &'a OptionBuf) -> Feedback<'a> {
    Feedback { options: options.as_bytes(), ..Feedback::new(ack, &[]) }
}

/// Sends packets 0 to `n` - 1, one per millisecond.
fn sent(half: &mut TfrcSenderHalf, n: u64) {
    (0..n).for_each(|i| half.on_sent(ms(i), FIRST.add(i), 1040, Some(1000)));
}

#[test]
fn paces_at_the_initial_rate() {
    let mut half = TfrcSenderHalf::new(false, &config());
    assert!(matches!(half.gate(ms(0)), Gate::Open { .. }));
    half.on_sent(ms(0), FIRST, 1040, Some(1000));
    // The initial rate is four packets in 100 ms.
    assert_eq!(half.gate(ms(1)), Gate::At(ms(25), Why::Pacing));
    assert!(matches!(half.gate(ms(25)), Gate::Open { .. }));
    let view = half.view();
    assert_eq!((view.inflight.packets, view.sent.bytes, view.phase), (1, 1040, "slow_start"));
    assert_eq!(view.cwnd, Window::Bytes(4160));
    // CCID 4 never sends faster than one packet per 10 ms.
    let mut half = TfrcSenderHalf::new(true, &HalfConfig { handshake_rtt: Some(RTT / 100), ..config() });
    half.on_sent(ms(0), FIRST, 140, Some(100));
    assert_eq!(half.gate(ms(1)), Gate::At(ms(10), Why::Pacing));
}

#[test]
fn a_much_higher_rate_does_not_wait_out_the_old_one() {
    let mut half = TfrcSenderHalf::new(false, &HalfConfig { handshake_rtt: None, ..config() });
    half.on_sent(ms(0), FIRST, 1040, Some(1000));
    assert_eq!(half.gate(ms(1)), Gate::At(ms(1000), Why::Pacing));
    half.on_feedback(ms(100), &feedback(FIRST, &rates(0, u32::MAX)));
    assert!(matches!(half.gate(ms(100)), Gate::Open { .. }), "{:?}", half.gate(ms(100)));
}

#[test]
fn takes_the_loss_event_rate_where_intervals_are_missing() {
    let mut half = TfrcSenderHalf::new(false, &config());
    sent(&mut half, 100);
    half.on_feedback(ms(150), &feedback(FIRST.add(49), &rates(1_000_000, 100)));
    assert_eq!(half.tfrc.loss_event_rate(), 0.01);
    let view = half.view();
    assert_eq!(
        (view.phase, view.lost.packets, view.delivered.packets, view.inflight.packets),
        ("equation", 1, 49, 50)
    );
    assert_eq!(view.rtt.latest(), Some(ms(150) - ms(49)));
    // An acknowledgement without the rates is not feedback for the rate, but it reports arrivals.
    let timer = half.next_timeout();
    half.on_feedback(ms(200), &feedback(FIRST.add(59), &OptionBuf::new()));
    assert_eq!((half.view().inflight.packets, half.next_timeout()), (40, timer));
    // An acknowledgement without a Receive Rate is not feedback either.
    let mut out = OptionBuf::new();
    out.push(&Opt::Ccid(192, &[0, 0, 0, 2]));
    half.on_feedback(ms(210), &feedback(FIRST.add(60), &out));
    assert_eq!(half.tfrc.loss_event_rate(), 0.01);
}

#[test]
fn older_intervals_need_not_be_told_again() {
    let interval = |lossless, lossy| LossInterval {
        lossy,
        lossless,
        data: lossless + lossy,
        drops: lossy,
        quarters: None,
    };
    let tell = |half: &mut TfrcSenderHalf, at, ack, intervals: &[LossInterval]| {
        let told = Told { receive_rate: Some(1_000_000), intervals: intervals.into(), ..Told::default() };
        let mut out = OptionBuf::new();
        told.write(false, 400, &mut out);
        // The feedback of this implementation omits Loss Event Rate.
        half.on_feedback(ms(at), &feedback(FIRST.add(ack), &out));
        half.intervals.iter().map(|known| known.interval.packets()).collect::<Vec<_>>()
    };
    let mut half = TfrcSenderHalf::new(false, &config());
    sent(&mut half, 400);
    let first = LossInterval { data: 77, ..interval(50, 0) };
    assert_eq!(tell(&mut half, 400, 99, &[interval(19, 1), interval(25, 5), first]), [20, 30, 50]);
    assert_eq!(half.view().lost.packets, 2);
    // 30 packets later, the receiver reports only the newest interval, which has grown. The next report also
    // has a new interval.
    assert_eq!(tell(&mut half, 410, 129, &[interval(49, 1)]), [50, 30, 50]);
    assert_eq!(half.view().lost.packets, 2);
    assert_eq!(tell(&mut half, 420, 199, &[interval(49, 1), interval(69, 1)]), [50, 70, 30, 50]);
    assert_eq!(half.view().lost.packets, 3);
    // A late packet has merged two intervals. The latest report counts.
    assert_eq!(tell(&mut half, 430, 199, &[interval(119, 1), interval(25, 5)]), [120, 30, 50]);
    assert_eq!(half.intervals.last().map(|known| known.interval.data), Some(77));
    // The option can carry no larger length, so this interval began earlier than its length says.
    let longest = interval(MAX_24, 1);
    tell(&mut half, 440, 299, &[longest]);
    let lost = half.view().lost.packets;
    tell(&mut half, 450, 399, &[longest]);
    assert_eq!(half.view().lost.packets, lost);
}

#[test]
fn the_counter_is_a_round_trip_ahead_of_what_is_acknowledged() {
    let mut half = TfrcSenderHalf::new(false, &config());
    half.on_sent(ms(0), FIRST, 1040, Some(1000));
    half.on_sent(ms(30), FIRST.add(1), 1040, Some(1000));
    assert_eq!(half.ccval(ms(31)), 1);
    half.on_feedback(ms(40), &feedback(FIRST.add(1), &rates(0, u32::MAX)));
    assert_eq!(half.ccval(ms(41)), 5);
}

#[test]
fn asks_for_a_window_that_fits_the_rate() {
    let mut half = TfrcSenderHalf::new(false, &config());
    sent(&mut half, 10_000);
    half.on_feedback(ms(10_000), &feedback(FIRST, &rates(1_000_000, u32::MAX)));
    assert_eq!(half.poll_request(), Some(SenderRequest::SequenceWindow(65_536)));
    assert_eq!(half.poll_request(), None);
    // RFC 4342 section 6.3: the receiver repeats Data Dropped until its acknowledgements are acknowledged.
    half.on_slow_receiver(ms(10_000), 1);
    assert_eq!(half.poll_request(), Some(SenderRequest::AckPeer));
}

#[test]
fn packets_of_the_previous_ccid_leave_the_path_and_do_not_falsify_the_round_trip() {
    let mut half = TfrcSenderHalf::new(false, &config());
    let outstanding = [Outstanding { seq: FIRST, at: ms(0), bytes: 1040 }].into();
    half.take_over(&Handover { found: None, outstanding, counts: Counts::default() });
    // The previous half sent the 100 acknowledgements in between.
    half.on_sent(ms(10), FIRST.add(101), 1040, Some(1000));
    half.on_feedback(ms(60), &feedback(FIRST.add(50), &rates(1_000_000, u32::MAX)));
    assert_eq!((half.view().rtt.latest(), half.view().inflight.packets), (Some(RTT), 1));
    half.on_feedback(ms(110), &feedback(FIRST.add(101), &rates(1_000_000, u32::MAX)));
    assert_eq!(half.view().inflight.packets, 0);
}

#[test]
fn packets_in_flight_at_the_timeout_are_lost() {
    let mut half = TfrcSenderHalf::new(false, &config());
    sent(&mut half, 10);
    let at = half.next_timeout().unwrap();
    half.on_timeout(at);
    let view = half.view();
    assert_eq!((view.lost.packets, view.inflight.packets, view.timeouts), (10, 0, 1));
}

/// Connects a sender and a receiver that are 50 ms apart. Each `true` in `losses` drops a packet.
fn pair(small_packets: bool, losses: &[bool], packets: u64) -> (TfrcSenderHalf, Told) {
    let (mut tx, mut rx) =
        (TfrcSenderHalf::new(small_packets, &config()), TfrcReceiver::new(small_packets, &config()));
    let (mut now, mut last) = (ms(0), Told::default());
    for n in 0..packets {
        now += if small_packets { RTT / 10 } else { RTT / 50 };
        let seq = FIRST.add(n);
        let ccval = tx.ccval(now);
        tx.on_sent(now, seq, 1040, Some(1000));
        if losses[n as usize % losses.len()] && n > 0 {
            continue;
        }
        let arrival =
            Arrival { seq, ecn: Ecn::Ect0, data: true, ccval, ndp: None, bytes: 1040, payload: 1000 };
        rx.on_packet(now + RTT / 2, &arrival);
        if rx.ack_due(now + RTT / 2) == AckDue::Now {
            let mut out = OptionBuf::new();
            rx.write_feedback(now + RTT / 2, Seq::new(1), seq, 500, &mut out);
            last = Told::read(out.as_bytes());
            // Only the order matters here, so let the feedback arrive before the next packet leaves.
            tx.on_feedback(now + RTT, &feedback(seq, &out));
            assert!(Options::new(out.as_bytes()).all(|option| option.is_ok()));
        }
    }
    (tx, last)
}

#[test]
fn both_ends_find_the_same_loss_event_rate() {
    for small_packets in [false, true] {
        for every in [40, 99, 350] {
            let losses: Vec<bool> =
                (0..every * 7).map(|n| n % every == every - 1 || n % (every * 3) == 5).collect();
            let (tx, told) = pair(small_packets, &losses, 4000);
            let (ours, theirs) = (1.0 / tx.tfrc.loss_event_rate(), 1.0 / told.p().unwrap());
            // The receiver rounds its value up. With CCID 4, each end also determines by its own measurements
            // which intervals are short.
            let tolerance = if small_packets { 0.05 * theirs + 1.0 } else { 1.0 };
            assert!(
                theirs > 1.0 && ours <= theirs + tolerance && ours > theirs - tolerance,
                "{ours} {theirs}"
            );
        }
    }
}

proptest! {
    /// The sender survives any option bytes with any Acknowledgement Number at any time.
    #[test]
    fn any_feedback_is_survived(
        reports in proptest::collection::vec(
            (proptest::collection::vec(any::<u8>(), 0..150), 0..5u8, any::<u64>(), 0..400u64, any::<u32>(), any::<bool>()),
            1..100),
        small_packets: bool,
    ) {
        let mut half = TfrcSenderHalf::new(small_packets, &config());
        let mut now = ms(0);
        let mut next = FIRST;
        for (bytes, kind, ack, wait, elapsed, data) in reports {
            for _ in 0..3 {
                half.on_sent(now, next, 1040, data.then_some(1000));
                next = next.next();
            }
            now += Duration::from_millis(wait);
            let mut options = OptionBuf::new();
            let body = &bytes[..bytes.len() / 9 * 9];
            match kind {
                0 => _ = options.extend(&bytes),
                1 => _ = options.push(&Opt::Ccid(193, &[&[0], body].concat())),
                2 => _ = options.push(&Opt::Ccid(192, &elapsed.to_be_bytes())),
                3 => _ = options.push(&Opt::Ccid(195, &bytes[..bytes.len() / 3 * 3])),
                _ => {}
            }
            options.push(&Opt::Ccid(194, &elapsed.to_be_bytes()));
            let ack = if kind == 0 { Seq::new(ack) } else { next.sub(1 + ack % 7) };
            let elapsed = Duration::from_micros(elapsed.into());
            half.on_feedback(now, &Feedback { ack, vector: &bytes, elapsed, timestamp: None, options: options.as_bytes() });
            if let Some(at) = half.next_timeout().filter(|_| data) {
                now = now.max(at);
                half.on_timeout(now);
            }
            let view = half.view();
            // The minimum is one packet of 1,000 bytes per 64 s.
            prop_assert!(view.pacing.unwrap() >= Rate::from_bps(1000 * 8 / 64 - 1), "{:?}", view.pacing);
            prop_assert!(half.intervals.len() <= MAX_INTERVALS);
            let (sent, rest) = (view.sent.packets, view.inflight.packets + view.delivered.packets + view.lost.packets);
            prop_assert_eq!(sent, rest);
            prop_assert!(half.poll_request().is_none() || half.poll_request().is_none() || half.poll_request().is_none());
        }
    }
}

/// RFC 4342 section 6.3: a receiver that keeps Ack Vectors can drop state only once it knows that the sender
/// received that state.
#[test]
fn ack_vectors_are_acknowledged() {
    for asked in [false, true] {
        let mut half = TfrcSenderHalf::new(false, &config());
        sent(&mut half, 3);
        let (options, cells) = (rates(1000, u32::MAX), [2]);
        let vector: &[u8] = if asked { &cells } else { &[] };
        let _ = core::iter::from_fn(|| half.poll_request()).count();
        half.on_feedback(ms(103), &Feedback { vector, ..feedback(FIRST.add(2), &options) });
        let requests: Vec<_> = core::iter::from_fn(|| half.poll_request()).collect();
        assert_eq!(requests.iter().any(|d| matches!(d, SenderRequest::AckPeer)), asked, "{requests:?}");
    }
}
