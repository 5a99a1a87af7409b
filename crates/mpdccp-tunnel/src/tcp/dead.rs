//! Tracks TCP connections that died because one end of the tunnel lost its state. In the next session, the
//! other end sends it a list of these connections on a separate stream (docs/tcp.md). The hosts must be told
//! that their connections died, and segments of these connections must not be carried as packets.

use super::announce;
use super::transfer::{CHUNK, PRIORITY, read};
use crate::Cx;
use dccp_streams::{Event, Reason, StreamError, StreamId, Streams};
use mpdccp_proto::SessionId;
use mpdccp_proxy::Tuple;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Header that opens a stream for a list of dead connections.
pub(super) const LIST: [u8; 1] = [1];

type Key = (SessionId, StreamId);

#[derive(Debug, Default)]
pub(super) struct Dead {
    /// Dead connections that have not been sent to the peer yet, by peer.
    untold: BTreeMap<usize, Vec<Tuple>>,
    /// The part of each list that its stream has not accepted yet.
    leaving: HashMap<Key, Vec<u8>>,
    /// The lists that this end has sent and whose answer from the peer has not ended yet.
    unanswered: HashSet<Key>,
    arriving: HashMap<Key, Arriving>,
    /// The number of connections that each session may still list.
    left: HashMap<SessionId, usize>,
}

/// A list that a peer is sending.
#[derive(Debug)]
struct Arriving {
    peer: usize,
    /// The bytes of an incomplete entry.
    bytes: Vec<u8>,
}

impl Arriving {
    /// Reads the connections that have arrived, and subtracts their number from `left`. Also returns whether
    /// the list is over, because it has ended, is malformed or is too long.
    fn read(&mut self, streams: &mut Streams, stream: StreamId, left: &mut usize) -> (Vec<Tuple>, bool) {
        // Read everything, because no event reports bytes that an earlier call has left unread.
        let (more, ended) = read(streams, stream, usize::MAX);
        self.bytes.extend(more);
        let (mut rest, mut tuples) = (&self.bytes[..], Vec::new());
        let stop = loop {
            match read_entry(rest) {
                Ok(Some(_)) if *left == 0 => break Some(Reason::Limit),
                Ok(Some((tuple, after))) => {
                    tuples.push(tuple);
                    *left -= 1;
                    rest = after;
                }
                Ok(None) => break None,
                Err(()) => break Some(Reason::Protocol),
            }
        };
        self.bytes = rest.to_vec();
        if let Some(why) = stop {
            let _ = streams.stop(stream, why);
        }
        (tuples, ended || stop.is_some())
    }
}

impl Dead {
    /// Adds a connection that died because the session with this peer ended. At most `most` connections are
    /// kept per peer.
    pub(super) fn note(&mut self, peer: usize, tuple: Tuple, most: usize) {
        let untold = self.untold.entry(peer).or_default();
        if untold.len() < most {
            untold.push(tuple);
        }
    }

    /// Sends the peer the list of dead connections over an open session. If the session has no streams, keeps
    /// the list, because the peer is then carrying TCP as packets.
    pub(super) fn tell(&mut self, cx: &mut Cx<'_>, peer: usize, session: SessionId) {
        let Some(tuples) = self.untold.remove(&peer) else { return };
        let stream = cx.endpoint.streams(cx.now, session, |s| s.open(&LIST, PRIORITY));
        let Some(Ok(stream)) = stream else {
            self.untold.insert(peer, tuples);
            return;
        };
        // Swap source and destination, so that the entries are as the peer sees them.
        let bytes = tuples.into_iter().flat_map(|tuple| entry(tuple.reversed())).collect();
        self.leaving.insert((session, stream), bytes);
        self.unanswered.insert((session, stream));
        self.fill(cx, (session, stream));
    }

    fn fill(&mut self, cx: &mut Cx<'_>, key: Key) {
        let Some(bytes) = self.leaving.get_mut(&key) else { return };
        let done = cx.endpoint.streams(cx.now, key.0, |s| {
            while !bytes.is_empty() {
                bytes.drain(..s.write(key.1, bytes)?);
            }
            s.finish(key.1)
        });
        if done != Some(Err(StreamError::Blocked)) {
            self.leaving.remove(&key);
        }
    }

    /// Accepts the stream that the peer opened for its list of dead connections.
    pub(super) fn accept(&mut self, cx: &mut Cx<'_>, peer: usize, session: SessionId, stream: StreamId) {
        let done = cx.endpoint.streams(cx.now, session, |s| {
            s.accept(stream, &[])?;
            s.finish(stream)
        });
        if done == Some(Ok(())) {
            self.arriving.insert((session, stream), Arriving { peer, bytes: Vec::new() });
        }
    }

    /// Handles an event on a stream that carries a list. Returns the peer and the dead connections it has
    /// listed. A session may list at most `most` connections.
    pub(super) fn on_stream(
        &mut self,
        cx: &mut Cx<'_>,
        session: SessionId,
        event: Event,
        most: usize,
    ) -> (usize, Vec<Tuple>) {
        match event {
            Event::Writable(stream) => self.fill(cx, (session, stream)),
            Event::Readable(stream) if self.unanswered.contains(&(session, stream)) => {
                // The answer is empty, but the stream stays open until its end has been read.
                let read = cx.endpoint.streams(cx.now, session, |s| read(s, stream, CHUNK));
                if read.is_some_and(|(_, ended)| ended) {
                    self.unanswered.remove(&(session, stream));
                }
            }
            Event::Readable(stream) => return self.read(cx, (session, stream), most),
            Event::Reset(stream, _) | Event::Stopped(stream, _) => {
                self.leaving.remove(&(session, stream));
                self.unanswered.remove(&(session, stream));
                self.arriving.remove(&(session, stream));
            }
            _ => {}
        }
        (0, Vec::new())
    }

