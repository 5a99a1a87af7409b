//! Tracks TCP connections that died because one end lost its state. In the next session, that end's peer
//! sends it a list of them on a separate stream (docs/tcp.md). The hosts must be told that their connections
//! died, and segments of these connections must not be carried as packets.

use super::announce;
use super::transfer::{CHUNK, PRIORITY, read};
use crate::Cx;
use dccp_streams::{Event, Reason, StreamError, StreamId};
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
    /// The lists that this end has sent, until the peer's answer has ended.
    unanswered: HashSet<Key>,
    /// The peer that is sending each list, and the bytes of an incomplete entry.
    arriving: HashMap<Key, (usize, Vec<u8>)>,
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
            self.arriving.insert((session, stream), (peer, Vec::new()));
        }
    }

    /// Handles an event on a stream that carries a list. Returns the peer and the dead connections it has
    /// listed.
    pub(super) fn on_stream(
        &mut self,
        cx: &mut Cx<'_>,
        session: SessionId,
        event: Event,
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
            Event::Readable(stream) => return self.read(cx, (session, stream)),
            Event::Reset(stream, _) | Event::Stopped(stream, _) => {
                self.leaving.remove(&(session, stream));
                self.unanswered.remove(&(session, stream));
                self.arriving.remove(&(session, stream));
            }
            _ => {}
        }
        (0, Vec::new())
    }

    fn read(&mut self, cx: &mut Cx<'_>, key: Key) -> (usize, Vec<Tuple>) {
        let mut tuples = Vec::new();
        let Some((peer, bytes)) = self.arriving.get_mut(&key) else { return (0, tuples) };
        let more = cx.endpoint.streams(cx.now, key.0, |s| read(s, key.1, CHUNK));
        let Some((more, ended)) = more else { return (0, tuples) };
        bytes.extend(more);
        let mut rest = &bytes[..];
        let malformed = loop {
            match read_entry(rest) {
                Ok(Some((tuple, after))) => (tuples.push(tuple), rest = after).0,
                Ok(None) => break false,
                Err(()) => break true,
            }
        };
        *bytes = rest.to_vec();
        let peer = *peer;
        if malformed {
            let _ = cx.endpoint.streams(cx.now, key.0, |s| s.stop(key.1, Reason::Protocol));
        }
        if malformed || ended {
            self.arriving.remove(&key);
        }
        (peer, tuples)
    }

    pub(super) fn on_session_end(&mut self, session: SessionId) {
        self.leaving.retain(|(of, _), _| *of != session);
        self.unanswered.retain(|(of, _)| *of != session);
        self.arriving.retain(|(of, _), _| *of != session);
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
