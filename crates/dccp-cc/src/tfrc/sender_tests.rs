use super::*;
use alloc::vec::Vec;
use proptest::prelude::*;

const RTT: Duration = Duration::from_millis(100);
const S: f64 = 1000.0;

fn ms(ms: u64) -> Time {
    Time::from_millis(ms)
}

fn config() -> TfrcConfig {
    TfrcConfig { small_packets: false, oscillation_reduction: false, payload: 1000, wire: 1040 }
}

fn report(sent: Time, receive_rate: f64, p: f64, new_loss_event: bool) -> Report {
    Report { rtt: Some(RTT), sent, receive_rate, loss_event_rate: p, new_loss_event }
}

/// Creates a sender that knows the handshake's round-trip time and has sent one packet.
fn started() -> TfrcSender {
    let mut sender = TfrcSender::new(config(), ms(0), Some(RTT));
    sender.on_sent(ms(0), 1000, 1040, true);
    sender
}

/// Like `started`, but with a loss event rate of 1 % at 200 ms and a receive rate that does not limit the
/// sender.
fn avoiding() -> TfrcSender {
    let mut sender = started();
    sender.on_report(ms(100), &report(ms(0), 0.0, 0.0, false));
    sender.on_sent(ms(150), 1000, 1040, true);
    sender.on_report(ms(200), &report(ms(150), 1e6, 0.01, true));
    sender
}

fn close(got: f64, wanted: f64) {
    assert!((got / wanted - 1.0).abs() < 1e-9, "{got}, not {wanted}");
}

/// With a round trip of 8 s, the initial rate is half a packet per second. This is less than twice the rate
/// that remained after the timeouts.
#[test]
fn the_first_feedback_starts_from_the_initial_rate() {
    let mut sender = TfrcSender::new(config(), ms(0), None);
    sender.on_sent(ms(0), 1000, 1040, true);
    sender.on_timeout(ms(2_000));
    close(sender.rate(), S / 2.0);
    let rtt = Some(Duration::from_secs(8));
    sender.on_report(ms(10_000), &Report { rtt, ..report(ms(2_000), 0.0, 0.0, false) });
    close(sender.rate(), 4.0 * S / 8.0);
}

#[test]
fn slow_start_doubles_no_more_often_than_once_a_round_trip() {
    let mut sender = started();
    sender.on_report(ms(100), &report(ms(0), 0.0, 0.0, false));
    let rate = sender.rate();
    sender.on_report(ms(150), &report(ms(50), 0.0, 0.0, false));
    close(sender.rate(), rate);
    sender.on_report(ms(200), &report(ms(100), 0.0, 0.0, false));
    close(sender.rate(), 2.0 * rate);
}

/// A sender that sends little has a low receive rate, which must not limit the sender further.
#[test]
fn slow_start_stays_at_the_initial_rate_at_least() {
    let mut sender = started();
    for n in 1..20 {
        sender.on_sent(ms(n * 100 - 50), 1000, 1040, true);
        sender.on_report(ms(n * 100), &report(ms(n * 100 - 50), 1.0, 0.0, false));
        assert!(sender.rate() >= 4.0 * S / 0.1, "{}", sender.rate());
    }
}

#[test]
fn each_new_loss_event_begins_another_interval_of_sizes() {
    let mut sender = started();
    for n in 1..5 {
        sender.on_report(ms(n * 100), &report(ms(n * 100 - 50), 1e6, 0.01, true));
        sender.on_sent(ms(n * 100), 500, 540, true);
    }
    assert_eq!(sender.size.payload(), 500.0, "the size before the first loss event must be forgotten");
}

#[test]
fn without_a_round_trip_time_it_is_one_packet_a_second_and_less() {
    let mut sender = TfrcSender::new(config(), ms(0), None);
    assert_eq!((sender.rate(), sender.phase(), sender.next_timeout()), (S, "initial", None));
    sender.on_sent(ms(500), 1000, 1040, true);
    assert_eq!(sender.wire_rate().bps(), 8320);
    // RFC 5348 section 4.2: the timer first runs for two seconds. Its duration doubles each time the rate is
    // halved, down to a packet per 64 seconds.
    let mut at = 2_500;
    for (rate, next) in [(500.0, 4_000), (250.0, 8_000), (125.0, 16_000), (62.5, 32_000), (31.25, 64_000)] {
        assert_eq!(sender.next_timeout(), Some(ms(at)));
        sender.on_timeout(ms(at));
        sender.on_sent(ms(at), 1000, 1040, true);
        close(sender.rate(), rate);
        at += next;
    }
    for _ in 0..9 {
        sender.on_timeout(sender.next_timeout().unwrap());
        sender.on_sent(ms(at), 1000, 1040, true);
    }
    close(sender.rate(), S / 64.0);
    // The first feedback sets the initial rate, whatever the preceding timeouts did to the rate.
    sender.on_report(ms(900_000), &report(ms(899_900), 0.0, 0.0, false));
    close(sender.rate(), 4.0 * S / 0.1);
}

