//! One bulk stream through both ends in memory, compared with copying the same bytes: `cargo bench -p
//! dccp-streams`.

use dccp_streams::{Config, Role, StreamId, Streams};
use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use mpdccp_units::{Duration, Time};

/// Bytes written per iteration.
const BLOCK: usize = 64 << 10;
const MTU: usize = 1_400;

fn main() {
    divan::main();
}

struct Pair {
    now: Time,
    ends: [Streams; 2],
    id: StreamId,
    block: Vec<u8>,
    out: Vec<u8>,
    packet: [u8; MTU],
}

impl Pair {
    fn new() -> Pair {
        let mut ends = [Role::Client, Role::Server].map(|role| Streams::new(role, Config::default()));
        let id = ends[0].open(b"", 0).expect("the peer allows a first stream");
        let (block, out) = (vec![7; BLOCK], vec![0; BLOCK]);
        let mut pair = Pair { now: Time::from_millis(1), ends, id, block, out, packet: [0; MTU] };
        pair.carry();
        pair.ends[1].accept(id, b"").expect("the stream's header has arrived");
        pair.carry();
        pair
    }

    /// Delivers the packets of both ends at once.
    fn carry(&mut self) {
        self.now += Duration::from_micros(500);
        for from in [0, 1] {
            while let Some(len) = self.ends[from].poll_transmit(self.now, 0, 0, None, 0, &mut self.packet) {
                self.ends[1 - from].handle_packet(self.now, &self.packet[..len]);
            }
        }
    }

    fn turn(&mut self) {
        let written = self.ends[0].write(self.id, &self.block).expect("there is room");
        self.carry();
        let mut read = 0;
        while read < written {
            let len = self.ends[1].read(self.id, &mut self.out).expect("the data has arrived");
            read += len;
        }
        self.carry();
    }
}

/// One stream: its bytes are written, packed, received and read, so they are copied four times.
#[divan::bench]
fn stream(bencher: Bencher<'_, '_>) {
    let mut pair = Pair::new();
    bencher.counter(BytesCount::new(BLOCK)).bench_local(|| pair.turn());
}

/// For comparison: the same bytes copied four times.
#[divan::bench]
fn four_copies(bencher: Bencher<'_, '_>) {
    let (mut from, mut to) = (vec![7u8; BLOCK], vec![0u8; BLOCK]);
    bencher.counter(BytesCount::new(BLOCK)).bench_local(|| {
        for _ in 0..4 {
            to.copy_from_slice(black_box(&from));
            core::mem::swap(&mut from, &mut to);
        }
    });
}
