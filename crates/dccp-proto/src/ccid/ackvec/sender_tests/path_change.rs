//! Tests of packets that were sent before the path (RFC 9000 section 9.4) or the CCID changed.

use super::*;
use crate::ccid::Handover;

/// Returns a half for a new path. Packets 0 to 9 were sent before, at 0 ms, and `own` packets at 20 ms.
fn moved(own: u64) -> Rig {
    let mut old = Rig::new(false);
    old.send(ms(0), 10);
    let left = Handover { found: None, ..old.half.hand_over(ms(10), FIRST.sub(1)) };
    let mut rig = Rig { next: 10, ..Rig::new(false) };
    rig.half.take_over(&left);
    rig.half.track_fates();
    rig.send(ms(20), own);
    rig
}

fn packets(rig: &mut Rig, lost: bool) -> u64 {
    let fates = core::iter::from_fn(|| rig.half.poll_fate());
    fates.filter(|fated| fated.lost == lost).map(|fated| fated.packets).sum()
}

#[test]
fn packets_of_the_previous_path_do_not_count() {
    let mut rig = moved(5);
    assert_eq!(rig.half.view().inflight.packets, 5);
    rig.ack(ms(60), 9, "+++++-----");
    assert!(rig.notes.lock().unwrap().acks.is_empty(), "neither arrivals nor losses count");
    assert_eq!(rig.counts(), (5, 5, 5));
    assert_eq!(packets(&mut rig, true), 5, "the session can repair the losses");
    let told = rig.ack(ms(80), 14, "+++++");
    assert_eq!((told.acked, told.lost, told.rtt), (5, 0, Some(Duration::from_millis(60))));
    rig.ack(ms(90), 14, "+++++++++++++++");
    assert_eq!(rig.notes.lock().unwrap().acks.len(), 1);
    assert_eq!(rig.counts(), (0, 15, 0));
    assert_eq!(rig.half.rtt().srtt(), Some(Duration::from_millis(60)));
}

#[test]
fn the_timer_of_the_previous_path_does_not_count() {
    assert_eq!(moved(1).half.next_timeout(), Some(ms(1_020)), "the timer starts with the first own packet");
    let mut rig = moved(0);
    rig.half.on_timeout(ms(1_000));
    assert_eq!(rig.half.view().timeouts, 0);
    assert_eq!(rig.notes.lock().unwrap().timeouts, 0);
    assert_eq!((rig.counts(), packets(&mut rig, true)), ((0, 0, 10), 10));
    assert_eq!(rig.half.next_timeout(), None);
}

#[test]
fn packets_without_data_of_an_earlier_half_give_no_round_trip() {
    let mut old = Rig::new(false);
    old.send(ms(0), 1);
    // Then the old half sent five acknowledgements.
    let mut rig = Rig { next: 6, ..Rig::new(false) };
    rig.half.take_over(&old.half.hand_over(ms(10), FIRST.sub(1)));
    rig.send(ms(50), 1);
    let told = rig.ack_held(ms(100), 3, "++++", Duration::from_millis(1));
    assert_eq!((told.acked, told.rtt), (1, None));
    assert_eq!(rig.ack(ms(110), 6, "+").rtt, Some(Duration::from_millis(60)));
}
