//! A thread that opens received records.

use crate::Received;
use crate::secure::{OpenedRecord, Opening};
use crate::worker::{Alarm, Worker};
use dccp_proto::Ecn;
use mpdccp_units::Time;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

/// Maximum number of [`Receipt`]s that wait for the thread; each holds a receive buffer.
pub(crate) const MOST_WAITING: usize = 4;

/// The datagrams of one receive call.
#[derive(Default)]
pub(crate) struct Receipt {
    pub(crate) socket: u32,
    pub(crate) buffer: Vec<u8>,
    pub(crate) datagrams: Vec<Datagram>,
}

/// A received datagram, in the buffer of its [`Receipt`].
pub(crate) struct Datagram {
    at: Time,
    local: Option<IpAddr>,
    remote: SocketAddr,
    ecn: Ecn,
    ip_len: u32,
    /// Addresses in memory until [`Receipt::exchange`], afterwards the range in the buffer.
    bytes: Range<usize>,
    pub(crate) record: Record,
}

/// State of a datagram's record.
pub(crate) enum Record {
    /// Not opened, or no record.
    Sealed,
    /// The thread opens the record.
    Opening(Opening),
    Opened(OpenedRecord),
}

impl Receipt {
    /// Adds a packet of the socket's receive buffer.
    pub(crate) fn add(&mut self, packet: Received<'_>) {
        let Received { at, local, remote, ecn, ip_len, bytes } = packet;
        let start = bytes.as_ptr().addr();
        let bytes = start..start + bytes.len();
        self.datagrams.push(Datagram { at, local, remote, ecn, ip_len, bytes, record: Record::Sealed });
    }

    /// Exchanges its buffer for `buffer`, which contains the added packets.
    pub(crate) fn exchange(&mut self, buffer: &mut Vec<u8>) {
        self.buffer.resize(buffer.len(), 0);
        std::mem::swap(&mut self.buffer, buffer);
        let base = self.buffer.as_ptr().addr();
        for Datagram { bytes, .. } in &mut self.datagrams {
            *bytes = bytes.start - base..bytes.end - base;
        }
    }

    /// Total bytes of the datagrams.
    pub(crate) fn len(&self) -> usize {
        self.datagrams.iter().map(|datagram| datagram.bytes.len()).sum()
    }

    /// Asks `prepare` how to open each datagram.
    pub(crate) fn prepare(&mut self, mut prepare: impl FnMut(&[u8]) -> Option<Opening>) {
        for datagram in &mut self.datagrams {
            if let Some(opening) = prepare(&self.buffer[datagram.bytes.clone()]) {
                datagram.record = Record::Opening(opening);
            }
        }
    }

    fn open(&mut self) {
        for Datagram { bytes, record, .. } in &mut self.datagrams {
            *record = match std::mem::replace(record, Record::Sealed) {
                Record::Opening(opening) => Record::Opened(opening.open(&mut self.buffer[bytes.clone()])),
                other => other,
            };
        }
    }

    /// Removes the datagrams, and passes each to `handle`.
    pub(crate) fn drain(&mut self, mut handle: impl FnMut(Received<'_>, Option<OpenedRecord>)) {
        let Receipt { buffer, datagrams, .. } = self;
        for Datagram { at, local, remote, ecn, ip_len, bytes, record } in datagrams.drain(..) {
            let opened = match record {
                Record::Opened(opened) => Some(opened),
                Record::Sealed | Record::Opening(_) => None,
            };
            handle(Received { at, local, remote, ecn, ip_len, bytes: &mut buffer[bytes] }, opened);
        }
    }
}

/// Starts the thread.
pub(crate) fn start(alarm: Alarm) -> io::Result<Worker<Receipt>> {
    Worker::start("open", MOST_WAITING, alarm, |receipt: &mut Receipt| {
        receipt.open();
        true
    })
}
