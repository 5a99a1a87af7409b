//! Tests whole links: the order of operations, changes at run time, and a small run in the form of a table.

use mpdccp_linkem::*;
use mpdccp_units::{Duration, Rate, Time};

fn ms(n: u64) -> Time {
    Time::from_millis(n)
}

fn bytes(n: u32) -> Meta {
    Meta { bytes: n, ..Meta::default() }
}

/// Returns a link of 10 Mbit/s (1,250 bytes per millisecond) with a delay of 5 ms and room for three packets
/// of 1,250 bytes.
fn config() -> LinkConfig {
    LinkConfig {
        rate: RateModel::Constant(Rate::from_mbps(10.0)),
        delay: Duration::from_millis(5),
        queue: QueueConfig { kind: QueueKind::DropTail, limit: Limit::Bytes(3_750) },
        ..LinkConfig::default()
    }
}

fn link(config: LinkConfig) -> Link<u32> {
    Link::new(config, 1, Time::ZERO).unwrap()
}

/// Runs the link from event to event until it is empty, and returns each packet with its arrival time.
fn drain(link: &mut Link<u32>) -> Vec<(u32, Time)> {
    let mut out = Vec::new();
    while let Some(at) = link.next_event() {
        while let Some(d) = link.pop(at) {
            assert!(d.at >= at, "a packet arrived before next_event");
            out.push((d.packet, d.at));
        }
    }
    out
}

#[test]
fn serialisation_and_delay_add_up() {
    let mut link = link(config());
    for i in 0..3 {
        assert_eq!(link.push(Time::ZERO, bytes(1_250), i), Verdict::Queued);
    }
    assert_eq!(drain(&mut link), [(0, ms(6)), (1, ms(7)), (2, ms(8))]);
}

#[test]
fn the_packet_in_transmission_counts_for_the_limit() {
    let mut link = link(config());
    for i in 0..3 {
        link.push(Time::ZERO, bytes(1_250), i);
    }
    assert_eq!(link.push(Time::ZERO, bytes(1), 3), Verdict::Dropped(DropReason::Overflow));
    // The first push comes one nanosecond before the first packet's transmission ends, the second just as it
    // ends.
    assert_eq!(link.push(Time::from_nanos(999_999), bytes(1_250), 4), Verdict::Dropped(DropReason::Overflow));
    assert_eq!(link.queue_len(), QueueLen { packets: 3, bytes: 3_750 });
    assert_eq!(link.push(ms(1), bytes(1_250), 5), Verdict::Queued);
    assert_eq!(link.stats().overflow, Count { packets: 2, bytes: 1_251 });
}

#[test]
fn a_limit_in_packets_ignores_bytes() {
    let mut config = config();
    config.queue.limit = Limit::Packets(2);
    let mut link = link(config);
    assert_eq!(link.push(Time::ZERO, bytes(60_000), 0), Verdict::Queued);
    assert_eq!(link.push(Time::ZERO, bytes(60_000), 1), Verdict::Queued);
    assert_eq!(link.push(Time::ZERO, bytes(1), 2), Verdict::Dropped(DropReason::Overflow));
}

#[test]
fn unlimited_never_queues() {
    let mut link = link(LinkConfig { delay: Duration::from_millis(5), ..LinkConfig::default() });
    for i in 0..5_000 {
        assert_eq!(link.push(ms(1), bytes(1_500), i), Verdict::Queued);
    }
    assert_eq!(link.queue_len(), QueueLen::default());
    assert!(drain(&mut link).iter().copied().eq((0..5_000).map(|i| (i, ms(6)))));
}

#[test]
fn a_new_rate_holds_from_the_middle_of_a_packet() {
    let mut link = link(config());
    link.push(Time::ZERO, bytes(1_250), 0);
    link.push(Time::ZERO, bytes(1_250), 1);
    link.set_rate(Time::from_micros(500), Rate::from_mbps(1.0));
    assert_eq!(drain(&mut link), [(0, Time::from_micros(10_500)), (1, Time::from_micros(20_500))]);
}

