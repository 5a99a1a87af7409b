//! Echo requests inside a channel, with which the initiator measures the path. They use DCCP ports 0 and 0,
//! which no connection uses, so ends that do not support echo requests drop them.
//!
//! ```text
//! question: 0-3 zero, 4 kind 1, 5-12 number, 13-14 size of each answer in bytes,
//!           15-16 delay of the answers in steps of 100 ms, 17 number of answers, then anything
//! answer:   0-3 zero, 4 kind 2, 5-12 number, 13-16 number of questions on this channel so far,
//!           17-24 milliseconds since 1970, 25 whether the host forwards IPv4 (1) and IPv6 (2),
//!           26-41 source address and 42-43 source port of the question, then zeros
//! ```

use crate::address::Address;
use crate::channel::ChannelId;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use mpdccp_units::{Duration, Time};
use std::collections::BTreeMap;

/// Length of the shortest request and of the shortest answer, in bytes.
const QUESTION: usize = 18;
const ANSWER: usize = 44;
/// Limits of an answer: size in bytes, and delay in steps of 100 ms.
const LARGEST: u16 = 9_000;
const LONGEST: u16 = 1_200;
/// Limits on the answers to one peer: rate in bytes per second, and burst size.
const PER_SECOND: u64 = 15_000_000;
const BURST: u64 = 4_000_000;
/// Maximum number of answers to one request.
const MOST: u8 = 16;
/// Maximum number of pending answers, over all channels.
const WAITING: usize = 1_024;
/// Number of bytes that the headers add to an answer.
const HEADERS: u64 = 60;

/// Facts about this host, for answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostFacts {
    /// Time since 1970.
    pub unix: Duration,
    /// Time at which `unix` was read.
    pub at: Time,
    /// Whether the host forwards IPv4 packets, and whether it forwards IPv6 packets.
    pub forwards: [bool; 2],
}

/// An echo request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EchoQuestion {
    /// A number that the answers repeat.
    pub number: u64,
    /// Requested size of each answer, bytes.
    pub answer: u16,
    /// Requested number of answers. A request for 0 answers is counted too.
    pub answers: u8,
    /// How long the other end must delay the answer, encoded in steps of 100 ms.
    pub wait: Duration,
}

impl EchoQuestion {
    /// Encodes the request as a packet of `len` bytes, or of more bytes if the shortest answer is larger: the
    /// other end may answer only with as many bytes.
    pub fn write(&self, len: usize) -> Vec<u8> {
        let mut out = vec![0; len.max(ANSWER)];
        let wait = u16::try_from(self.wait.as_millis() / 100).unwrap_or(u16::MAX);
        out[4] = 1;
        out[5..13].copy_from_slice(&self.number.to_be_bytes());
        out[13..15].copy_from_slice(&self.answer.to_be_bytes());
        out[15..17].copy_from_slice(&wait.to_be_bytes());
        out[17] = self.answers;
        out
    }

    fn read(packet: &[u8]) -> Option<EchoQuestion> {
        let rest = packet.strip_prefix(&[0, 0, 0, 0, 1])?;
        let wait = u16::from_be_bytes(*rest.get(10..)?.first_chunk()?).min(LONGEST);
        Some(EchoQuestion {
            number: u64::from_be_bytes(*rest.first_chunk()?),
            answer: u16::from_be_bytes(*rest.get(8..)?.first_chunk()?).min(LARGEST),
            answers: rest.get(12)?.min(&MOST).to_owned(),
            wait: Duration::from_millis(u64::from(wait) * 100),
        })
    }
}

/// An echo answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EchoAnswer {
    /// The number of the request.
    pub number: u64,
    /// Number of requests that have arrived on the channel, including this one.
    pub count: u32,
    /// Time since 1970 according to the other end's clock.
    pub unix: Duration,
    /// Whether the other end forwards IPv4 packets, and whether it forwards IPv6 packets.
    pub forwards: [bool; 2],
    /// Source address of the request, as the other end saw it.
    pub seen: SocketAddr,
}

impl EchoAnswer {
    /// Parses a packet. Returns `None` if the packet is not an answer.
    pub fn read(packet: &[u8]) -> Option<EchoAnswer> {
        let rest = packet.strip_prefix(&[0, 0, 0, 0, 2])?;
        let ip = Ipv6Addr::from(*rest.get(21..)?.first_chunk::<16>()?);
        let port = u16::from_be_bytes(*rest.get(37..)?.first_chunk()?);
        let flags = *rest.get(20)?;
        Some(EchoAnswer {
            number: u64::from_be_bytes(*rest.first_chunk()?),
            count: u32::from_be_bytes(*rest.get(8..)?.first_chunk()?),
            unix: Duration::from_millis(u64::from_be_bytes(*rest.get(12..)?.first_chunk()?)),
            forwards: [flags & 1 > 0, flags & 2 > 0],
            seen: SocketAddr::new(IpAddr::V6(ip).to_canonical(), port),
        })
    }

