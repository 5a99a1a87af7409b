use crate::ends::{self, Net, PORT, path};
use crate::unstructured::Unstructured;
use crate::{packets, session};
use dccp_proto::Route;
use dccp_wire::{Header, Packet, PacketType, Seq};
use mpdccp_units::Duration;
use std::net::{Ipv4Addr, SocketAddr};

/// Maximum number of steps in a run. No input is long enough for more steps.
const STEPS: usize = 200;

/// Fuzzes a listener with packets from unknown senders: Requests from many addresses with and without
/// cookies, joins, and modified replies. Meanwhile, real clients connect and leave.
pub fn endpoint(bytes: &[u8]) {
    let input = &mut Unstructured::new(bytes);
    let client = session::config(input);
    let mut net = Net::new(2, 1, session::config(input));
    let mut answers: Vec<(Route, Vec<u8>)> = Vec::new();
    for _ in 0..STEPS {
        if input.is_done() {
            break;
        }
        match input.below(16) {
            0..=2 => net.run(Duration::from_millis(input.pick(&[1, 10, 90, 700, 5000, 300_000]))),
            3 => drop(net.client.connect(net.now, client.clone(), path(0))),
            4 => {
                // Send so many Requests that the listener does not store state for them.
                let base = input.number();
                for n in 0..=input.below(100) as u32 {
                    strike(&mut net, &mut answers, stranger(base.wrapping_add(n)), &request(n, input.byte()));
                }
            }
            5..=8 => {
                let last = Header { seq: Seq::new(input.byte().into()), ..header(input.byte()) };
                let route = stranger(input.byte().into());
                let bytes = packets::packet(input, &last);
                strike(&mut net, &mut answers, route, &bytes);
            }
            9..=11 => {
                // Send a reply to one of the listener's answers, from the address that the answer was sent
                // to.
                if answers.is_empty() {
                    continue;
                }
                let (route, bytes) = answers.swap_remove(input.below(answers.len()));
                let Some(reply) = reply(input, &bytes) else { continue };
                strike(&mut net, &mut answers, route, &reply);
            }
            12 | 13 => session::forge(input, &mut net),
            14 => {
                let (route, bytes) = (stranger(input.byte().into()), input.bytes(100));
                strike(&mut net, &mut answers, route, &bytes);
            }
            _ if input.one_in(2) => net.server.unlisten(PORT),
            _ => net.server.listen(ends::listen(client.clone())),
        }
        net.drain();
        net.log.drain(..net.log.len().saturating_sub(500));
        answers.drain(..answers.len().saturating_sub(200));
        assert!(net.server.sessions().len() <= 70, "too many half-open sessions");
    }
    net.run(Duration::from_secs(700));
    net.log.clear();
    net.run(Duration::from_secs(700));
}

fn stranger(n: u32) -> Route {
    // Use a few addresses often, and others occasionally.
    let ip = Ipv4Addr::new(10, 7, 0, if n < 256 { n % 4 } else { n } as u8);
    Route { socket: 0, local: None, remote: SocketAddr::new(ip.into(), 1024 + (n >> 8) as u16 % 1000) }
}

fn header(byte: u8) -> Header {
    let ports = (50_000 + u16::from(byte & 3), if byte & 0x70 == 0x70 { 9 } else { PORT });
    Header { service_code: Some(7), ..Header::new(ports, PacketType::Request, Seq::new(byte.into())) }
}

fn request(n: u32, byte: u8) -> Vec<u8> {
    let header = Header { seq: Seq::new(n.into()), ..header(byte) };
    let mut bytes = vec![0; header.packet_len(0, 0)];
    header.emit(&[], &mut bytes);
    bytes
}

/// Returns a reply to one of the listener's answers. The reply contains the answer's options, including the
/// cookies.
fn reply(input: &mut Unstructured<'_>, answer: &[u8]) -> Option<Vec<u8>> {
    let packet = Packet::parse(answer).ok()?;
    let seq = packet.header.ack?.next();
    let header = Header {
        src_port: packet.header.dst_port,
        dst_port: packet.header.src_port,
        ptype: input.pick(&[PacketType::Ack, PacketType::DataAck, PacketType::Sync, PacketType::Close]),
        seq: if input.one_in(8) { input.near(seq) } else { seq },
        ack: Some(if input.one_in(8) { input.near(packet.header.seq) } else { packet.header.seq }),
        ..packet.header
    };
    let mut options = packet.option_bytes.to_vec();
    if input.one_in(4) && !options.is_empty() {
        let at = input.below(options.len());
        options[at] ^= input.byte();
    }
    options.truncate(dccp_wire::MAX_OPTIONS);
    let mut bytes = vec![0; header.packet_len(options.len(), 0)];
    header.emit(&options, &mut bytes);
    Some(bytes)
}

fn strike(net: &mut Net, answers: &mut Vec<(Route, Vec<u8>)>, route: Route, bytes: &[u8]) {
    answers.extend(net.strike(route, bytes).into_iter().map(|answer| (route, answer)));
}
