//! Tests a connection that arrives when the process has no free descriptor. This test is a separate program,
//! because the descriptor limit applies to the whole process.

use etherparse::PacketBuilder;
use mpdccp_proxy::{Command, Event, Flow, Segment, Sockets};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Longer than any step of the test takes.
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn a_connection_is_accepted_once_there_is_a_descriptor_though_no_other_comes() {
    let (tell, told) = channel();
    let (tell_packet, packets) = channel();
    let (ready, handle) = channel();
    let thread = std::thread::spawn(move || {
        let on_events = move |events: Vec<Event>| events.into_iter().for_each(|event| drop(tell.send(event)));
        let on_packet = move |packet: &[u8]| drop(tell_packet.send(packet[10..].to_vec()));
        match Sockets::enter(1_400, on_events, on_packet) {
            Ok((sockets, handle)) => {
                ready.send(handle).unwrap();
                sockets.run().unwrap();
            }
            Err(e) => println!("SKIPPED no network namespace with a TUN device: {e}"),
        }
    });
    let Ok(handle) = handle.recv() else { return };
    let builder = || PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
    let mut syn = Vec::new();
    builder().tcp(1_000, 80, 7, 1_000).syn().write(&mut syn, &[]).unwrap();
    let tuple = Segment::parse(&syn).unwrap().tuple;
    handle.send([Command::Accept { flow: Flow(1), tuple, syn }]);
    let answer = std::iter::repeat_with(|| packets.recv_timeout(PATIENCE).unwrap());
    let answer = answer.filter_map(|packet| Segment::parse(&packet)).next().unwrap();
    // The listener exists now. From here on, the process cannot open a descriptor.
    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(3), ..before }).unwrap();
    let mut ack = Vec::new();
    let tcp = builder().tcp(1_000, 80, 8, 1_000).ack(answer.seq.wrapping_add(1));
    tcp.write(&mut ack, &[]).unwrap();
    rustix::io::write(handle.tun(), &[&[0; 10][..], &ack].concat()).unwrap();
    let early = told.recv_timeout(Duration::from_millis(300));
    setrlimit(Resource::Nofile, before).unwrap();
    assert!(early.is_err(), "{early:?}");
    assert_eq!(told.recv_timeout(PATIENCE), Ok(Event::Connected(Flow(1))));
    handle.send([Command::Stop]);
    thread.join().unwrap();
}
