use crate::packets;
use crate::pair::{CLIENT, Fate, Net, SERVER};
use crate::unstructured::Unstructured;
use dccp_proto::{Config, DropCode, Ecn, Extra};
use dccp_wire::ResetCode;
use mpdccp_units::Duration;

/// Maximum number of steps in a run. No input is long enough for more steps.
const STEPS: usize = 200;

/// Fuzzes two ends of a connection with any CCID. The input decides what the applications, the network and a
/// forger do.
pub fn connection(bytes: &[u8]) {
    let input = &mut Unstructured::new(bytes);
    let mut net = Net::new(config(input), config(input));
    let mut struck = 0;
    for _ in 0..STEPS {
        if input.is_done() {
            break;
        }
        match input.below(16) {
            0..=3 => net.run(Duration::from_millis(input.pick(&[1, 10, 30, 90, 700, 5000]))),
            4 | 5 => {
                let side = input.below(2);
                for _ in 0..=input.below(30) {
                    net.send(side, &vec![1; 1 + input.below(256) * 5]);
                }
            }
            6..=10 => {
                let from = input.below(2);
                let Some(last) = net.log.iter().rfind(|sent| sent.from == from) else { continue };
                let bytes = packets::packet(input, &last.packet().header);
                net.inject(1 - from, &bytes, Ecn::from_bits(input.byte()));
                struck += 1;
            }
            11 => {
                let (to, bytes) = (input.below(2), input.bytes(80));
                net.inject(to, &bytes, Ecn::NotEct);
                struck += 1;
            }
            12 | 13 => {
                let fates = input.bytes(12);
                let mut at = 0;
                net.network = Box::new(move |_| {
                    at += 1;
                    fate(fates.get(at).copied().unwrap_or(0))
                });
            }
            _ => command(input, &mut net),
        }
        net.pump();
        // Keep only the newest packets, because older ones are not used, and a growing log would count as
        // memory of the connections.
        net.log.drain(..net.log.len().saturating_sub(100));
        for end in net.ends.iter().flatten() {
            end.poll_timeout();
            end.max_payload(0);
        }
    }
    // In every state, an idle connection sends few packets. If a forger has desynchronised the ends, they
    // send a few useless MTU probes per second.
    let waiting: usize = net.to_send.iter().map(|queue| queue.len()).sum();
    let mut after = 0;
    for _ in 0..70 {
        net.log.clear();
        net.run(Duration::from_secs(10));
        after += net.log.len();
    }
    assert!(
        after <= 8000 + 4 * struck + 8 * waiting,
        "an idle connection sent {after} packets after {struck} forged ones"
    );
}

fn config(input: &mut Unstructured<'_>) -> Config {
    let known: Vec<u8> = mpdccp_proto::Ccid::known().collect();
    let flags = input.byte();
    let flag = |bit: u8| flags >> bit & 1 == 1;
    Config {
        tx_ccids: vec![input.pick(&known), 2],
        rx_ccids: known,
        multipath: flag(0),
        ack_on_open: flag(1),
        ndp_count: flag(2),
        allow_short_seqnos: flag(3),
        short_seqnos: flag(3),
        check_data_checksum: flag(4),
        early_data: flag(5),
        probe_mtu: flag(6),
        ecn: !flag(7),
        min_coverage: input.byte() & 1,
        coverage: input.byte() & 3,
        take_corrupt: flag(2),
        ..Config::default()
    }
}

fn fate(byte: u8) -> Fate {
    match byte % 8 {
        0..=2 => Fate::Deliver,
        3 => Fate::Drop,
        4 => Fate::Late(Duration::from_millis(u64::from(byte))),
        5 => Fate::Twice,
        6 => Fate::Mark,
        _ => Fate::Bleach,
    }
}

/// Performs an action of an application.
fn command(input: &mut Unstructured<'_>, net: &mut Net) {
    let (side, now) = (input.below(2), net.now);
    let seq =
        if net.log.is_empty() { Default::default() } else { net.log[net.log.len() - 1].packet().header.seq };
    let Some(end) = [CLIENT, SERVER].get(side).and_then(|side| net.ends[*side].as_mut()) else { return };
    match input.below(16) {
        0 | 1 => drop(end.set_ccid(input.byte())),
        2 => drop(end.set_ccid(input.pick(&[2, 3, 4, 5, 7]))),
        3 => end.on_path_change(now),
        4 => end
            .report_dropped(input.near(seq), input.pick(&[DropCode::NotListening, DropCode::ReceiveBuffer])),
        5 => end.set_slow_receiver(input.one_in(2)),
        6 => end.set_mtu(now, input.number() as u16),
        7 => end.probe(),
        8 => end.send_options(&packets::options(input)),
        9 => end.set_extra(input.pick(&[Extra::Request, Extra::Response, Extra::Close]), &[1]),
        10 => end.set_early_data(&input.bytes(200)),
        11 => end.note_blocked(now, true),
        12 => end.set_app_limited(now),
        13 => end.hold_probe_rtt(input.one_in(2)),
        14 => end.close(now, input.one_in(2)),
        _ => end.abort_with(ResetCode::from_number(input.byte()), "why"),
    }
}
