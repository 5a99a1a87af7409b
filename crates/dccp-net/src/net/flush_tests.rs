use super::*;
use crate::poller::{Poller, Source};
use crate::worker::Alarm;
use crate::{Bind, Clock, Encapsulation, Outlet, Received, SocketStats, UdpEncapsulation};
use dccp_proto::{Route, Sink};
use mpdccp_units::Duration;
use rustix::fd::{AsFd, BorrowedFd};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

/// Records what is sent, in order.
#[derive(Default)]
struct Notes {
    /// First byte of each burst, and whether the sending thread sent the burst.
    sent: Mutex<Vec<(u8, bool)>>,
    /// The test locks this mutex to make the sending thread wait.
    gate: Mutex<()>,
    fails: bool,
    refuses: bool,
}

impl Outlet for Notes {
    fn send(&self, burst: &Burst<'_>) -> Result<(), SendError> {
        let aside = std::thread::current().name() == Some("send");
        let _gate = aside.then(|| self.gate.lock().unwrap());
        self.sent.lock().unwrap().push((burst.bytes[0], aside));
        if self.fails { Err(SendError::LinkDown(io::ErrorKind::NetworkUnreachable.into())) } else { Ok(()) }
    }

    fn refused(&self) -> Vec<SocketAddr> {
        self.refuses.then(remote).into_iter().collect()
    }
}

struct Fake(UdpEncapsulation, Arc<Notes>);

impl AsFd for Fake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Encapsulation for Fake {
    fn name(&self) -> &'static str {
        "fake"
    }
    fn overhead(&self) -> u16 {
        28
    }
    fn send(&mut self, burst: &Burst<'_>) -> Result<(), SendError> {
        self.1.send(burst)
    }
    fn outlet(&self) -> Option<Arc<dyn Outlet>> {
        Some(self.1.clone())
    }
    fn receive(&mut self, each: &mut dyn FnMut(Received<'_>)) -> io::Result<usize> {
        self.0.receive(each)
    }
    fn present(&self) -> io::Result<()> {
        self.0.present()
    }
    fn check(&mut self, remote: SocketAddr) -> io::Result<()> {
        self.0.check(remote)
    }
    fn path_mtu(&self, remote: SocketAddr) -> io::Result<u16> {
        self.0.path_mtu(remote)
    }
    fn device_mtu(&self, remote: SocketAddr) -> io::Result<u16> {
        self.0.device_mtu(remote)
    }
    fn source(&self, remote: SocketAddr) -> io::Result<IpAddr> {
        self.0.source(remote)
    }
    fn device(&self, remote: SocketAddr) -> io::Result<String> {
        self.0.device(remote)
    }
    fn heed_refusals(&mut self) -> io::Result<()> {
        self.0.heed_refusals()
    }
    fn refused(&mut self) -> Vec<SocketAddr> {
        self.1.refused()
    }
    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
    fn stats(&self) -> SocketStats {
        self.0.stats()
    }
}

fn remote() -> SocketAddr {
    ([127, 0, 0, 1], 6511).into()
}

/// A net with one socket that may send on a separate thread.
fn net(notes: Notes) -> (Net, Poller, u32, Arc<Notes>) {
    let (poller, mut net, notes) = (Poller::new().unwrap(), Net::new(), Arc::new(notes));
    net.alarm = Some(Alarm::new(poller.wake()));
    let udp = UdpEncapsulation::new(Bind { addr: ([127, 0, 0, 1], 0).into(), interface: None }).unwrap();
    let socket = net.add(&poller, Box::new(Fake(udp, notes.clone()))).unwrap();
    (net, poller, socket, notes)
}

const NOW: Time = Time::from_millis(1);

fn write(net: &mut Net, socket: u32, number: u8, bytes: usize) {
    let route = Route { socket, local: None, remote: remote() };
    net.batch.reserve(&route, Ecn::NotEct, bytes).fill(number);
    net.flush(NOW);
}

#[test]
fn small_runs_never_overtake_a_backlog() {
    let (mut net, _poller, socket, notes) = net(Notes::default());
    write(&mut net, socket, 1, 100);
    let gate = notes.gate.lock().unwrap();
    write(&mut net, socket, 2, WORTH);
    write(&mut net, socket, 3, 100);
    drop(gate);
    net.finish(NOW);
    write(&mut net, socket, 4, 100);
    assert_eq!(*notes.sent.lock().unwrap(), [(1, false), (2, true), (3, true), (4, false)]);
}

#[test]
fn a_closed_socket_has_sent_everything() {
    let (mut net, _poller, socket, notes) = net(Notes::default());
    (0..10).for_each(|number| write(&mut net, socket, number, WORTH));
    net.remove(socket);
    assert_eq!(notes.sent.lock().unwrap().len(), 10);
    assert_eq!(Arc::strong_count(&notes), 1, "the descriptor is closed");
}

#[test]
fn with_a_capture_the_loop_sends() {
    let (mut net, _poller, socket, notes) = net(Notes::default());
    let file = std::env::temp_dir().join(format!("mpdccp-flush-{}.pcap", std::process::id()));
    net.capture = Some(crate::Capture::create(&file).unwrap());
    write(&mut net, socket, 1, WORTH);
    std::fs::remove_file(file).unwrap();
    assert_eq!(*notes.sent.lock().unwrap(), [(1, false)]);
}

#[test]
fn failures_and_refusals_of_the_thread_wake_the_loop_and_are_reported() {
    for (fails, refuses) in [(true, false), (false, true)] {
        let (mut net, mut poller, socket, _notes) = net(Notes { fails, refuses, ..Notes::default() });
        write(&mut net, socket, 1, WORTH);
        let (mut ready, deadline) = (Vec::new(), Clock.now() + Duration::from_secs(10));
        poller.wait(Clock.now(), Some(deadline), &mut ready).unwrap();
        assert_eq!(ready, [Source::Wake]);
        net.flush(NOW);
        let changes = net.take_changes();
        assert_eq!(
            changes.iter().map(|change| (change.socket, change.up)).collect::<Vec<_>>(),
            match fails {
                true => vec![(socket, false)],
                false => Vec::new(),
            }
        );
        assert_eq!(net.refused, if refuses { vec![(socket, remote())] } else { Vec::new() });
    }
}
