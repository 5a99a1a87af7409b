//! Properties that hold for every configuration and arrival pattern.

use mpdccp_linkem::*;
use mpdccp_units::{Duration, Rate, Time};
use proptest::prelude::*;

fn rate() -> impl Strategy<Value = Rate> {
    prop_oneof![8 => 1_000_000u64..2_000_000_000, 1 => Just(0)].prop_map(Rate::from_bps)
}

fn rate_model() -> impl Strategy<Value = RateModel> {
    prop_oneof![
        Just(RateModel::Unlimited),
        rate().prop_map(RateModel::Constant),
        (rate(), 1u32..100_000).prop_map(|(rate, burst)| RateModel::TokenBucket { rate, burst }),
        prop::collection::vec((1u64..20_000, rate()), 1..5).prop_map(|steps| {
            let mut at = Duration::ZERO;
            let steps = steps.into_iter().map(|(after, rate)| {
                let step = (at, rate);
                at += Duration::from_micros(after);
                step
            });
            RateModel::Steps(steps.collect())
        }),
        prop::collection::vec(0u32..5, 1..20).prop_map(|gaps| {
            let mut at = 0;
            let lines = gaps.into_iter().map(|gap| {
                at += gap;
                format!("{at}\n")
            });
            let text: String = lines.collect();
            RateModel::Trace(Trace::parse(&format!("{text}100")).unwrap())
        }),
    ]
}

fn jitter() -> impl Strategy<Value = Jitter> {
    let length = || (0u64..30_000).prop_map(Duration::from_micros);
    let spread = prop_oneof![
        Just(Spread::None),
        length().prop_map(Spread::Uniform),
        length().prop_map(Spread::Normal)
    ];
    let memory = prop_oneof![Just(Duration::ZERO), length()];
    (spread, memory, any::<bool>()).prop_map(|(spread, memory, reorder)| Jitter { spread, memory, reorder })
}

fn limit() -> impl Strategy<Value = Limit> {
    prop_oneof![(1u64..50).prop_map(Limit::Packets), (1u64..60_000).prop_map(Limit::Bytes)]
}

fn queue_kind() -> impl Strategy<Value = QueueKind> {
    let codel = || {
        (0u64..10, 1u64..100, any::<bool>()).prop_map(|(target, interval, ecn)| CoDelConfig {
            target: Duration::from_millis(target),
            interval: Duration::from_millis(interval),
            ecn,
        })
    };
    prop_oneof![
        Just(QueueKind::DropTail),
        limit().prop_map(QueueKind::MarkAbove),
        (1u64..20, 1u64..20, 0.001..1.0, any::<bool>()).prop_map(|(min, above, weight, ecn)| {
            QueueKind::Red(RedConfig { weight, ecn, ..RedConfig::new(min, min + above) })
        }),
        codel().prop_map(QueueKind::CoDel),
        (1u32..5, 1u32..2_000, codel())
            .prop_map(|(flows, quantum, codel)| QueueKind::FqCoDel(FqCoDelConfig { flows, quantum, codel })),
        (0u64..20, 1u64..20).prop_map(|(min, above)| QueueKind::Drd(DrdConfig { min, max: min + above })),
        (1u64..20, 1u64..20, 0u64..50, any::<bool>()).prop_map(|(target, update, burst, ecn)| {
            let [target, update, max_burst] = [target, update, burst].map(Duration::from_millis);
            QueueKind::Pie(PieConfig { target, update, max_burst, ecn, ..PieConfig::default() })
        }),
    ]
}

fn queue() -> impl Strategy<Value = QueueConfig> {
    (queue_kind(), limit()).prop_map(|(kind, limit)| QueueConfig { kind, limit })
}

fn loss() -> impl Strategy<Value = LossModel> {
    prop_oneof![
        Just(LossModel::None),
        (0.0..1.0).prop_map(LossModel::Bernoulli),
        (0.0..1.0, 0.0..1.0, 0.0..1.0, 0.0..1.0).prop_map(|(to_bad, to_good, loss_good, loss_bad)| {
            LossModel::GilbertElliott { to_bad, to_good, loss_good, loss_bad }
        }),
    ]
}

fn policer() -> impl Strategy<Value = Option<Policer>> {
    prop::option::of((rate(), 1u32..20_000).prop_map(|(rate, burst)| Policer { rate, burst }))
}

