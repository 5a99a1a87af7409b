use super::*;
use crate::FlowKey;
use alloc::vec;
use mpdccp_units::Ecn;

fn queue() -> SendQueue {
    SendQueue::new(QueueConfig {
        max_bytes: 100,
        max_packets: 3,
        max_sojourn: Duration::from_millis(10),
        discipline: Discipline::Fifo,
    })
}

fn take(q: &mut SendQueue, ms: u64) -> Option<Queued> {
    q.head(Time::from_millis(ms))?;
    q.pop()
}

fn put(q: &mut SendQueue, ms: u64, len: usize, tag: u8) {
    q.push(Time::from_millis(ms), vec![tag; len], PktInfo { len, ..PktInfo::default() });
}

#[test]
fn drops_at_the_head_when_full() {
    let mut q = queue();
    for tag in 0..4 {
        put(&mut q, 0, 10, tag);
    }
    assert_eq!(q.stats().dropped_full, 1, "the fourth packet exceeds the limit");
    put(&mut q, 0, 90, 4);
    assert_eq!(q.stats().dropped_full, 3, "bytes");
    assert_eq!(
        q.view(Time::ZERO),
        QueueView { packets: 2, bytes: 100, oldest: Duration::ZERO, flow_bytes: 100, streams: false }
    );
    assert_eq!(take(&mut q, 0).unwrap().data[0], 3);
    put(&mut q, 0, 500, 5);
    assert_eq!(q.view(Time::ZERO).packets, 1, "an empty queue accepts a packet of any size");
    assert_eq!(q.clear(), 1);
    assert_eq!(q.view(Time::ZERO), QueueView::default());
}

#[test]
fn the_head_that_was_shown_stays() {
    for discipline in [Discipline::Fifo, Discipline::FqCoDel] {
        let mut q = SendQueue::new(QueueConfig { max_packets: 3, discipline, ..QueueConfig::default() });
        for tag in 0..3 {
            put(&mut q, 0, 10, tag);
        }
        assert_eq!(q.head(Time::ZERO).unwrap().data[0], 0);
        put(&mut q, 0, 10, 3);
        assert_eq!(q.head(Time::ZERO).unwrap().data[0], 0);
        assert!(q.view(Time::ZERO).packets <= 3);
        assert_eq!(take(&mut q, 0).unwrap().data[0], 0);
        assert!(take(&mut q, 0).unwrap().data[0] > 1, "packets behind the shown head are dropped first");
        assert!(q.stats().dropped_full > 0);
    }
}

#[test]
fn a_fair_queue_keeps_both_bounds() {
    let cfg = QueueConfig { max_bytes: 10_000, max_packets: 50, ..QueueConfig::default() };
    let mut q = SendQueue::new(QueueConfig { discipline: Discipline::FqCoDel, ..cfg });
    for (len, times) in [(40, 60), (1000, 60), (40, 300)] {
        for _ in 0..times {
            put(&mut q, 0, len, 0);
            let view = q.view(Time::ZERO);
            assert!(view.bytes <= 10_000 && view.packets <= 50, "{view:?}");
        }
    }
    assert!(q.view(Time::ZERO).packets > 20);
}

#[test]
fn flows_take_turns_and_a_standing_queue_is_signalled() {
    let mut q = SendQueue::new(QueueConfig {
        max_sojourn: Duration::from_secs(9),
        discipline: Discipline::FqCoDel,
        ..QueueConfig::default()
    });
    let info = |flow, ecn| PktInfo { len: 1000, flow, ecn, ..PktInfo::default() };
    for _ in 0..50 {
        q.push(Time::ZERO, vec![0; 1000], info(1, Ecn::NotEct));
    }
    take(&mut q, 0);
    take(&mut q, 0);
    q.push(Time::ZERO, vec![0; 1000], info(2, Ecn::NotEct));
    assert_eq!(take(&mut q, 0).unwrap().info.flow, 2, "flow 2 waited behind the fifty packets of flow 1");
    // One packet is sent every 10 ms, so all packets wait longer than the target.
    for ms in (10..400).step_by(10) {
        take(&mut q, ms);
    }
    assert!(q.stats().dropped_early > 0);
    assert_eq!(q.stats().marked, 0);

    let mut v4 = vec![0u8; 1000];
    v4[..2].copy_from_slice(&[0x45, 0x02]);
    v4[8..12].copy_from_slice(&[64, 17, 0x12, 0x34]);
    for _ in 0..50 {
        q.push(Time::from_millis(1000), v4.clone(), PktInfo::of_ip(&v4, FlowKey::default()));
    }
    let out: Vec<_> = (1010..1400).step_by(10).filter_map(|ms| take(&mut q, ms)).collect();
    let marked: Vec<_> = out.iter().filter(|p| p.data[1] == 3).collect();
    assert!(!marked.is_empty());
    assert_eq!(marked.len() as u64, q.stats().marked);
    let sum = |p: &[u8]| {
        p.chunks(2).take(10).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum::<u32>() % 0xffff
    };
    assert_eq!(sum(&marked[0].data), sum(&v4), "the header checksum covers the mark");
}