    fn write(&self, len: usize) -> Vec<u8> {
        let mut out = vec![0; len.max(ANSWER)];
        let ip = match self.seen.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        out[4] = 2;
        out[5..13].copy_from_slice(&self.number.to_be_bytes());
        out[13..17].copy_from_slice(&self.count.to_be_bytes());
        out[17..25].copy_from_slice(&u64::try_from(self.unix.as_millis()).unwrap_or(0).to_be_bytes());
        out[25] = u8::from(self.forwards[0]) | u8::from(self.forwards[1]) << 1;
        out[26..42].copy_from_slice(&ip.octets());
        out[42..44].copy_from_slice(&self.seen.port().to_be_bytes());
        out
    }
}

/// Returns whether a packet is a request.
pub(crate) fn is_question(packet: &[u8]) -> bool {
    packet.starts_with(&[0, 0, 0, 0, 1]) && packet.len() >= QUESTION
}

/// Token bucket for the bytes of the answers to a peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    at: Time,
    bytes: u64,
    /// Number of the peer's pending answers.
    waiting: usize,
}

impl Budget {
    pub(crate) fn new() -> Budget {
        Budget { at: Time::ZERO, bytes: BURST, waiting: 0 }
    }

    /// Records that an answer no longer waits.
    pub(crate) fn sent(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
    }

    fn takes(&mut self, now: Time, bytes: u64) -> bool {
        let earned = now.since(self.at).as_micros() as u64;
        let earned = earned.min(1_000_000) * PER_SECOND / 1_000_000;
        (self.at, self.bytes) = (now, (self.bytes + earned).min(BURST));
        let taken = self.bytes >= bytes;
        self.bytes -= if taken { bytes } else { 0 };
        taken
    }
}

/// A pending answer.
#[derive(Debug)]
pub(crate) struct Due {
    pub(crate) channel: ChannelId,
    pub(crate) peer: u32,
    pub(crate) to: Address,
    pub(crate) packet: Vec<u8>,
}

/// Answers that are delayed.
#[derive(Debug, Default)]
pub(crate) struct Echoes {
    pub(crate) facts: HostFacts,
    waiting: BTreeMap<(Time, u64), Due>,
    put: u64,
}

impl Echoes {
    /// Accepts a request whose answers have at most `most` bytes together. Returns false if the request
    /// exceeds a limit and is dropped.
    pub(crate) fn ask(
        &mut self,
        now: Time,
        (channel, peer, from): (ChannelId, u32, &Address),
        (packet, most): (&[u8], usize),
        count: u32,
        budget: &mut Budget,
    ) -> bool {
        let Some(question) = EchoQuestion::read(packet) else { return false };
        let len = usize::from(question.answer).max(ANSWER);
        let bytes = u64::from(question.answers) * (len as u64 + HEADERS);
        if question.answers == 0 {
            return true;
        }
        let fits = usize::from(question.answers) * len <= most;
        // Answers without delay never wait. They must not be dropped because other peers' answers wait. A
        // peer must not take more places than it leaves free.
        let places = WAITING.saturating_sub(self.waiting.len());
        let full = !question.wait.is_zero() && budget.waiting + usize::from(question.answers) > places;
        if !fits || full || !budget.takes(now, bytes) {
            return false;
        }
        let answer = EchoAnswer {
            number: question.number,
            count,
            unix: self.facts.unix + now.since(self.facts.at),
            forwards: self.facts.forwards,
            seen: from.remote,
        };
        budget.waiting += usize::from(question.answers);
        for _ in 0..question.answers {
            self.put += 1;
            let due = Due { channel, peer, to: *from, packet: answer.write(len) };
            self.waiting.insert((now + question.wait, self.put), due);
        }
        true
    }

    pub(crate) fn next(&self) -> Option<Time> {
        self.waiting.first_key_value().map(|((at, _), _)| *at)
    }

    /// Returns the next answer that is due.
    pub(crate) fn pop(&mut self, now: Time) -> Option<Due> {
        self.waiting.first_entry().filter(|entry| entry.key().0 <= now).map(|entry| entry.remove())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read_as_they_were_written() {
        let question =
            EchoQuestion { number: 77, answer: 1_200, answers: 3, wait: Duration::from_millis(1_500) };
        let packet = question.write(300);
        assert_eq!((packet.len(), is_question(&packet)), (300, true));
        assert_eq!(EchoQuestion::read(&packet), Some(question));
        for seen in [([192, 0, 2, 7], 4).into(), ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], 5).into()] {
            let answer = EchoAnswer {
                number: 77,
                count: 3,
                unix: Duration::from_millis(1_700_000_000_123),
                forwards: [true, false],
                seen,
            };
            assert_eq!(EchoAnswer::read(&answer.write(0)), Some(answer));
            assert_eq!(EchoAnswer::read(&answer.write(0)[..ANSWER - 1]), None);
        }
        assert_eq!((EchoQuestion::read(&[0, 0, 0, 0, 1]), EchoAnswer::read(&[])), (None, None));
    }

    #[test]
    fn a_peer_gets_its_budget_and_no_more() {
        let (mut budget, now) = (Budget::new(), Time::from_millis(10_000));
        let mut taken = 0;
        while budget.takes(now, 1_000) {
            taken += 1_000;
        }
        assert_eq!(taken, BURST);
        assert!(budget.takes(now + Duration::from_millis(1), 1_000));
    }
}
