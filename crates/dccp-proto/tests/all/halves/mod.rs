//! Sending and receiving halves connected by pipes that lose, reorder and mark packets.

mod pipe;

use self::pipe::{Path, Pipe};
use dccp_cc::Amount;
use dccp_proto::Gate;
use dccp_proto::ccid::{SenderRequest, TxView};
use mpdccp_units::{Duration, Rate, Time};
use proptest::prelude::*;

const MS: Duration = Duration::from_millis(1);

fn conserved(view: &TxView) -> bool {
    let sum = |f: fn(Amount) -> u64| f(view.inflight) + f(view.delivered) + f(view.lost) == f(view.sent);
    sum(|a| a.packets) && sum(|a| a.bytes)
}

#[test]
fn a_clean_pipe_delivers_everything() {
    for ccid in [2, 5] {
        let mut pipe = Pipe::new(ccid, Path::clean(20.0, 10 * MS), Path::clean(20.0, 10 * MS));
        pipe.send(0, 2000);
        while pipe.step() {}
        let view = pipe.view();
        assert_eq!((view.delivered.packets, view.lost.packets, view.timeouts), (2000, 0, 0));
        assert_eq!((view.inflight.packets, pipe.ends[1].arrived), (0, 2000));
        // A round trip consists of 10 ms in each direction, plus the transmission time of an Ack and of one
        // or two data packets. CCID 2 sends two data packets per Ack.
        let rate = Rate::from_mbps(20.0);
        let (data, ack) = (rate.time_for(1460), rate.time_for(60));
        let (min, _) = view.rtt.min().unwrap();
        let (least, slack) = (20 * MS + ack + data, Duration::from_micros(10));
        let most = if ccid == 2 { least + data } else { least } + slack;
        assert!(min >= least && min <= most, "CCID {ccid}: {min:?}");
        // Acks of Acks let the receiver trim its Ack Vector, so the vector never covers more than a few round
        // trips.
        assert!(pipe.ends[1].longest_vector < 100, "CCID {ccid}: {}", pipe.ends[1].longest_vector);
        // The receiver sends one Ack for every two packets, and a few more for packets that waited too long
        // for a second one. A paced sender causes fewer of these.
        let acks = pipe.ends[1].acks_sent;
        let expected = if ccid == 2 { 1000..1050 } else { 250..1050 };
        assert!(expected.contains(&acks), "CCID {ccid}: {acks}");
        // There is about one Ack of Acks per round trip. None of them is acknowledged in turn.
        assert!(pipe.ends[0].acks_sent < 100, "CCID {ccid}: {}", pipe.ends[0].acks_sent);
    }
}

#[test]
fn ccid5_finds_the_rate_and_ccid2_fills_the_queue() {
    for (ccid, queue_ms) in [(2, 100), (5, 30)] {
        let forward = Path { queue: 86, ..Path::clean(10.0, 20 * MS) };
        let mut pipe = Pipe::new(ccid, forward, Path::clean(10.0, 20 * MS));
        pipe.send(0, 1_000_000);
        pipe.run_until(Time::from_millis(5_000));
        let before = pipe.view().delivered.bytes;
        pipe.run_until(Time::from_millis(15_000));
        let view = pipe.view();
        assert!(conserved(&view));
        let rate = Rate::from_bytes_per(view.delivered.bytes - before, Duration::from_secs(10));
        assert!(rate.mbps() > 9.0 && rate.mbps() <= 10.1, "CCID {ccid}: {rate:?}");
        let queue = view.rtt.srtt().unwrap().saturating_sub(40 * MS);
        assert!(queue < queue_ms * MS, "CCID {ccid}: {queue:?}");
        assert!(!view.app_limited && view.timeouts == 0);
        let windows =
            pipe.ends[0].requests.iter().filter(|d| matches!(d, SenderRequest::SequenceWindow(_))).count();
        assert!(windows < 5);
    }
}

#[test]
fn marks_hold_ccid2_back_without_loss() {
    let forward = Path { mark: 20 * MS, ..Path::clean(10.0, 20 * MS) };
    let mut pipe = Pipe::new(2, forward, Path::clean(10.0, 20 * MS));
    pipe.send(0, 1_000_000);
    pipe.run_until(Time::from_millis(10_000));
    let view = pipe.view();
    assert!(view.ce > 0 && view.lost.packets == 0, "{view:?}");
    let delivered = Rate::from_bytes_per(view.delivered.bytes, Duration::from_secs(10));
    assert!(delivered.mbps() > 8.0, "{delivered:?}");
}

#[test]
fn jitter_that_reorders_costs_ccid5_little() {
    // Every seventh packet arrives 5 ms late, after more than three others.
    let forward = Path { jitter: vec![5000, 0, 0, 0, 0, 0, 0], ..Path::clean(20.0, 20 * MS) };
    let mut pipe = Pipe::new(5, forward, Path::clean(20.0, 20 * MS));
    pipe.send(0, 1_000_000);
    pipe.run_until(Time::from_millis(10_000));
    let view = pipe.view();
    let rate = Rate::from_bytes_per(view.delivered.bytes, Duration::from_secs(10));
    assert!(rate.mbps() > 18.0, "{rate:?}");
    assert_eq!(view.lost.packets, 0);
    assert!(view.spurious < 30, "{}", view.spurious);
}

#[test]
fn lost_acks_raise_the_ratio_of_ccid2() {
    let mut lose = vec![false; 10];
    lose[3] = true;
    let forward = Path { queue: 5000, ..Path::clean(20.0, 20 * MS) };
    let mut pipe = Pipe::new(2, forward, Path { lose, ..Path::clean(20.0, 20 * MS) });
    pipe.send(0, 5000);
    while pipe.step() {}
    let view = pipe.view();
    assert_eq!((view.delivered.packets, view.timeouts), (5000, 0));
    let most = pipe.ends[0].requests.iter().filter_map(|d| match d {
        SenderRequest::AckRatio(ratio) => Some(*ratio),
        _ => None,
    });
    assert!(most.max() > Some(2));
}

