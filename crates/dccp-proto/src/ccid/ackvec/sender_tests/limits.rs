//! Tests of what limits a sender: the window, pacing, the application, or the path.

use super::*;

#[test]
fn gate_says_why() {
    let mut rig = Rig::with(false, Limits { cwnd: Window::Bytes(5_500), pacing: None, quantum: 0 });
    assert_eq!(rig.half.gate(ms(0)), Gate::Open { burst: 5500 });
    rig.send(ms(0), 5);
    assert_eq!(rig.half.gate(ms(0)), Gate::Open { burst: BYTES });
    rig.send(ms(0), 1);
    assert_eq!(rig.half.gate(ms(0)), Gate::Closed(Why::Window));
    let pacing = Some(Rate::from_mbps(8.0));
    rig.set(Limits { cwnd: Window::Packets(9), pacing, quantum: 2000 });
    assert_eq!(rig.half.gate(ms(0)), Gate::Open { burst: 2000 });
    rig.send(ms(0), 2);
    assert_eq!(rig.half.gate(ms(0)), Gate::At(ms(2), Why::Pacing));
    assert_eq!(rig.half.gate(ms(2)), Gate::Open { burst: 1000 });
}

/// Offers `count` packets, one every `gap`, each acknowledged after 20 ms. A packet that finds the gate
/// closed takes another path, so the queue is empty after each packet. Returns whether the path is
/// application-limited.
fn offered(rig: &mut Rig, count: u64, gap: Duration) -> bool {
    offered_in_bursts(rig, count, gap, 1)
}

/// Like [`offered`], but with bursts of `burst` packets.
fn offered_in_bursts(rig: &mut Rig, count: u64, gap: Duration, burst: u64) -> bool {
    let mut sent = Vec::new();
    let mut now = ms(1000);
    for _ in 0..count {
        let acked = sent.iter().take_while(|&&at| at + Duration::from_millis(20) <= now).count();
        for _ in 0..acked {
            let index = rig.next - sent.len() as u64;
            sent.remove(0);
            rig.ack(now, index, "+");
        }
        for _ in 0..burst {
            match rig.half.gate(now) {
                Gate::Open { .. } => {
                    rig.send(now, 1);
                    sent.push(now);
                }
                _ => rig.half.on_blocked(now, true),
            }
        }
        rig.half.on_app_limited(now);
        now += gap;
    }
    rig.half.view().app_limited
}

#[test]
fn application_limited_is_decided_by_the_path() {
    // Pacing at 8 Mbit/s: one packet per millisecond.
    let limits = Limits { cwnd: Window::Packets(100), pacing: Some(Rate::from_mbps(8.0)), quantum: 1000 };
    // At half the pacing rate, only the application limits the sender.
    assert!(offered(&mut Rig::with(false, limits), 200, Duration::from_micros(2000)));
    // The application offers more than the pacing rate but less than twice that rate, so pacing limits the
    // sender although no packet ever queues.
    assert!(!offered(&mut Rig::with(false, limits), 200, Duration::from_micros(700)));
    assert!(!offered(&mut Rig::with(false, limits), 200, Duration::from_micros(500)));
    // Pacing blocks the second packet of each burst, but the path sends only a quarter of its pacing rate.
    assert!(offered_in_bursts(&mut Rig::with(false, limits), 50, Duration::from_millis(4), 2));
    // The window is full whenever ten packets are in flight.
    let limits = Limits { cwnd: Window::Packets(10), pacing: None, quantum: 1000 };
    assert!(!offered(&mut Rig::with(false, limits), 200, Duration::from_micros(1900)));
    let limits = Limits { cwnd: Window::Packets(40), pacing: None, quantum: 1000 };
    assert!(offered(&mut Rig::with(false, limits), 200, Duration::from_micros(1900)));
}

/// A driver that wakes only every 5 ms sends a quantum of two packets each time, which is less than half of
/// the pacing rate. Data is always waiting, so the application is not the limit.
#[test]
fn a_late_driver_does_not_make_the_path_application_limited() {
    let limits = Limits { cwnd: Window::Packets(100), pacing: Some(Rate::from_mbps(8.0)), quantum: 2000 };
    let mut rig = Rig::with(false, limits);
    for wake in 0..40 {
        let now = ms(5 * wake);
        if wake >= 4 {
            let app_limited = rig.ack(now, 2 * (wake - 4), "++").app_limited;
            assert!(!app_limited, "at {now:?}");
        }
        rig.send(now, 2);
        assert!(matches!(rig.half.gate(now), Gate::At(..)));
        rig.half.on_blocked(now, false);
    }
}

