//! Tests what happens when the process has no free descriptor. These tests are a separate program, because
//! the descriptor limit applies to the whole process.

mod lone;

use lone::{FIRST, Lone, PATIENCE};
use mpdccp_proxy::{Command, Event, Flow};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::sync::Mutex;
use std::time::Duration;

/// Held by the test that changes the limit.
static LIMIT: Mutex<()> = Mutex::new(());

fn set_limit(descriptors: Option<u64>) {
    setrlimit(Resource::Nofile, Rlimit { current: descriptors, ..getrlimit(Resource::Nofile) }).unwrap();
}

#[test]
fn a_connection_is_accepted_once_there_is_a_descriptor_though_no_other_comes() {
    let _guard = LIMIT.lock().unwrap();
    let Some(end) = Lone::new() else { return };
    let next = end.syn(Flow(1), 1_000);
    // The listener exists now. From here on, the process cannot open a descriptor.
    let before = getrlimit(Resource::Nofile).current;
    set_limit(Some(3));
    end.host(1_000, FIRST, &[], |tcp| tcp.ack(next));
    let early = end.events.recv_timeout(Duration::from_millis(300));
    set_limit(before);
    assert!(early.is_err(), "{early:?}");
    assert_eq!(end.events.recv_timeout(PATIENCE).unwrap(), [Event::Connected(Flow(1))]);
    end.stop();
}

#[test]
fn idle_listeners_give_their_descriptors_back() {
    let _guard = LIMIT.lock().unwrap();
    let Some(end) = Lone::new() else { return };
    for n in 0..10 {
        end.accept(Flow(n), (1_000, 100 + n as u16));
        end.find(|segment| segment.tuple.from.port() == 100 + n as u16);
        end.handle.send([Command::Reset(Flow(n))]);
    }
    let before = getrlimit(Resource::Nofile).current;
    // All descriptors below the lowest free one are in use, so a limit of this number leaves none free.
    let lowest = rustix::io::dup(end.handle.tun()).unwrap();
    set_limit(Some(rustix::fd::AsRawFd::as_raw_fd(&lowest) as u64));
    drop(lowest);
    end.accept(Flow(20), (1_000, 120));
    let failed = end.events.recv_timeout(PATIENCE);
    end.accept(Flow(21), (1_000, 121));
    let answer = end.find(|segment| segment.tuple.from.port() >= 120);
    set_limit(before);
    assert_eq!(failed.unwrap(), [Event::Failed(Flow(20), false)]);
    assert_eq!(answer.tuple.from.port(), 121);
    end.stop();
}