#[test]
fn rate_zero_holds_and_down_drops() {
    let mut link = link(config());
    link.push(Time::ZERO, bytes(1_250), 0);
    link.push(Time::ZERO, bytes(1_250), 1);
    link.set_rate(ms(1), Rate::ZERO);
    link.push(ms(2), bytes(1_250), 2);
    assert_eq!(link.queue_len().packets, 2);
    assert_eq!(link.next_event(), Some(ms(6)), "the first packet propagates, the others wait for a rate");
    link.set_down(ms(3));
    assert_eq!(link.push(ms(4), bytes(1_250), 3), Verdict::Dropped(DropReason::Down));
    link.set_rate(ms(4), Rate::from_mbps(10.0));
    assert!(!link.is_up());
    link.set_up(ms(5));
    link.push(ms(5), bytes(1_250), 4);
    assert_eq!(drain(&mut link), [(0, ms(6)), (4, ms(11))]);
    assert_eq!(link.stats().down.packets, 3);
    let mut lost: Vec<u32> = std::iter::from_fn(|| link.pop_lost()).collect();
    lost.sort_unstable();
    assert_eq!(lost, [1, 2], "the link did not hold packet 3");
}

#[test]
fn a_shorter_delay_does_not_overtake() {
    let mut link = link(config());
    link.push(Time::ZERO, bytes(1_250), 0);
    link.push(Time::ZERO, bytes(1_250), 1);
    link.set_delay(ms(1), Duration::from_millis(1));
    link.push(ms(8), bytes(1_250), 2);
    assert_eq!(drain(&mut link), [(0, ms(6)), (1, ms(6)), (2, ms(10))]);
}

#[test]
fn lost_packets_use_the_link() {
    let lossy = |loss| LinkConfig { loss, ..config() };
    let mut link = link(lossy(LossModel::Bernoulli(1.0)));
    link.push(Time::ZERO, bytes(1_250), 0);
    link.push(Time::ZERO, bytes(1_250), 1);
    link.reconfigure(ms(1), lossy(LossModel::None)).unwrap();
    assert_eq!(drain(&mut link), [(1, ms(7))]);
    assert_eq!(link.stats().lost.packets, 1);
    assert_eq!((link.pop_lost(), link.pop_lost()), (Some(0), None));
    assert!(link.reconfigure(ms(2), lossy(LossModel::Bernoulli(1.5))).is_err());
}

#[test]
fn the_end_of_a_link_loses_what_it_holds() {
    let mut link = link(config());
    (0..4).for_each(|i| {
        link.push(ms(0), bytes(1_250), i);
    });
    // One packet propagates, one is being transmitted, and one is queued. The queue has dropped packet 3.
    link.advance(Time::from_micros(1_500));
    let mut lost = link.end();
    lost.sort_unstable();
    assert_eq!(lost, [0, 1, 2]);
}

#[test]
fn time_never_goes_back() {
    let mut link = link(config());
    assert_eq!(link.pop(ms(10)), None);
    link.push(ms(3), bytes(1_250), 0);
    assert_eq!(drain(&mut link), [(0, ms(16))]);
}

#[test]
fn red_forgets_while_the_link_is_idle() {
    let mut config = config();
    config.queue = QueueConfig { kind: QueueKind::Red(RedConfig::new(10, 20)), limit: Limit::Packets(1_000) };
    let mut link = link(config);
    let flood = |link: &mut Link<u32>, at| {
        for _ in 0..2_000 {
            link.push(at, bytes(1_250), 0);
        }
        link.push(at, bytes(1_250), 0)
    };
    let early = Verdict::Dropped(DropReason::Early);
    assert_eq!(flood(&mut link, Time::ZERO), early, "the average is far above the thresholds");
    assert_eq!(link.push(ms(60_000), bytes(1_250), 0), Verdict::Queued, "the queue has run empty");
    assert_eq!(flood(&mut link, ms(60_000)), early);
    link.set_down(ms(60_001));
    link.set_up(ms(120_000));
    assert_eq!(link.push(ms(120_000), bytes(1_250), 0), Verdict::Queued, "going down empties the queue");
}