/// A packet waits for a tenth of a millisecond until another path takes it. After that, no packet is waiting.
#[test]
fn a_wait_ends_when_the_queue_is_empty() {
    let limits = Limits { cwnd: Window::Packets(100), pacing: Some(Rate::from_mbps(8.0)), quantum: 1000 };
    let mut rig = Rig::with(false, limits);
    for n in 0..50 {
        let now = ms(1000 + 4 * n);
        if n >= 5 {
            rig.ack(now, n - 5, "+");
        }
        rig.send(now, 1);
        rig.half.on_blocked(now, false);
        rig.half.on_app_limited(now + Duration::from_micros(100));
    }
    assert!(rig.half.view().app_limited);
}

/// draft-cheng-iccrg-delivery-rate-estimation-00 section 3.4: a path becomes application-limited if its
/// window has room and there is nothing to send. After a packet was blocked, the tuned variant delays this by
/// a round. The draft variant does so only if the blocked packet went to another path.
#[test]
fn the_draft_marks_at_once_what_only_waited_for_its_turn() {
    for (draft, elsewhere, at_once) in [(false, false, false), (true, false, true), (true, true, false)] {
        let pacing = Some(Rate::from_mbps(8.0));
        let mut rig = Rig::with(false, Limits { cwnd: Window::Packets(100), pacing, quantum: 1000 });
        rig.half.draft = draft;
        rig.send(ms(0), 1);
        rig.ack(ms(20), 0, "+");
        rig.half.on_blocked(ms(21), elsewhere);
        rig.half.on_app_limited(ms(22));
        rig.send(ms(22), 1);
        assert!(!rig.half.view().app_limited, "without idle time, the path is not application-limited");
        rig.half.on_app_limited(ms(23));
        rig.send(ms(24), 1);
        assert_eq!(rig.half.view().app_limited, at_once, "draft: {draft}, elsewhere: {elsewhere}");
        rig.half.on_app_limited(ms(42));
        rig.send(ms(43), 1);
        assert!(rig.half.view().app_limited);
    }
}

/// A path is application-limited once the scheduler has given it nothing for a quarter of its round trip of
/// 20 ms.
#[test]
fn a_path_that_is_held_back_is_application_limited() {
    for (ms_held, draft, limited) in [(4, false, false), (6, false, true), (6, true, false)] {
        let pacing = Some(Rate::from_mbps(8.0));
        let mut rig = Rig::with(false, Limits { cwnd: Window::Packets(100), pacing, quantum: 1000 });
        rig.half.draft = draft;
        rig.send(ms(0), 1);
        rig.ack(ms(20), 0, "+");
        rig.half.on_held_back(ms(21));
        rig.half.on_held_back(ms(21 + ms_held));
        rig.send(ms(21 + ms_held), 1);
        assert_eq!(rig.half.view().app_limited, limited, "{ms_held} ms, draft: {draft}");
        rig.ack(ms(41 + ms_held), 1, "+");
        rig.send(ms(42 + ms_held), 1);
        assert!(!rig.half.view().app_limited, "the path is no longer held back");
    }
}

#[test]
fn the_window_counts_as_the_limit_for_one_round() {
    let mut rig = Rig::with(true, Limits { cwnd: Window::Packets(4), pacing: None, quantum: 0 });
    rig.send(ms(0), 4);
    assert!(!rig.ack(ms(40), 0, "+").app_limited);
    rig.half.on_app_limited(ms(60));
    assert!(!rig.half.view().app_limited);
    rig.half.on_app_limited(ms(81));
    assert!(rig.half.view().app_limited);
    assert!(rig.ack(ms(82), 1, "+").app_limited);
}

#[test]
fn idle_restart_differs_with_the_ccid() {
    for (strict, expected) in [(true, [0, 1]), (false, [1, 2])] {
        let mut rig = Rig::new(strict);
        rig.send(ms(0), 1);
        assert!(rig.ack(ms(10), 0, "+").app_limited);
        rig.half.on_app_limited(ms(50));
        rig.send(ms(60), 1);
        assert_eq!(rig.notes.lock().unwrap().restarts, expected[0]);
        rig.ack(ms(70), 1, "+");
        rig.half.on_app_limited(ms(100));
        rig.send(ms(500), 1);
        assert_eq!(rig.notes.lock().unwrap().restarts, expected[1]);
    }
}