/// Offers 15 Mbit/s to two paths, using the first path whenever its gate is open. The queue is empty after
/// every packet.
#[test]
fn a_saturated_path_is_not_application_limited_though_the_other_takes_the_rest() {
    let wide = || Path::clean(30.0, 20 * MS);
    let mut first = Pipe::new(5, Path::clean(10.0, 20 * MS), wide());
    let mut second = Pipe::new(5, wide(), wide());
    let gap = Rate::from_mbps(15.0).time_for(1460);
    let (mut now, mut limited) = (Time::ZERO, 0);
    let mut run = |first: &mut Pipe, second: &mut Pipe, seconds: u64| {
        let end = now + Duration::from_secs(seconds);
        let before = first.view().delivered.bytes;
        let mut sent = 0;
        while now < end {
            now += gap;
            first.run_until(now);
            second.run_until(now);
            sent += 1;
            limited += u64::from(first.view().app_limited);
            let open = |pipe: &Pipe| matches!(pipe.ends[0].tx.gate(pipe.now), Gate::Open { .. });
            if open(first) {
                first.send(0, 1);
                continue;
            }
            first.ends[0].tx.on_blocked(now, false);
            if open(second) {
                second.send(0, 1);
            }
        }
        let rate = Rate::from_bytes_per(first.view().delivered.bytes - before, Duration::from_secs(seconds));
        (rate.mbps(), core::mem::take(&mut limited) as f64 / sent as f64)
    };
    run(&mut first, &mut second, 2);
    let (rate, limited) = run(&mut first, &mut second, 3);
    assert!(rate > 9.5 && limited < 0.05, "{rate} {limited}");
    assert!(second.view().app_limited);
    // The path's capacity falls. The sender notices, because the path does not count as application-limited.
    first.path(0).rate = Rate::from_mbps(5.0);
    run(&mut first, &mut second, 1);
    let (rate, limited) = run(&mut first, &mut second, 3);
    assert!(rate > 4.7 && limited < 0.05, "{rate} {limited}");
    let view = first.view();
    assert!(view.bottleneck.is_some_and(|rate| rate.mbps() < 5.5) && view.lost.packets == 0);
    assert!(view.rtt.srtt() < Some(60 * MS), "{view:?}");
}

#[test]
fn a_dead_path_comes_back() {
    for ccid in [2, 5] {
        let forward = Path { queue: 50, ..Path::clean(10.0, 20 * MS) };
        let mut pipe = Pipe::new(ccid, forward, Path::clean(10.0, 20 * MS));
        pipe.send(0, 100_000);
        pipe.run_until(Time::from_millis(2_000));
        let path = pipe.path(0).clone();
        pipe.path(0).lose = vec![true];
        pipe.run_until(Time::from_millis(5_000));
        let view = pipe.view();
        assert!(view.timeouts >= 1 && view.timeouts < 10 && conserved(&view));
        let delivered = view.delivered.packets;
        *pipe.path(0) = path;
        pipe.run_until(Time::from_millis(15_000));
        let view = pipe.view();
        assert!(
            view.delivered.packets > delivered + 4000,
            "CCID {ccid}: {}",
            view.delivered.packets - delivered
        );
        assert!(conserved(&view));
    }
}

fn path() -> impl Strategy<Value = Path> {
    let lose = prop_oneof![
        2 => Just(vec![false]),
        3 => proptest::collection::vec(proptest::bool::weighted(0.1), 1..60),
        1 => proptest::collection::vec(proptest::bool::weighted(0.5), 2..20),
    ];
    let jitter = prop_oneof![Just(vec![0]), proptest::collection::vec(0u32..30_000, 1..30)];
    (1.0f64..100.0, 3usize..100, 0u64..60, lose, jitter, 1u64..100).prop_map(
        |(mbps, queue, delay, lose, jitter, mark)| Path {
            rate: Rate::from_mbps(mbps),
            queue,
            delay: delay as u32 * MS,
            lose,
            jitter,
            mark: mark as u32 * MS,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the pipe does, every data packet is counted exactly once at all times, and packets counted as
    /// delivered have really arrived. At the end, nothing is in flight, and both ends stop sending.
    #[test]
    fn every_packet_is_delivered_or_lost(
        five: bool, forward in path(), reverse in path(), bursts in proptest::collection::vec((any::<bool>(), 1u64..200, 0u64..300), 1..6),
    ) {
        let mut pipe = Pipe::new(if five { 5 } else { 2 }, forward, reverse);
        let mut wanted = [0; 2];
        for (from, packets, pause) in bursts {
            wanted[usize::from(from)] += packets;
            pipe.send(usize::from(from), packets);
            pipe.run_until(pipe.now + pause as u32 * MS);
        }
        let mut steps = 0;
        while pipe.step() {
            for (end, peer) in [(0, 1), (1, 0)] {
                let view = pipe.ends[end].tx.view();
                prop_assert!(conserved(&view));
                prop_assert!(view.delivered.packets <= pipe.ends[peer].arrived);
            }
            steps += 1;
            prop_assert!(steps < 1_000_000, "the ends never stop sending");
        }
        for (end, wanted) in pipe.ends.iter().zip(wanted) {
            let view = end.tx.view();
            prop_assert_eq!(view.inflight, Amount::default());
            prop_assert_eq!(view.sent.packets, wanted);
            prop_assert!(end.longest_vector <= 900);
        }
    }
}
