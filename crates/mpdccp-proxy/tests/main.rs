//! Tests TCP between two hosts through a pair of proxies, which the hosts must not notice.

mod lone;
mod pair;

use lone::{FIRST, Lone, PATIENCE};
use mpdccp_proxy::{Command as Told, Event, Flow, Segment};
use pair::Pair;
use socket2::SockRef;
use std::collections::HashSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

fn listen(pair: &Pair, host: usize, at: &'static str) -> TcpListener {
    pair.hosts[host].run(move || TcpListener::bind(at).unwrap())
}

fn connect(pair: &Pair, host: usize, to: &'static str) -> std::io::Result<TcpStream> {
    pair.hosts[host].run(move || {
        let stream = TcpStream::connect_timeout(&to.parse().unwrap(), PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(stream)
    })
}

fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    let (stream, from) = listener.accept().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    (stream, from)
}

/// Returns the two ends of a connection from the first host to the second.
fn joined(pair: &Pair) -> (TcpStream, TcpStream) {
    let listener = listen(pair, 1, "10.9.0.2:80");
    let near = connect(pair, 0, "10.9.0.2:80").unwrap();
    (near, accept(&listener).0)
}

/// Returns bytes in a pattern that reveals whether data was lost or moved.
fn pattern(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect()
}

#[test]
fn both_hosts_see_the_true_addresses_in_both_directions_and_versions() {
    let Some(pair) = Pair::new(|_| true) else { return };
    for (from, to) in [("10.9.0.1", "10.9.0.2:80"), ("fd09::1", "[fd09::2]:80")] {
        let listener = listen(&pair, 1, to);
        let mut near = connect(&pair, 0, to).unwrap();
        let (mut far, seen) = accept(&listener);
        assert_eq!(
            (near.local_addr().unwrap(), near.peer_addr().unwrap()),
            (seen, far.local_addr().unwrap())
        );
        assert_eq!(seen.ip().to_string(), from);
        // The server sends first.
        far.write_all(b"hello").unwrap();
        let mut heard = [0; 5];
        near.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"hello");
    }
    assert_eq!(pair.segments(), 0, "no segment may travel as a packet");
    let listener = listen(&pair, 0, "10.9.0.1:81");
    connect(&pair, 1, "10.9.0.1:81").unwrap();
    assert_eq!(accept(&listener).1.ip().to_string(), "10.9.0.2");
}

#[test]
fn every_byte_arrives_once_and_in_order_and_each_direction_ends_by_itself() {
    let Some(pair) = Pair::new(|_| true) else { return };
    let (mut near, mut far) = joined(&pair);
    let data = pattern(20_000_000);
    let sent = data.clone();
    let sender = std::thread::spawn(move || {
        near.write_all(&sent).unwrap();
        near.shutdown(Shutdown::Write).unwrap();
        // The other direction of the connection is still open.
        let mut answer = Vec::new();
        near.read_to_end(&mut answer).unwrap();
        answer
    });
    let mut got = Vec::new();
    far.read_to_end(&mut got).unwrap();
    assert!(got == data);
    far.write_all(b"thanks").unwrap();
    drop(far);
    assert_eq!(sender.join().unwrap(), b"thanks");
}

#[test]
fn a_closed_port_refuses_and_a_host_that_is_not_there_does_not() {
    let Some(pair) = Pair::new(|_| true) else { return };
    assert_eq!(connect(&pair, 0, "10.9.0.2:9").unwrap_err().kind(), ErrorKind::ConnectionRefused);
    assert_eq!(connect(&pair, 0, "[fd09::2]:9").unwrap_err().kind(), ErrorKind::ConnectionRefused);
    let silent = pair.hosts[0]
        .run(|| TcpStream::connect_timeout(&"10.9.0.77:80".parse().unwrap(), Duration::from_secs(2)));
    assert!(matches!(silent.unwrap_err().kind(), ErrorKind::TimedOut | ErrorKind::HostUnreachable));
    assert_eq!(pair.flows(), [0, 0]);
}

