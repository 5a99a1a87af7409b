use crate::unstructured::Unstructured;
use dccp_streams::{Config, Event, Reason, Role, StreamId, Streams};
use mpdccp_units::{Duration, Time};

/// Maximum number of steps in a run.
const STEPS: usize = 400;
const MTU: usize = 1_200;

/// Fuzzes two ends of the stream layer. The input decides what the applications do, and which packets a
/// forger changes, repeats and invents.
pub fn streams(bytes: &[u8]) {
    let input = &mut Unstructured::new(bytes);
    let config = Config { receive_memory: 1 << 20, send_memory: 1 << 20, half_open: 20, ..Config::default() };
    let mut ends = [Role::Client, Role::Server].map(|role| Streams::new(role, config));
    let mut now = Time::from_millis(1);
    let mut sent: Vec<(usize, Vec<u8>)> = Vec::new();
    let (mut buf, mut forged) = ([0; MTU], false);
    for _ in 0..STEPS {
        if input.is_done() {
            break;
        }
        let end = input.below(2);
        let id = StreamId(input.below(8) as u64);
        let streams = &mut ends[end];
        // Every call may return an error, but none may panic.
        match input.below(16) {
            0 => drop(streams.open(&input.bytes(20), input.byte())),
            1 | 2 => drop(streams.write(id, &vec![input.byte(); 200 * input.below(256)])),
            3 => drop(streams.finish(id)),
            4 => drop(streams.accept(id, &input.bytes(20))),
            5 => drop(streams.reset(id, Reason::Application(7))),
            6 => drop(streams.stop(id, Reason::Icmp4(3, input.byte()))),
            7 => drop(streams.read(id, &mut [0; 3_000])),
            8 if input.one_in(2) => streams.on_path_down(input.below(3) as u32),
            8 => drop(streams.classify(id, input.below(3) as u8, input.byte())),
            9 => {
                let packet = [&[0x20 | input.byte() & 3][..], &input.bytes(40)].concat();
                streams.handle_packet(now, &packet);
                forged = true;
            }
            10 => {
                // The forger repeats an earlier packet, sometimes with one byte changed.
                let at = input.below(sent.len());
                let Some((to, packet)) = sent.get_mut(at) else { continue };
                if input.one_in(2) {
                    let at = input.below(packet.len());
                    packet[at] = input.byte();
                    forged = true;
                }
                ends[*to].handle_packet(now, packet);
            }
            11 => {
                now += Duration::from_millis(input.pick(&[1, 10, 100, 3_000]));
                ends.iter_mut().for_each(|end| end.handle_timeout(now));
            }
            _ => {
                for _ in 0..=input.below(20) {
                    let (class, path) = (input.below(3) as u8, input.below(3) as u32);
                    // The other paths have a longer delay than path 0, so only streams with a long current
                    // burst may use them.
                    let head_start = u64::from(path) * 20_000;
                    let Some(len) = ends[end].poll_transmit(now, class, path, None, head_start, &mut buf)
                    else {
                        break;
                    };
                    if !input.one_in(5) {
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
                    assert!(end.header(id).is_some(), "an event reports a stream without a header");
                }
            }
        }
    }
    // Without further input, two honest ends become idle. After a forged packet, an end may retransmit
    // forever, but at growing intervals.
    for _ in 0..if forged { 100 } else { 10_000 } {
        let timers = ends.iter().filter_map(Streams::poll_timeout).min();
        if timers.is_none() && !ends.iter().any(|end| (0..3).any(|class| end.has_packet(now, class))) {
            return;
        }
        now = now.max(timers.unwrap_or(now)) + Duration::from_millis(1);
        for end in [0, 1] {
            ends[end].handle_timeout(now);
            while let Some(len) =
                (0..3).find_map(|class| ends[end].poll_transmit(now, class, 0, None, 0, &mut buf))
            {
                ends[1 - end].handle_packet(now, &buf[..len]);
            }
        }
    }
    assert!(forged, "two honest ends do not become idle");
}