fn aggregation() -> impl Strategy<Value = Option<Aggregation>> {
    let burst = (0u64..5_000, 1u32..40);
    let burst = burst.prop_map(|(us, packets)| Aggregation { access: Duration::from_micros(us), packets });
    prop::option::of(burst)
}

fn config() -> impl Strategy<Value = LinkConfig> {
    let usual = (rate_model(), 0u64..40_000, jitter(), queue(), loss(), prop_oneof![Just(0.0), 0.0..1.0]);
    (usual, policer(), prop_oneof![Just(0), 1u32..2_000], aggregation()).prop_map(
        |((rate, delay, jitter, queue, loss, duplicate), policer, thin_below, aggregation)| {
            let delay = Duration::from_micros(delay);
            LinkConfig { rate, delay, jitter, queue, loss, duplicate, policer, thin_below, aggregation }
        },
    )
}

/// Generates the initial configuration, and a second one to change to.
fn configs() -> impl Strategy<Value = [LinkConfig; 2]> {
    [config(), config()]
}

#[derive(Clone, Debug)]
enum Event {
    Push(Meta),
    Rate(Rate),
    Delay(Duration),
    /// Changes to one of the two configurations.
    Change(bool),
    Down,
    Up,
}

/// Generates events, each with the time in microseconds since the one before it.
fn events() -> impl Strategy<Value = Vec<(u64, Event)>> {
    let ecn = prop_oneof![Just(Ecn::NotEct), Just(Ecn::Ect0), Just(Ecn::Ect1), Just(Ecn::Ce)];
    let push =
        (1u32..3_000, ecn, 0u32..4).prop_map(|(bytes, ecn, flow)| Event::Push(Meta { bytes, ecn, flow }));
    let event = prop_oneof![
        40 => push,
        1 => rate().prop_map(Event::Rate),
        1 => (0u64..40_000).prop_map(|us| Event::Delay(Duration::from_micros(us))),
        1 => any::<bool>().prop_map(Event::Change),
        1 => Just(Event::Down),
        2 => Just(Event::Up),
    ];
    prop::collection::vec((prop_oneof![Just(0), 0u64..2_000], event), 0..200)
}

fn apply(configs: &[LinkConfig; 2], link: &mut Link<usize>, now: Time, number: usize, event: &Event) {
    match *event {
        Event::Push(meta) => {
            link.push(now, meta, number);
        }
        Event::Rate(rate) => link.set_rate(now, rate),
        Event::Delay(delay) => link.set_delay(now, delay),
        Event::Change(which) => link.reconfigure(now, configs[usize::from(which)].clone()).unwrap(),
        Event::Down => link.set_down(now),
        Event::Up => link.set_up(now),
    }
}

const HORIZON: Time = Time::from_millis(100_000);

/// Applies the events and takes out all arrivals. An eager driver polls at every event of the link, a lazy
/// driver only at the end.
fn run(
    config: &[LinkConfig; 2],
    events: &[(u64, Event)],
    eager: bool,
) -> (Link<usize>, Vec<Delivered<usize>>) {
    let mut link = Link::new(config[0].clone(), 7, Time::ZERO).unwrap();
    let mut out = Vec::new();
    let follow = |link: &mut Link<usize>, until: Time, out: &mut Vec<_>| {
        while let Some(at) = link.next_event().filter(|at| *at < until) {
            link.advance(at);
            while let Some(d) = link.pop(at) {
                assert_eq!(d.at, at, "next_event came too late");
                out.push(d);
            }
        }
    };
    let mut now = Time::ZERO;
    for (number, (after, event)) in events.iter().enumerate() {
        now += Duration::from_micros(*after);
        if eager {
            follow(&mut link, now, &mut out);
        }
        apply(config, &mut link, now, number, event);
    }
    if eager {
        follow(&mut link, HORIZON, &mut out);
    }
    out.extend(std::iter::from_fn(|| link.pop(HORIZON)));
    (link, out)
}