#[test]
fn initial_rate_by_the_size_of_packets() {
    for (payload, window) in [(100, 400.0), (1000, 4000.0), (1095, 4380.0), (1460, 4380.0), (4000, 8000.0)] {
        let cfg = TfrcConfig { payload, ..config() };
        close(TfrcSender::new(cfg, ms(0), Some(RTT)).rate(), window / 0.1);
        // The first packet gives the actual size.
        let mut sender = TfrcSender::new(TfrcConfig { payload: 1460, ..cfg }, ms(0), Some(RTT));
        sender.on_sent(ms(0), payload, payload + 40, true);
        close(sender.rate(), window / 0.1);
    }
}

#[test]
fn slow_start_doubles_once_a_round_trip_up_to_twice_the_receive_rate() {
    let mut sender = started();
    let mut rates = Vec::new();
    for (at, received) in
        [(100, 0.0), (150, 9e9), (200, 9e9), (301, 9e9), (402, 90e3), (503, 90e3), (604, 90e3)]
    {
        sender.on_sent(ms(at - 1), 1000, 1040, true);
        sender.on_report(ms(at), &report(ms(at - 1), received, 0.0, false));
        rates.push((sender.rate() / 1e3) as u64);
    }
    // For two round trips after the first packet, the receive rate does not limit the sender. After that,
    // X_recv_set contains the rates of the last two round trips.
    assert_eq!(rates, [80, 80, 160, 320, 640, 180, 180]);
    assert_eq!(sender.phase(), "slow_start");
}

#[test]
fn a_loss_ends_slow_start_and_the_equation_rules() {
    let sender = avoiding();
    close(sender.rate(), throughput(S, 0.1, 0.01));
    assert_eq!((sender.phase(), sender.loss_event_rate()), ("equation", 0.01));
}

#[test]
fn twice_the_receive_rate_limits_the_equation() {
    let mut sender = avoiding();
    for at in [400, 500, 700] {
        sender.on_sent(ms(at - 100), 1000, 1040, true);
        sender.on_report(ms(at), &report(ms(at - 100), 20e3, 0.01, false));
    }
    close(sender.rate(), 40e3);
    assert_eq!(sender.phase(), "receive_rate");
}

/// RFC 5348 section 6.2: a receive rate counts as at least one packet per round trip. Otherwise the limit
/// would soon be a packet per 64 seconds.
#[test]
fn a_receive_rate_counts_as_a_packet_a_round_trip_at_least() {
    let mut sender = avoiding();
    for at in [400, 500, 700] {
        sender.on_sent(ms(at - 100), 1000, 1040, true);
        sender.on_report(ms(at), &report(ms(at - 100), 1.0, 0.01, false));
    }
    close(sender.rate(), 2.0 * S / 0.1);
}

#[test]
fn a_data_limited_sender_is_not_held_to_what_it_sent() {
    let mut sender = avoiding();
    let before = sender.rate();
    for i in 0..20 {
        let at = 300 + i * 100;
        sender.on_sent(ms(at - 50), 1000, 1040, false);
        sender.on_report(ms(at), &report(ms(at - 50), 10e3, 0.01, false));
    }
    close(sender.rate(), before);
    // RFC 5348 section 4.3: a loss then halves the remembered rate of 1e6. This rate limits the sender once
    // it is below the equation's rate.
    let mut limits = Vec::new();
    for i in 0..6 {
        let at = 2300 + i * 100;
        sender.on_sent(ms(at - 50), 1000, 1040, false);
        sender.on_report(ms(at), &report(ms(at - 50), 10e3, 0.01, true));
        limits.push(sender.rate());
    }
    close(limits[2], before);
    close(limits[3], 62.5e3);
    close(limits[5], 15_625.0);
}