#[test]
fn saturated_is_full() {
    // For ten seconds the queue is never empty. The rate is not a multiple of the packet size.
    let mut link = link(LinkConfig {
        rate: RateModel::Constant(Rate::from_bps(9_999_991)),
        delay: Duration::ZERO,
        ..config()
    });
    let mut now = Time::ZERO;
    while now <= ms(10_000) {
        while link.queue_len().packets < 2 {
            link.push(now, bytes(1_300), 0);
        }
        now = link.next_event().unwrap();
        while link.pop(now).is_some() {}
    }
    // The packet that ends the loop is the first whose transmission ends after ten seconds.
    let full = 9_999_991 * 10 / 8;
    assert_eq!(link.stats().delivered.packets, full / 1_300 + 1);
}

#[test]
fn nonsense_is_refused() {
    let step = |ms, mbps| (Duration::from_millis(ms), Rate::from_mbps(mbps));
    let mut bad = vec![
        LinkConfig { loss: LossModel::Bernoulli(-0.1), ..config() },
        LinkConfig { loss: LossModel::Bernoulli(f64::NAN), ..config() },
        LinkConfig { rate: RateModel::Steps(vec![]), ..config() },
        LinkConfig { rate: RateModel::Steps(vec![step(1, 1.0)]), ..config() },
        LinkConfig { rate: RateModel::Steps(vec![step(0, 1.0), step(5, 2.0), step(5, 3.0)]), ..config() },
    ];
    bad.push(config());
    bad[5].queue.limit = Limit::Bytes(0);
    for config in bad {
        let error = Link::<()>::new(config.clone(), 0, Time::ZERO).unwrap_err();
        assert!(error.to_string().contains(": "), "{config:?}: {error}");
    }
    assert_eq!(config().validate(), Ok(()));
}

/// One packet per millisecond is pushed for ten milliseconds. After four milliseconds, the rate falls to a
/// quarter.
#[test]
fn a_small_run() {
    let steps =
        vec![(Duration::ZERO, Rate::from_mbps(10.0)), (Duration::from_millis(4), Rate::from_mbps(2.5))];
    let mut link =
        link(LinkConfig { rate: RateModel::Steps(steps), loss: LossModel::Bernoulli(0.2), ..config() });
    let mut table = Vec::new();
    for now in 0..40 {
        while let Some(d) = link.pop(ms(now)) {
            table.push(format!("{:.1} ms: {} arrives", d.at.as_secs_f64() * 1e3, d.packet));
        }
        if now < 10 {
            let verdict = link.push(ms(now), bytes(1_250), now as u32);
            table.push(format!("{now} ms: {now} {verdict:?}, {} in queue", link.queue_len().packets));
        }
    }
    let stats = link.stats();
    table.push(format!(
        "{} delivered, {} overflow, {} lost",
        stats.delivered.packets, stats.overflow.packets, stats.lost.packets
    ));
    let expected = "\
0 ms: 0 Queued, 1 in queue
1 ms: 1 Queued, 1 in queue
2 ms: 2 Queued, 1 in queue
3 ms: 3 Queued, 1 in queue
4 ms: 4 Queued, 1 in queue
5 ms: 5 Queued, 2 in queue
6.0 ms: 0 arrives
6 ms: 6 Queued, 3 in queue
7 ms: 7 Dropped(Overflow), 3 in queue
8.0 ms: 2 arrives
8 ms: 8 Queued, 3 in queue
9 ms: 9 Dropped(Overflow), 3 in queue
13.0 ms: 4 arrives
17.0 ms: 5 arrives
21.0 ms: 6 arrives
25.0 ms: 8 arrives
6 delivered, 2 overflow, 2 lost";
    assert_eq!(table.join("\n"), expected);
}

#[test]
fn the_wire_copies_its_share_of_what_it_did_not_lose() {
    let (loss, rate) = (LossModel::Bernoulli(0.5), RateModel::Unlimited);
    let mut link = link(LinkConfig { duplicate: 0.1, loss, rate, ..config() });
    (0..20_000).for_each(|i| {
        link.push(ms(1), bytes(100), i);
    });
    let out = drain(&mut link);
    let twice = out.windows(2).filter(|w| w[0].0 == w[1].0).count();
    assert!((900..1_100).contains(&twice), "{twice} of about 10,000 packets were duplicated");
    assert_eq!(link.stats().duplicated, Count { packets: twice as u64, bytes: twice as u64 * 100 });
}
