//! Schedulers and reorderers: `cargo bench -p mpdccp-proto`.

use dccp_proto::Gate;
use dccp_proto::ccid::Late;
use dccp_wire::Seq;
use divan::{Bencher, black_box};
use mpdccp_proto::reorder::{Arrival, ReorderConfig};
use mpdccp_proto::sched::SchedulerKind;
use mpdccp_proto::{Named, PathId, PathRow, PathState, PktInfo, QueueView};
use mpdccp_units::{Duration, Rate, Time};

fn main() {
    divan::main();
}

fn row(id: u32, rtt_ms: u64) -> PathRow {
    PathRow {
        id: PathId(id),
        state: PathState::Up,
        prio: 3,
        peer_prio: Default::default(),
        name: Default::default(),
        gate: Gate::Open { burst: 15_000 },
        srtt: Some(Duration::from_millis(rtt_ms)),
        rttvar: Duration::from_millis(1),
        min_rtt: Some(Duration::from_millis(rtt_ms)),
        late: Late::default(),
        cwnd: 150_000,
        inflight: Default::default(),
        pacing: None,
        rate: Rate::from_mbps(50.0),
        app_limited: false,
        seen: Rate::from_mbps(10.0),
        loss: 0.0,
        max_payload: 1_412,
        last_sent: None,
        up_since: Time::ZERO,
        idle: false,
    }
}

/// Schedules and sends one packet of a backlog over two paths.
#[divan::bench(args = SchedulerKind::all().map(|kind| kind.name()).collect::<Vec<_>>())]
fn pick(bencher: Bencher, name: &str) {
    let mut scheduler = SchedulerKind::named(name).expect("the list contains this name").scheduler();
    let rows = [row(0, 20), row(1, 60)];
    let packet = PktInfo { len: 1_400, ..PktInfo::default() };
    let queue = QueueView {
        packets: 40,
        bytes: 56_000,
        oldest: Duration::from_millis(2),
        flow_bytes: 56_000,
        streams: false,
    };
    let mut now = Time::from_millis(1_000);
    bencher.bench_local(|| {
        now += Duration::from_micros(100);
        let pick = scheduler.pick(now, black_box(&packet), black_box(&queue), black_box(&rows));
        scheduler.on_sent(now, PathId(0), 1_400);
        pick
    });
}

/// Reorders a hundred packets from two paths in turn, the second path ten packets behind.
#[divan::bench(args = ["passive", "active-fixed", "adaptive"])]
fn reorder_100(bencher: Bencher, kind: &str) {
    let wait = Duration::from_millis(100);
    let cfg = match kind {
        "passive" => ReorderConfig::passive(),
        "active-fixed" => ReorderConfig::active_fixed(wait),
        _ => ReorderConfig::adaptive(wait),
    };
    bencher.with_inputs(|| (cfg.reorderer(), vec![vec![0u8; 1_400]; 100])).bench_local_values(
        |(mut reorderer, data)| {
            let mut now = Time::from_millis(1_000);
            let mut delivered = 0;
            for (i, data) in (0u64..).zip(data) {
                now += Duration::from_micros(100);
                let (path, number) = if i % 2 == 0 { (0, i) } else { (1, i.saturating_sub(20) | 1) };
                let arrival = Arrival {
                    mp_seq: Seq::new(number),
                    path: PathId(path),
                    path_seq: Some(Seq::new(i / 2)),
                    ndp: Some(0),
                    flow: 1,
                    back: None,
                };
                reorderer.push(now, arrival, data);
                delivered += std::iter::from_fn(|| reorderer.pop()).count();
            }
            delivered
        },
    );
}