#[test]
fn silence_halves_the_rate_of_the_equation() {
    let mut sender = avoiding();
    sender.on_sent(ms(210), 1000, 1040, true);
    let x = sender.rate();
    assert_eq!(sender.next_timeout(), Some(ms(600)), "four round trips");
    sender.on_timeout(ms(599));
    close(sender.rate(), x);
    for i in 1..4 {
        let at = sender.next_timeout().unwrap();
        sender.on_timeout(at);
        close(sender.rate(), x / f64::from(1 << i));
        sender.on_sent(at, 1000, 1040, true);
    }
    assert_eq!((sender.phase(), sender.timeouts()), ("receive_rate", 3));
    for _ in 0..30 {
        let at = sender.next_timeout().unwrap();
        sender.on_timeout(at);
        sender.on_sent(at, 1000, 1040, true);
    }
    close(sender.rate(), S / 64.0);
}

#[test]
fn silence_halves_the_rate_of_slow_start() {
    let mut sender = started();
    for rate in [20e3, 10e3] {
        sender.on_timeout(sender.next_timeout().unwrap());
        close(sender.rate(), rate);
        sender.on_sent(ms(400), 1000, 1040, true);
    }
    // RFC 5348 section 4.3: new feedback raises the rate to at least the initial one, which is more than
    // twice the remaining rate.
    sender.on_report(ms(900), &report(ms(800), 100.0, 0.0, false));
    close(sender.rate(), 40e3);
}

/// Lets the timer expire until it stops.
fn stay_idle(sender: &mut TfrcSender) {
    for _ in 0..20 {
        let Some(at) = sender.next_timeout() else { return };
        sender.on_timeout(at);
    }
    panic!("the timer never stopped; rate: {}", sender.rate());
}

#[test]
fn idleness_takes_nothing_below_the_initial_rate() {
    // In slow start, idle time reduces the rate from 160 kB/s to the initial rate of 40 kB/s, and no further.
    let mut sender = started();
    for at in [101, 203] {
        sender.on_report(ms(at), &report(ms(at - 100), 9e9, 0.0, false));
    }
    close(sender.rate(), 160e3);
    stay_idle(&mut sender);
    close(sender.rate(), 40e3);
    assert_eq!(sender.timeouts(), 0);
    // The timer starts again when data is sent.
    sender.on_sent(ms(9_000), 1000, 1040, true);
    assert_eq!(sender.next_timeout(), Some(ms(9_400)));

    // The equation's rate is first above the initial rate and then below it.
    for (p, least) in [(0.0001, 20e3), (0.2, 0.0)] {
        let mut sender = avoiding();
        sender.on_sent(ms(250), 1000, 1040, true);
        sender.on_report(ms(300), &report(ms(250), 1e6, p, true));
        let before = sender.rate();
        stay_idle(&mut sender);
        assert!(sender.rate() >= least && sender.rate() >= before.min(least), "{p}: {}", sender.rate());
    }
}

#[test]
fn a_slow_receiver_stops_growth_and_buffer_drops_cost_packets() {
    // RFC 4342 section 5.2: X_drop is X_inrecv reduced by three packets per round trip. X_recv is half of
    // X_drop.
    for (drops, rate) in [(0, 100e3), (3, 70e3), (1_000, 10e3)] {
        let mut sender = started();
        sender.on_report(ms(101), &report(ms(1), 100e3, 0.0, false));
        sender.on_report(ms(202), &report(ms(102), 100e3, 0.0, false));
        sender.on_slow_receiver(drops);
        sender.on_report(ms(303), &report(ms(203), 100e3, 0.0, false));
        close(sender.rate(), f64::max(rate, 40e3));
        sender.on_sent(ms(303), 1000, 1040, true);
        sender.on_report(ms(404), &report(ms(304), 100e3, 0.001, true));
        assert!(sender.rate() > 150e3, "the limit must be gone a round trip later: {}", sender.rate());
    }
}