#[test]
fn a_reset_stays_a_reset_from_either_side() {
    let Some(pair) = Pair::new(|_| true) else { return };
    // Listen only once, because another test may be starting a child process, which holds a copy of a closed
    // listener until it calls exec.
    let listener = listen(&pair, 1, "10.9.0.2:80");
    for reverse in [false, true] {
        let near = connect(&pair, 0, "10.9.0.2:80").unwrap();
        let (far, _) = accept(&listener);
        let (resets, mut hears) = if reverse { (far, near) } else { (near, far) };
        SockRef::from(&resets).set_linger(Some(Duration::ZERO)).unwrap();
        drop(resets);
        assert_eq!(hears.read_exact(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    }
}

#[test]
fn a_reader_that_stops_stops_the_writer_and_nothing_is_lost() {
    let Some(pair) = Pair::new(|_| true) else { return };
    let (mut near, mut far) = joined(&pair);
    near.set_write_timeout(Some(Duration::from_millis(700))).unwrap();
    let chunk = pattern(100_000);
    let mut written = 0;
    // The far host is not reading, so a write blocks at some point.
    let stalled = loop {
        match near.write(&chunk[written % chunk.len()..]) {
            Ok(n) => written += n,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => break e.kind(),
        }
        assert!(written < 100_000_000, "the amount of buffered data must be limited");
    };
    assert!(matches!(stalled, ErrorKind::WouldBlock | ErrorKind::TimedOut));
    near.shutdown(Shutdown::Write).unwrap();
    let mut got = Vec::new();
    far.read_to_end(&mut got).unwrap();
    assert_eq!(got.len(), written);
    assert!(got.chunks(chunk.len()).all(|part| part == &chunk[..part.len()]));
}

#[test]
fn a_keepalive_asks_the_far_host_and_not_the_proxy() {
    let Some(pair) = Pair::new(|_| true) else { return };
    let (mut near, mut far) = joined(&pair);
    let second = Duration::from_secs(1);
    let keepalive = socket2::TcpKeepalive::new().with_time(second).with_interval(second).with_retries(2);
    socket2::SockRef::from(&near).set_tcp_keepalive(&keepalive).unwrap();
    // By now, the connection would be dead if nothing had answered its keepalives.
    near.set_read_timeout(Some(5 * second)).unwrap();
    assert_eq!(hear(&mut near), ErrorKind::WouldBlock);
    far.write_all(b"x").unwrap();
    near.read_exact(&mut [0]).unwrap();
    // The far host disappears without a FIN or RST.
    pair.hosts[1].run(|| {
        assert!(Command::new("ip").args(["link", "set", "tun0", "down"]).status().unwrap().success())
    });
    near.set_read_timeout(Some(60 * second)).unwrap();
    assert_eq!(hear(&mut near), ErrorKind::TimedOut);
}

/// Reads until an error occurs, and returns the error.
fn hear(stream: &mut TcpStream) -> ErrorKind {
    loop {
        match stream.read(&mut [0]).unwrap_err().kind() {
            // A child process of another test has ended, and its signal has interrupted the read.
            ErrorKind::Interrupted => {}
            kind => return kind,
        }
    }
}

/// The far host resets its connection before the near host has completed its handshake. When the near host
/// does complete the handshake, the proxy must end the connection with RST, not FIN.
#[test]
fn a_handshake_that_completes_too_late_is_reset_and_not_finished() {
    let Some(end) = Lone::new() else { return };
    let next = end.syn(Flow(1), 1_000);
    end.handle.send([Told::Reset(Flow(1))]);
    // The namespace's kernel has the ACK only after the proxy has handled the reset.
    end.open(Flow(2), 1_001);
    end.host(1_000, FIRST, &[], |tcp| tcp.ack(next));
    let of_it = |segment: &Segment| segment.tuple.to.port() == 1_000 && segment.seq == next;
    assert!(end.find(of_it).resets);
    end.stop();
}

/// The host has sent FIN and reads slowly. Until it has acknowledged everything, its segments belong to the
/// namespace, so the flow must not end.
#[test]
fn a_flow_ends_once_the_host_has_acknowledged_all_data() {
    let Some(end) = Lone::new() else { return };
    let flow = Flow(1);
    let next = end.open(flow, 1_000);
    end.handle.send([Told::Credit(flow, 1), Told::Data(flow, vec![7; 100]), Told::Finish(flow)]);
    end.find(|segment| segment.finishes);
    end.host(1_000, FIRST, &[], |tcp| tcp.fin().ack(next));
    let batches = std::iter::repeat_with(|| end.events.recv_timeout(PATIENCE).unwrap());
    let batch = batches.into_iter().find(|batch| batch.contains(&Event::Finished(flow))).unwrap();
    assert_eq!(batch.last(), Some(&Event::Finished(flow)), "the flow ended with unacknowledged data");
    end.host(1_000, FIRST + 1, &[], |tcp| tcp.ack(next.wrapping_add(101)));
    assert_eq!(end.events.recv_timeout(PATIENCE).unwrap(), [Event::Ended(flow)]);
    end.stop();
}

/// A server that answers and closes while its client is still sending resets the connection.
#[test]
fn what_a_host_sent_before_its_reset_is_read_first() {
    let Some(end) = Lone::new() else { return };
    for (port, finishes) in [(1_000, false), (1_001, true)] {
        let flow = Flow(port.into());
        let next = end.open(flow, port);
        end.host(port, FIRST, b"answer", |tcp| if finishes { tcp.ack(next).fin() } else { tcp.ack(next) });
        end.host(port, FIRST + 6 + u32::from(finishes), &[], |tcp| tcp.rst());
        // The data for the host fails to be written, which must not hide the host's data.
        end.handle.send([Told::Data(flow, vec![7; 100]), Told::Credit(flow, 6)]);
        let mut events = Vec::new();
        while events.last() != Some(&Event::Reset(flow)) {
            events.extend(end.events.recv_timeout(PATIENCE).unwrap());
        }
        events.retain(|event| !matches!(event, Event::Consumed(..)));
        let mut wanted = vec![Event::Data(flow, b"answer".to_vec())];
        wanted.extend(finishes.then_some(Event::Finished(flow)));
        wanted.push(Event::Reset(flow));
        assert_eq!(events, wanted);
    }
    end.stop();
}

#[test]
fn a_host_gets_what_was_sent_before_the_reset() {
    let Some(end) = Lone::new() else { return };
    let flow = Flow(1);
    let next = end.open(flow, 1_000);
    end.handle.send([Told::Data(flow, vec![7; 100]), Told::Reset(flow)]);
    let of_it = |segment: &Segment| segment.length > 0 || segment.resets;
    let segments = [end.find(of_it), end.find(of_it)].map(|segment| (segment.seq, segment.resets));
    assert_eq!(segments, [(next, false), (next.wrapping_add(100), true)]);
    end.stop();
}

#[test]
fn urgent_bytes_stay_in_the_data() {
    let Some(end) = Lone::new() else { return };
    let flow = Flow(1);
    let next = end.open(flow, 1_000);
    end.handle.send([Told::Credit(flow, 10)]);
    end.host(1_000, FIRST, b"abc", |tcp| tcp.ack(next).urg(2));
    let mut data = Vec::new();
    while data.len() < 3 {
        for event in end.events.recv_timeout(PATIENCE).unwrap() {
            let Event::Data(_, bytes) = event else { panic!("{event:?}") };
            data.extend(bytes);
        }
    }
    assert_eq!(data, b"abc");
    end.stop();
}

/// The test resets more connections than the device's queue has room for RST segments.
#[test]
fn every_host_gets_its_reset_when_many_connections_are_reset_at_once() {
    for stop in [false, true] {
        let Some(end) = Lone::new() else { return };
        let flows: Vec<(Flow, u16)> = (1..=1_500).map(|n| (Flow(n.into()), n)).collect();
        for (flow, port) in &flows {
            end.open(*flow, *port);
        }
        match stop {
            false => end.handle.send(flows.iter().map(|(flow, _)| Told::Reset(*flow))),
            true => end.handle.send([Told::Stop]),
        };
        let reset: HashSet<_> =
            flows.iter().map(|_| end.find(|segment| segment.resets).tuple.to.port()).collect();
        assert_eq!(reset.len(), flows.len());
        end.stop();
    }
}

fn connect_from_5555() -> std::io::Result<TcpStream> {
    let address = |text: &str| socket2::SockAddr::from(text.parse::<SocketAddr>().unwrap());
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address("10.9.0.1:5555"))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.connect(&address("10.9.0.2:80"))?;
    Ok(socket.into())
}

#[test]
fn the_same_ports_can_be_used_again_at_once() {
    let Some(pair) = Pair::new(|_| true) else { return };
    let listener = listen(&pair, 1, "10.9.0.2:80");
    for _ in 0..3 {
        let mut near = loop {
            match pair.hosts[0].run(connect_from_5555) {
                // The last acknowledgement of the previous connection is still in flight.
                Err(e) if e.kind() == ErrorKind::AddrNotAvailable => std::thread::yield_now(),
                near => break near.unwrap(),
            }
        };
        let (mut far, from) = accept(&listener);
        assert_eq!(from, "10.9.0.1:5555".parse().unwrap());
        // Close the server's direction first, so that no port of the client is in TIME-WAIT.
        far.shutdown(Shutdown::Write).unwrap();
        assert_eq!(near.read_to_end(&mut Vec::new()).unwrap(), 0);
        drop(near);
        assert_eq!(far.read_to_end(&mut Vec::new()).unwrap(), 0);
    }
}

#[test]
fn hundreds_of_connections_at_once() {
    let Some(pair) = Pair::new(|_| true) else { return };
    let listener = listen(&pair, 1, "10.9.0.2:80");
    let server = std::thread::spawn(move || {
        for _ in 0..300 {
            let (mut stream, _) = accept(&listener);
            std::thread::spawn(move || {
                let mut number = [0; 4];
                stream.read_exact(&mut number).unwrap();
                stream.write_all(&number).unwrap();
            });
        }
    });
    let mut streams: Vec<TcpStream> = (0..300).map(|_| connect(&pair, 0, "10.9.0.2:80").unwrap()).collect();
    for (i, stream) in (0u32..).zip(&mut streams) {
        stream.write_all(&i.to_be_bytes()).unwrap();
    }
    for (i, stream) in (0u32..).zip(&mut streams) {
        let mut number = [0; 4];
        stream.read_exact(&mut number).unwrap();
        assert_eq!(u32::from_be_bytes(number), i);
    }
    server.join().unwrap();
}

#[test]
fn unwanted_flows_travel_as_packets() {
    let Some(pair) = Pair::new(|segment| segment.tuple.to.port() != 80) else { return };
    let (mut near, mut far) = joined(&pair);
    near.write_all(b"x").unwrap();
    far.read_exact(&mut [0]).unwrap();
    assert!(pair.segments() >= 4);
    assert_eq!(pair.flows(), [0, 0]);
}
