use crate::tape::Tape;
use dccp_streams::{Config, Event, Reason, Role, StreamId, Streams};
use units::{Duration, Time};

/// Bounds a story.
const STEPS: usize = 400;
const MTU: usize = 1_200;

/// Two ends of the stream layer, their applications, and a forger who changes, repeats and makes up packets.
pub fn streams(bytes: &[u8]) {
    let tape = &mut Tape::new(bytes);
    let config = Config { receive_memory: 1 << 20, send_memory: 1 << 20, half_open: 20, ..Config::default() };
    let mut ends = [Role::Client, Role::Server].map(|role| Streams::new(role, config));
    let mut now = Time::from_millis(1);
    let mut sent: Vec<(usize, Vec<u8>)> = Vec::new();
    let (mut buf, mut forged) = ([0; MTU], false);
    for _ in 0..STEPS {
        if tape.is_done() {
            break;
        }
        let end = tape.below(2);
        let id = StreamId(tape.below(8) as u64);
        let streams = &mut ends[end];
        // Every call may fail; none may do more than that.
        match tape.below(16) {
            0 => drop(streams.open(&tape.bytes(20), tape.byte())),
            1 | 2 => drop(streams.write(id, &vec![tape.byte(); 200 * tape.below(256)])),
            3 => drop(streams.finish(id)),
            4 => drop(streams.accept(id, &tape.bytes(20))),
            5 => drop(streams.reset(id, Reason::Application(7))),
            6 => drop(streams.stop(id, Reason::Icmp4(3, tape.byte()))),
            7 => drop(streams.read(id, &mut [0; 3_000])),
            8 => streams.on_path_down(tape.below(3) as u32),
            9 => {
                let packet = [&[0x20 | tape.byte() & 3][..], &tape.bytes(40)].concat();
                streams.handle_packet(now, &packet);
                forged = true;
            }
            10 => {
                // An old packet again, perhaps with a byte changed.
                let at = tape.below(sent.len());
                let Some((to, packet)) = sent.get_mut(at) else { continue };
                if tape.one_in(2) {
                    let at = tape.below(packet.len());
                    packet[at] = tape.byte();
                    forged = true;
                }
                ends[*to].handle_packet(now, packet);
            }
            11 => {
                now += Duration::from_millis(tape.pick(&[1, 10, 100, 3_000]));
                ends.iter_mut().for_each(|end| end.handle_timeout(now));
            }
            _ => {
                for _ in 0..=tape.below(20) {
                    let path = tape.below(3) as u32;
                    let Some(len) = ends[end].poll_transmit(now, path, None, &mut buf) else { break };
                    if !tape.one_in(5) {
                        ends[1 - end].handle_packet(now, &buf[..len]);
                    }
                    sent.push((1 - end, buf[..len].to_vec()));
                }
                sent.drain(..sent.len().saturating_sub(50));
            }
        }
        for end in &mut ends {
            while let Some(event) = end.poll_event() {
                if let Event::Opened(id) = event {
                    assert!(end.header(id).is_some(), "nothing is told of a stream that has no header");
                }
            }
        }
    }
    // Left alone, two honest ends come to rest.
    for _ in 0..10_000 {
        let timers = ends.iter().filter_map(Streams::poll_timeout).min();
        if timers.is_none() && !ends.iter().any(|end| end.has_packet(now)) {
            return;
        }
        now = now.max(timers.unwrap_or(now)) + Duration::from_millis(1);
        for end in [0, 1] {
            ends[end].handle_timeout(now);
            while let Some(len) = ends[end].poll_transmit(now, 0, None, &mut buf) {
                ends[1 - end].handle_packet(now, &buf[..len]);
            }
        }
    }
    assert!(forged, "they do not come to rest");
}