#[test]
fn a_quiet_queue_gives_its_memory_back() {
    let cfg = QueueConfig { discipline: Discipline::FqCoDel, ..QueueConfig::default() };
    let (mut q, fresh) = (SendQueue::new(cfg), alloc::format!("{:?}", SendQueue::new(cfg).waiting));
    put(&mut q, 0, 10, 0);
    take(&mut q, 1);
    let rest = Time::ZERO + REST;
    assert!(q.head(rest - Duration::from_nanos(1)).is_none());
    assert_ne!(alloc::format!("{:?}", q.waiting), fresh, "CoDel's state is still in use");
    assert!(q.head(rest).is_none());
    assert_eq!(alloc::format!("{:?}", q.waiting), fresh);
}

#[test]
fn marks_ipv6() {
    let mut v6 = vec![0u8; 40];
    v6[..2].copy_from_slice(&[0x60, 0x10]);
    assert_eq!(PktInfo::of_ip(&v6, FlowKey::default()).ecn, Ecn::Ect1);
    set_ce(&mut v6);
    assert_eq!(v6[..2], [0x60, 0x30]);
    set_ce(&mut [0x45; 3]);
}

#[test]
fn drops_what_is_too_old() {
    let mut q = queue();
    put(&mut q, 0, 10, 0);
    put(&mut q, 5, 10, 1);
    assert_eq!(q.head(Time::from_millis(10)).unwrap().data[0], 0, "exactly the limit is not too old");
    assert!(q.next_expiry().unwrap() > Time::from_millis(10));
    assert_eq!(q.head(q.next_expiry().unwrap()).unwrap().data[0], 1);
    assert_eq!(q.stats().dropped_old, 1);
    assert!(q.head(Time::from_millis(100)).is_none());
    assert_eq!(q.stats(), QueueStats { accepted: 2, dropped_old: 2, ..QueueStats::default() });
    q.drop_too_big();
    assert_eq!(q.stats().dropped_too_big, 0, "an empty queue has nothing to drop");
}

#[test]
fn where_paths_are_long_a_fair_queue_may_stand_longer() {
    for (discipline, min_rtt_ms, want) in [
        (Discipline::FqCoDel, 20, 100),
        (Discipline::FqCoDel, 50, 200),
        (Discipline::FqCoDel, 600, 250),
        (Discipline::Fifo, 600, 100),
    ] {
        let mut q = SendQueue::new(QueueConfig { discipline, ..QueueConfig::default() });
        q.tune(Duration::from_millis(min_rtt_ms), Duration::from_millis(min_rtt_ms), Duration::ZERO);
        for at in 0..=1 {
            put(&mut q, at, 10, 0);
        }
        assert!(q.head(Time::from_millis(want)).is_some_and(|head| head.at == Time::ZERO), "{min_rtt_ms}");
        assert!(q.head(Time::from_millis(want + 1)).is_some_and(|head| head.at > Time::ZERO), "{min_rtt_ms}");
    }
}

#[test]
fn flows_are_told_apart_by_addresses_protocol_and_ports() {
    let mut v4 = vec![0u8; 40];
    v4[..2].copy_from_slice(&[0x45, 46 << 2]);
    v4[9] = 17;
    v4[20..24].copy_from_slice(&[1, 2, 3, 4]);
    let a = PktInfo::of_ip(&v4, FlowKey::default());
    assert_eq!((a.len, a.dscp), (40, 46));
    v4[23] = 5;
    assert_ne!(PktInfo::of_ip(&v4, FlowKey::default()).flow, a.flow, "the flow depends on the port");
    v4[6] = 0x20;
    let fragment = PktInfo::of_ip(&v4, FlowKey::default()).flow;
    v4[23] = 6;
    assert_eq!(PktInfo::of_ip(&v4, FlowKey::default()).flow, fragment, "fragments have no ports");
    let mut v6 = vec![0u8; 44];
    v6[..2].copy_from_slice(&[0x6b, 0x80]);
    v6[6] = 6;
    let b = PktInfo::of_ip(&v6, FlowKey::default());
    assert_eq!(b.dscp, 46);
    v6[43] = 1;
    assert_ne!(PktInfo::of_ip(&v6, FlowKey::default()).flow, b.flow);
}

/// Ports that hash to the same queue under one key hash to different queues under another.
#[test]
fn collisions_are_of_one_key() {
    let queue = |port: u16, key| {
        let mut v4 = [0u8; 28];
        (v4[0], v4[9]) = (0x45, 17);
        v4[20..22].copy_from_slice(&port.to_be_bytes());
        PktInfo::of_ip(&v4, key).flow % FLOWS
    };
    // These keys are derived in the same way as those of endpoints.
    let [mine, other] = [1, 2].map(|n| crate::Endpoint::new([n; 32]).flow_key());
    let aimed: Vec<_> = (1..u16::MAX).filter(|port| queue(*port, mine) == queue(0, mine)).collect();
    assert!(aimed.len() > 32, "about 64 of the ports collide");
    let hits = aimed.iter().filter(|port| queue(**port, other) == queue(0, other)).count();
    assert!(hits <= 2, "{hits} of {}", aimed.len());
}

#[test]
fn short_or_strange_packets_are_flow_zero() {
    for bytes in [&[][..], &[0x45; 19], &[0x60; 39], &[0x10; 60]] {
        assert_eq!(PktInfo::of_ip(bytes, FlowKey::default()).flow, 0);
    }
    assert_ne!(
        PktInfo::of_ip(&[0x4f; 20], FlowKey::default()).flow,
        0,
        "header length beyond the packet: no ports, no panic"
    );
}
