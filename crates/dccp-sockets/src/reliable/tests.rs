//! Two ends and a network between them that loses, delays and repeats, in virtual time.

use super::frame::Frame;
use super::receiver::Receiver;
use super::sender::Sender;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const WINDOW: usize = 1 << 14;
const SIZE: usize = 200;

struct Ends {
    now: Instant,
    tx: Sender,
    rx: Receiver,
    flying: BTreeMap<(Instant, usize), Vec<u8>>,
    flown: usize,
    random: u64,
    /// Of 256: lost, late, twice.
    rough: [u8; 3],
}

impl Ends {
    fn random(&mut self) -> u8 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 56) as u8
    }

    fn fly(&mut self, frame: Vec<u8>) {
        let [lost, late, twice] = self.rough;
        if self.random() < lost {
            return;
        }
        let copies = 1 + usize::from(self.random() < twice);
        for _ in 0..copies {
            let more = if self.random() < late { u64::from(self.random()) } else { 0 };
            self.flying.insert((self.now + Duration::from_millis(20 + more), self.flown), frame.clone());
            self.flown += 1;
        }
    }

    fn pump(&mut self) {
        self.tx.on_timeout(self.now);
        while let Some(frame) = self.tx.next(self.now, SIZE) {
            self.fly(frame);
        }
        if self.rx.ack_due().is_some_and(|at| at <= self.now) {
            let ack = self.rx.ack();
            self.fly(ack);
        }
    }

    fn step(&mut self) {
        let flying = self.flying.keys().next().map(|(at, _)| *at);
        let timers = [flying, self.tx.next_timeout(), self.rx.ack_due()];
        let next = timers.into_iter().flatten().min().expect("nothing will ever happen again");
        self.now = self.now.max(next);
        while let Some(first) = self.flying.first_entry().filter(|first| first.key().0 <= self.now) {
            let frame = first.remove();
            match Frame::decode(&frame).unwrap() {
                Frame::Data { offset, bytes } => self.rx.on_data(self.now, offset, bytes),
                Frame::End { length } => self.rx.on_end(self.now, length),
                Frame::Ack(ack) => assert!(self.tx.on_ack(self.now, &ack)),
            }
        }
        self.pump();
    }
}

/// Sends `length` bytes; the reader takes `reads` bytes at a time.
fn transfer(length: usize, rough: [u8; 3], seed: u64, reads: usize) {
    let data: Vec<u8> = (0..length).map(|i| (i.wrapping_mul(0x9e37_79b9) >> 16) as u8).collect();
    let now = Instant::now();
    let mut ends = Ends {
        now,
        tx: Sender::new(WINDOW),
        rx: Receiver::new(WINDOW),
        flying: BTreeMap::new(),
        flown: 0,
        random: seed,
        rough,
    };
    let (mut written, mut read) = (0, Vec::new());
    for steps in 0.. {
        assert!(steps < 1_000_000, "never done: {read} of {length}", read = read.len());
        written += ends.tx.write(&data[written..]);
        if written == length {
            ends.tx.end();
        }
        ends.pump();
        read.extend(ends.rx.read(ends.now, reads));
        if ends.tx.is_done() && ends.rx.is_whole() && ends.rx.ready() == 0 {
            break;
        }
        if !ends.tx.is_done() {
            ends.step();
        }
    }
    assert!(read == data);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn everything_arrives(length in 0usize..60_000, rough in [0u8..120, 0u8..100, 0u8..60], seed: u64, reads in 50usize..5000) {
        transfer(length, rough, seed, reads);
    }

    #[test]
    fn no_datagram_does_harm(frames in proptest::collection::vec((0u8..5, any::<u64>(), any::<Vec<u8>>(), 0u64..5000), 0..200)) {
        let now = Instant::now();
        let (mut tx, mut rx) = (Sender::new(WINDOW), Receiver::new(WINDOW));
        tx.write(&[1; 4000]);
        tx.end();
        for (kind, number, bytes, small) in frames {
            let number = if number % 3 == 0 { number } else { small };
            let datagram = [&[kind][..], &number.to_be_bytes(), &bytes].concat();
            match Frame::decode(&datagram) {
                Some(Frame::Data { offset, bytes }) => rx.on_data(now, offset, bytes),
                Some(Frame::End { length }) => rx.on_end(now, length),
                Some(Frame::Ack(ack)) => { tx.on_ack(now, &ack); }
                None => {}
            }
            while tx.next(now, SIZE).is_some() {}
            rx.ack();
        }
    }
}

#[test]
fn a_clean_network_needs_nothing_twice() {
    let now = Instant::now();
    let (mut tx, mut rx) = (Sender::new(WINDOW), Receiver::new(WINDOW));
    assert_eq!(tx.write(&[5; WINDOW + 1]), WINDOW);
    tx.end();
    let mut frames = Vec::new();
    while let Some(frame) = tx.next(now, SIZE) {
        frames.push(frame);
    }
    assert_eq!(frames.len(), WINDOW.div_ceil(SIZE - super::frame::DATA_HEADER) + 1);
    for frame in &frames {
        match Frame::decode(frame).unwrap() {
            Frame::Data { offset, bytes } => rx.on_data(now, offset, bytes),
            Frame::End { length } => rx.on_end(now, length),
            Frame::Ack(_) => unreachable!(),
        }
    }
    let Some(Frame::Ack(ack)) = Frame::decode(&rx.ack()).map(|frame| match frame {
        Frame::Ack(ack) => Frame::Ack(ack),
        _ => unreachable!(),
    }) else {
        unreachable!()
    };
    assert!(tx.on_ack(now + Duration::from_millis(1), &ack));
    assert!(tx.is_done() && tx.next(now, SIZE).is_none() && tx.resent == 0);
}

#[test]
fn memory_is_bounded_however_small_the_pieces() {
    let now = Instant::now();
    let mut rx = Receiver::new(1 << 20);
    for offset in 0..(1 << 19) {
        rx.on_data(now, 1 + 2 * offset, &[1]);
    }
    assert!(rx.pieces() <= 1 << 15, "{}", rx.pieces());
    rx.on_data(now, 5 << 20, &[0; 100]);
    assert_eq!(rx.ready(), 0, "beyond the room");
}

#[test]
fn what_the_peer_has_to_hear_goes_before_the_end() {
    use super::{State, Step};
    let (mut tx, mut rx) = (Sender::new(WINDOW), Receiver::new(WINDOW));
    tx.end();
    // The peer knows that nothing more comes, and its own data is not acknowledged yet.
    let end = Frame::Ack(super::frame::Ack { next: 1, room: 1 << 14, duplicates: 0, beyond: Vec::new() });
    let Some(Frame::Ack(end)) = Frame::decode(&end.encode()) else { panic!("an Ack") };
    assert!(tx.next(Instant::now(), SIZE).is_some() && tx.on_ack(Instant::now(), &end) && tx.is_done());
    rx.on_data(Instant::now() + Duration::from_secs(60), 0, b"data");
    let mut state = State { tx, rx, message: None, finishing: true, silent: false, over: None };
    assert!(matches!(state.step(SIZE), Some(Step::Send(_))), "though not due for a minute");
    assert_eq!(state.finished(), None, "the connection is not to be closed yet");
    assert!(matches!(state.step(SIZE), Some(Step::Stop)));
    assert_eq!(state.finished(), Some(Ok(())));
}