#[test]
fn a_round_trip_above_its_mean_slows_down() {
    let cfg = TfrcConfig { oscillation_reduction: true, ..config() };
    let mut sender = TfrcSender::new(cfg, ms(0), Some(RTT));
    sender.on_sent(ms(0), 1000, 1040, true);
    sender.on_report(ms(100), &report(ms(0), 1e6, 0.01, true));
    close(sender.rate(), throughput(S, 0.1, 0.01));
    sender.on_report(ms(300), &Report { rtt: Some(RTT * 2), ..report(ms(100), 1e6, 0.01, false) });
    // RFC 5348 sections 4.3 and 4.5, computed by hand: R = 0.11, and the mean of the roots is 0.9 sqrt(0.1) +
    // 0.1 sqrt(0.2).
    let root = 0.9 * libm::sqrt(0.1) + 0.1 * libm::sqrt(0.2);
    close(sender.rate(), throughput(S, 0.11, 0.01) * root / libm::sqrt(0.2));
}

#[test]
fn without_that_reduction_the_mean_follows_the_newest_sample() {
    let mut sender = avoiding();
    sender.on_report(ms(300), &Report { rtt: Some(RTT * 2), ..report(ms(150), 1e6, 0.01, false) });
    close(sender.rate(), throughput(S, 0.19, 0.01));
}

#[test]
fn small_packets_have_large_nominal_ones_less_headers() {
    let mut sender = TfrcSender::new(TfrcConfig { small_packets: true, ..config() }, ms(0), Some(RTT));
    sender.on_sent(ms(0), 100, 140, true);
    sender.on_report(ms(100), &report(ms(0), 1e9, 0.01, true));
    close(sender.rate(), throughput(1460.0, 0.1, 0.01) * 100.0 / 136.0);
    close(sender.wire_rate().bps() as f64 / 8.0, (sender.rate() * 1.4 * 8.0).trunc() / 8.0);
}

#[derive(Clone, Debug)]
enum Step {
    Sent(u32, bool),
    Report { rtt: Option<u64>, sent_ago: u64, rate: f64, p: f64, new: bool },
    Slow(u64),
    Timeout,
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let number = prop_oneof![Just(0.0), Just(f64::INFINITY), -1e3..1e12f64];
    let p = prop_oneof![Just(0.0), 0.0..1.5f64, 0.0..1e-4f64];
    prop_oneof![
        (any::<u32>(), any::<bool>()).prop_map(|(bytes, limited)| Step::Sent(bytes, limited)),
        (any::<Option<u64>>(), 0..10_000u64, number, p, any::<bool>())
            .prop_map(|(rtt, sent_ago, rate, p, new)| Step::Report { rtt, sent_ago, rate, p, new }),
        any::<u64>().prop_map(Step::Slow),
        Just(Step::Timeout),
        (0..100_000u64).prop_map(Step::Wait),
    ]
}

proptest! {
    #[test]
    fn at_least_a_packet_in_64_seconds_whatever_happens(
        steps in proptest::collection::vec(step(), 1..200),
        rtt in any::<Option<u32>>(),
        small_packets: bool,
        oscillation_reduction: bool,
    ) {
        let mut now = ms(0);
        let cfg = TfrcConfig { small_packets, oscillation_reduction, ..config() };
        let mut sender = TfrcSender::new(cfg, now, rtt.map(|us| Duration::from_micros(us.into())));
        for step in steps {
            match step {
                Step::Sent(bytes, limited) => sender.on_sent(now, bytes, bytes.saturating_add(40), limited),
                Step::Report { rtt, sent_ago, rate, p, new } => sender.on_report(now, &Report {
                    rtt: rtt.map(Duration::from_nanos),
                    sent: now - Duration::from_millis(sent_ago),
                    receive_rate: rate,
                    loss_event_rate: p,
                    new_loss_event: new,
                }),
                Step::Slow(drops) => sender.on_slow_receiver(drops),
                Step::Timeout => {
                    if let Some(at) = sender.next_timeout() {
                        now = now.max(at);
                        sender.on_timeout(now);
                    }
                }
                Step::Wait(ms) => now += Duration::from_millis(ms),
            }
            // RFC 5348 section 4.3: the minimum rate is s / t_mbi, one packet per 64 seconds.
            let rate = sender.rate();
            prop_assert!(rate.is_finite() && rate >= sender.size.payload() / 64.0 * (1.0 - 1e-9), "{}", rate);
            prop_assert!((0.0..=1.0).contains(&sender.loss_event_rate()));
            prop_assert!(sender.wire_rate().bps() > 0);
        }
    }
}
