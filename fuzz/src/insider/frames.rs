//! Fuzzes the stream layer. The victim uses streams, and the insider sends packets belonging to these
//! streams.

use crate::unstructured::Unstructured;
use dccp_streams::{Reason, StreamId, Streams};

/// The first bytes of this stack's MP_EXP options (docs/rfc9897.md).
pub(super) const MAGIC: [u8; 4] = *b"mpd1";

/// Performs an action of the victim's application on its streams.
pub(super) fn use_streams(input: &mut Unstructured<'_>, streams: &mut Streams) {
    let id = StreamId(input.below(8) as u64);
    match input.below(8) {
        0 | 1 => drop(streams.open(&input.bytes(20), input.byte())),
        2 | 3 => drop(streams.write(id, &vec![input.byte(); 200 * input.below(256)])),
        4 => drop(streams.finish(id)),
        5 => drop(streams.accept(id, &input.bytes(20))),
        6 => drop(streams.reset(id, Reason::Application(7))),
        _ => drop(streams.read(id, &mut [0; 3_000])),
    }
    while streams.poll_event().is_some() {}
}

/// Makes a packet of the stream layer (docs/streams.md) with arbitrary frames.
pub(super) fn stream_packet(input: &mut Unstructured<'_>) -> Vec<u8> {
    let mut out = vec![0x20 | input.byte() & 3];
    if out[0] & 1 == 1 {
        let (path, number) = (input.below(3) as u64, any_size(input));
        varint(&mut out, path);
        varint(&mut out, number);
    }
    for _ in 0..=input.below(6) {
        let kind = input.pick(&[0, 0, 0x10, 0x12, 0x13, 0x12, 1, 2, 3, 4, 5, 6, 0x40, 0x41]);
        out.push(kind);
        let numbers = match kind {
            // The numbers are the path, the largest packet number, the delay, the number of further ranges,
            // and the ranges.
            0 => 5 + 2 * (input.byte() % 4),
            3 | 6 | 0x10..=0x13 => 2,
            _ => 1,
        };
        for n in 0..numbers {
            let value = match (kind, n) {
                // The numbers of streams and paths. They are small, so that the stream or path often exists.
                (1..=3 | 6 | 0x10..=0x13, 0) | (0, 0) => input.below(8) as u64,
                (0, 3) => u64::from((numbers - 5) / 2),
                (0x40 | 0x41, _) => input.below(4) as u64,
                _ => any_size(input),
            };
            varint(&mut out, value);
        }
        match kind {
            1 => {
                out.extend((0..3).map(|_| input.byte() % 12));
                let size = any_size(input);
                varint(&mut out, size);
            }
            2 => out.extend((0..3).map(|_| input.byte() % 12)),
            0x12 | 0x13 => {
                let len = input.below(300);
                varint(&mut out, len as u64);
                out.extend(std::iter::repeat_n(input.byte(), len));
            }
            0x10 => out.extend(input.bytes(60)),
            0x40 | 0x41 => out.extend(input.bytes(2)),
            _ => {}
        }
    }
    out
}

/// Returns a number that is usually small, but sometimes close to a limit of the encoding or of a window.
fn any_size(input: &mut Unstructured<'_>) -> u64 {
    match input.below(8) {
        0..=3 => input.below(16) as u64,
        4 => u64::from(input.number()) >> 8,
        5 => (1 << 20) + input.below(9) as u64 - 4,
        6 => (1 << 62) - 1 - input.below(4) as u64,
        _ => input.long() >> 2,
    }
}

fn varint(out: &mut Vec<u8>, n: u64) {
    let class = match n {
        0..=0x3f => 0,
        0x40..=0x3fff => 1,
        0x4000..=0x3fff_ffff => 2,
        _ => 3,
    };
    let bytes = (n | class << (8 * (1 << class) - 2)).to_be_bytes();
    out.extend(&bytes[8 - (1 << class)..]);
}

/// Returns the data of an MP_EXP option with random capabilities of the insider.
pub(super) fn hello(input: &mut Unstructured<'_>) -> Vec<u8> {
    [&MAGIC[..], &[0, input.byte() | 27, 0]].concat()
}