    fn read(&mut self, cx: &mut Cx<'_>, key: Key, most: usize) -> (usize, Vec<Tuple>) {
        let Some(list) = self.arriving.get_mut(&key) else { return (0, Vec::new()) };
        let left = self.left.entry(key.0).or_insert(most);
        let read = cx.endpoint.streams(cx.now, key.0, |s| list.read(s, key.1, left));
        let (peer, (tuples, over)) = (list.peer, read.unwrap_or_default());
        if over {
            self.arriving.remove(&key);
        }
        (peer, tuples)
    }

    pub(super) fn on_session_end(&mut self, session: SessionId) {
        self.leaving.retain(|(of, _), _| *of != session);
        self.unanswered.retain(|(of, _)| *of != session);
        self.arriving.retain(|(of, _), _| *of != session);
        self.left.remove(&session);
    }
}

/// Encodes an entry of the list: the IP version, then the source and the destination, each with its port.
fn entry(tuple: Tuple) -> Vec<u8> {
    let mut out = vec![if tuple.from.is_ipv4() { 4 } else { 6 }];
    for end in [tuple.from, tuple.to] {
        out.extend(announce::octets(end.ip()));
        out.extend(end.port().to_be_bytes());
    }
    out
}

/// Returns the first entry and the remaining bytes; `None` if the entry is incomplete. Fails if the entry is
/// invalid.
fn read_entry(bytes: &[u8]) -> Result<Option<(Tuple, &[u8])>, ()> {
    let Some((version, rest)) = bytes.split_first() else { return Ok(None) };
    let ip = match version {
        4 => 4,
        6 => 16,
        _ => return Err(()),
    };
    let Some((ends, rest)) = rest.split_at_checked(2 * (ip + 2)) else { return Ok(None) };
    let (from, to) = ends.split_at(ip + 2);
    let end = |bytes| announce::end(bytes).ok_or(());
    Ok(Some((Tuple { from: end(from)?, to: end(to)? }, rest)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dccp_streams::{Config, Role};
    use mpdccp_units::Time;

    /// Delivers all packets that one end sends.
    fn deliver(ends: &mut [Streams; 2], from: usize) {
        let (now, mut packet) = (Time::from_millis(1), [0; 1_400]);
        while let Some(len) = ends[from].poll_transmit(now, 0, 0, None, 0, &mut packet) {
            ends[1 - from].handle_packet(now, &packet[..len]);
        }
    }

    /// After the loss of a packet, a large part of a list may become readable at once.
    #[test]
    fn a_list_is_read_as_far_as_it_has_arrived() {
        let mut ends = [Role::Client, Role::Server].map(|role| Streams::new(role, Config::default()));
        let tuple = Tuple { from: "10.0.0.1:1".parse().unwrap(), to: "10.0.0.2:2".parse().unwrap() };
        let bytes = entry(tuple).repeat(6_000);
        let stream = ends[0].open(&LIST, PRIORITY).unwrap();
        let mut list = Arriving { peer: 0, bytes: Vec::new() };
        // Make the window grow: its limit blocks the sender, although the receiver has read everything.
        for _ in 0..2 {
            assert_eq!(ends[0].write(stream, &bytes[..65_000]), Ok(65_000));
            deliver(&mut ends, 0);
            list.read(&mut ends[1], stream, &mut { usize::MAX });
        }
        for from in [1, 0] {
            deliver(&mut ends, from);
        }
        list.read(&mut ends[1], stream, &mut { usize::MAX });
        deliver(&mut ends, 1);
        assert!(ends[1].stream_stats(stream).unwrap().window > bytes.len() as u64);
        for part in bytes.chunks(60_000) {
            assert_eq!(ends[0].write(stream, part), Ok(part.len()));
            deliver(&mut ends, 0);
        }
        let mut left = 6_002;
        let mut read = |ends: &mut [Streams; 2]| list.read(&mut ends[1], stream, &mut left);
        assert_eq!(read(&mut ends), (vec![tuple; 6_000], false));
        // The session may list two more connections.
        ends[0].write(stream, &bytes[..39]).unwrap();
        deliver(&mut ends, 0);
        assert_eq!(read(&mut ends), (vec![tuple; 2], true));
        deliver(&mut ends, 1);
        assert_eq!(ends[0].write(stream, &bytes), Err(StreamError::Reset));
    }

    #[test]
    fn entries_are_read_as_they_were_written_and_in_parts() {
        let tuple = |from: &str, to: &str| Tuple { from: from.parse().unwrap(), to: to.parse().unwrap() };
        let all = [tuple("10.0.0.1:1", "10.0.0.2:65535"), tuple("[fd00::1]:1000", "[2001:db8::1]:443")];
        let bytes: Vec<u8> = all.into_iter().flat_map(entry).collect();
        let (first, rest) = read_entry(&bytes).unwrap().unwrap();
        let (second, rest) = read_entry(rest).unwrap().unwrap();
        assert_eq!(([first, second], rest), (all, &[][..]));
        assert!((0..13).all(|n| read_entry(&bytes[..n]) == Ok(None)));
        assert_eq!(read_entry(&[5, 1]), Err(()));
    }
}
