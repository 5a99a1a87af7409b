//! Headers, options and Ack Vectors: `cargo bench -p dccp-wire`.

use dccp_wire::ack_vector::{State, cell, runs};
use dccp_wire::{Header, MpOption, Opt, OptionBuf, Packet, PacketType, Seq};
use divan::{Bencher, black_box};

fn main() {
    divan::main();
}

const PAYLOAD: usize = 1_400;

/// The options of a data packet of a multipath session.
fn options() -> OptionBuf {
    let mut options = OptionBuf::new();
    options.push(&Opt::Mp(MpOption::Seq(Seq::new(7))));
    options
}

fn header() -> Header {
    Header {
        src_port: 40_000,
        dst_port: 6_511,
        ccval: 0,
        cscov: 1,
        ptype: PacketType::Data,
        short: false,
        seq: Seq::new(1 << 40),
        ack: None,
        service_code: None,
        reset: None,
    }
}

#[divan::bench]
fn emit_data(bencher: Bencher) {
    let (header, options) = (header(), options());
    let mut packet = vec![0; header.packet_len(options.len(), PAYLOAD)];
    bencher.bench_local(|| black_box(header.emit(black_box(options.as_bytes()), &mut packet).len()));
}

#[divan::bench]
fn parse_data(bencher: Bencher) {
    let (header, options) = (header(), options());
    let mut packet = vec![0; header.packet_len(options.len(), PAYLOAD)];
    header.emit(options.as_bytes(), &mut packet);
    bencher.bench_local(|| Packet::parse(black_box(&packet)).map(|packet| packet.options().count()));
}

/// A full Ack Vector option, in which every other cell is a loss.
#[divan::bench]
fn ack_vector_runs(bencher: Bencher) {
    let cells: Vec<u8> = (0..253)
        .map(|i| cell(if i % 2 == 0 { State::Received } else { State::NotYetReceived }, 1 + i % 64))
        .collect();
    bencher.bench_local(|| runs(black_box(&cells)).map(|(_, packets)| u32::from(packets)).sum::<u32>());
}