proptest! {
    #[test]
    fn nothing_is_created_or_forgotten(config in configs(), events in events(), eager: bool) {
        let (link, out) = run(&config, &events, eager);
        let (stats, queued) = (link.stats(), link.queue_len());
        let mut offered = Count::default();
        for (_, event) in &events {
            if let Event::Push(meta) = event {
                offered.packets += 1;
                offered.bytes += u64::from(meta.bytes);
            }
        }
        prop_assert_eq!(stats.offered, offered);
        prop_assert_eq!(stats.delivered.packets, out.len() as u64);
        prop_assert_eq!(link.propagating(), 0);
        let came = offered.packets + stats.duplicated.packets;
        prop_assert_eq!(came, stats.delivered.packets + stats.dropped() + queued.packets);
        let dropped: u64 = DropReason::ALL.map(|r| stats.drops(r).bytes).iter().sum();
        let came = offered.bytes + stats.duplicated.bytes;
        prop_assert_eq!(came, stats.delivered.bytes + dropped + queued.bytes);
    }

    #[test]
    fn polling_changes_nothing(config in configs(), events in events()) {
        let (mut eager, mut lazy) = (run(&config, &events, true), run(&config, &events, false));
        eager.1.sort_by_key(|d| d.packet);
        lazy.1.sort_by_key(|d| d.packet);
        prop_assert_eq!(eager.1, lazy.1);
        prop_assert_eq!(eager.0.stats(), lazy.0.stats());
    }

    #[test]
    fn packets_keep_their_order_unless_jitter_reorders(mut config in configs(), events in events()) {
        config.iter_mut().for_each(|c| (c.jitter.reorder, c.duplicate) = (false, 0.0));
        let (_, out) = run(&config, &events, true);
        prop_assert!(out.is_sorted_by_key(|d| d.at));
        // Flow queueing keeps the order only within a queue, so check each flow separately.
        let fair = config.iter().any(|c| matches!(c.queue.kind, QueueKind::FqCoDel(_)));
        for flow in 0..4 {
            let mine = out.iter().filter(|d| !fair || d.meta.flow == flow);
            prop_assert!(mine.is_sorted_by(|a, b| a.packet < b.packet));
        }
    }

    #[test]
    fn nothing_arrives_before_its_delay(mut config in configs(), events in events()) {
        config.iter_mut().for_each(|c| c.jitter = Jitter::default());
        let events: Vec<_> = events.into_iter().filter(|e| !matches!(e.1, Event::Delay(_))).collect();
        let least = config[0].delay.min(config[1].delay);
        let (_, out) = run(&config, &events, true);
        for d in out {
            prop_assert!(d.at.since(d.pushed) >= least);
        }
    }

    #[test]
    fn never_faster_than_the_rate(mut config in configs(), rate in 1_000_000u64..1_000_000_000, events in events()) {
        let rate = Rate::from_bps(rate);
        config[0].rate = RateModel::Constant(rate);
        config[0].jitter = Jitter::default();
        config[0].aggregation = None;
        config[0].duplicate = 0.0;
        let events: Vec<_> = events.into_iter().filter(|e| matches!(e.1, Event::Push(_))).collect();
        let (_, out) = run(&config, &events, true);
        // From the last bit of any packet on, the later bytes take at least their transmission time.
        for (i, first) in out.iter().enumerate() {
            let mut bytes = 0;
            for later in &out[i + 1..] {
                bytes += u64::from(later.meta.bytes);
                prop_assert!(later.at.since(first.at) + Duration::from_nanos(1) >= rate.time_for(bytes));
            }
        }
    }

    #[test]
    fn only_the_ecn_field_changes(config in configs(), events in events()) {
        let (link, out) = run(&config, &events, true);
        let mut marked = 0;
        for d in out {
            let Event::Push(meta) = events[d.packet].1 else { panic!("packet {} was never pushed", d.packet) };
            if d.meta != meta {
                marked += 1;
                prop_assert!(meta.ecn.is_capable());
                prop_assert_eq!(d.meta, Meta { ecn: Ecn::Ce, ..meta });
            }
        }
        // Marked packets may still be lost or dropped.
        prop_assert!(marked <= link.stats().ce_marked + link.stats().duplicated.packets);
    }

    #[test]
    fn the_queue_keeps_its_limit(config in configs(), events in events()) {
        let mut link = Link::new(config[0].clone(), 7, Time::ZERO).unwrap();
        let mut now = Time::ZERO;
        for (number, (after, event)) in events.iter().enumerate() {
            now += Duration::from_micros(*after);
            apply(&config, &mut link, now, number, event);
            // After a change of the configuration, another limit may apply, so do not check further.
            if events[..=number].iter().any(|e| matches!(e.1, Event::Change(_))) {
                break;
            }
            match config[0].queue.limit {
                Limit::Bytes(n) => prop_assert!(link.queue_len().bytes <= n),
                Limit::Packets(n) => prop_assert!(link.queue_len().packets <= n),
            }
        }
    }
}
