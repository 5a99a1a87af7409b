//! What lies between a connection's handles and the data thread.

use crate::outgoing::{Delivery, Outgoing};
use crate::signal::{Signal, lock};
use crate::stats::{Event, Stats};
use crate::{FinishError, Options, RecvError, SendError};
use mpdccp_proto::Reason;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Instant;

/// Most events that wait; beyond, the oldest are forgotten.
const MAX_EVENTS: usize = 256;

#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) state: Mutex<State>,
    /// There is room to send, or no more sending.
    pub(crate) writable: Signal,
    /// There is a datagram, or there will be none.
    pub(crate) readable: Signal,
    /// It opened, something happened to it, or it ended.
    pub(crate) happened: Signal,
}

#[derive(Debug)]
pub(crate) struct State {
    outgoing: Outgoing,
    incoming: VecDeque<Vec<u8>>,
    events: VecDeque<Event>,
    max_incoming: usize,
    /// Something found no room, and the application has not caught up since.
    behind: bool,
    /// Once it is open: RFC 9897 is in use.
    opened: Option<bool>,
    max_datagram: usize,
    /// No more is to be sent; it closes once everything has left.
    finishing: bool,
    /// It closes: what is lost has been counted.
    given_up: bool,
    /// The data thread has been told that there is something to send.
    told: bool,
    end: Option<Reason>,
    /// In the peer's Reset.
    peer_said: Option<String>,
    /// Counters of this side, and the newest look at the session.
    stats: Stats,
}

impl State {
    /// Takes a datagram in. `None` while there is no room.
    pub(crate) fn send(&mut self, data: &[u8], delivery: Delivery) -> Option<Result<(), SendError>> {
        let refusal = match self.end {
            Some(reason) => SendError::Closed(reason),
            None if self.finishing => SendError::Closed(Reason::Closed),
            None if data.is_empty() => SendError::Empty,
            None if data.len() > self.max_datagram => {
                SendError::TooBig { len: data.len(), max: self.max_datagram }
            }
            None if !self.outgoing.push(Instant::now(), data, delivery) => return None,
            None => {
                self.stats.sent += 1;
                self.stats.sent_bytes += data.len() as u64;
                return Some(Ok(()));
            }
        };
        Some(Err(refusal))
    }

    /// Whether the data thread must be told now.
    pub(crate) fn tell(&mut self) -> bool {
        !std::mem::replace(&mut self.told, true)
    }

    /// The next datagram. `None` while there is none.
    pub(crate) fn recv(&mut self) -> Option<Result<Vec<u8>, RecvError>> {
        match self.incoming.pop_front() {
            Some(data) => Some(Ok(data)),
            None => self.end.map(|reason| Err(RecvError::Closed(reason))),
        }
    }

    /// The next event. `None` while there is none, `Some(None)` if none will come.
    pub(crate) fn event(&mut self) -> Option<Option<Event>> {
        match self.events.pop_front() {
            Some(event) => Some(Some(event)),
            None => self.end.map(|_| None),
        }
    }

    /// `None` until it is open or has failed.
    pub(crate) fn opening(&self) -> Option<Result<(), Reason>> {
        match (self.opened, self.end) {
            (Some(_), _) => Some(Ok(())),
            (None, end) => end.map(Err),
        }
    }

    /// `None` until it has ended.
    pub(crate) fn finished(&self) -> Option<Result<Stats, FinishError>> {
        self.end.map(|reason| match reason.is_orderly() && self.stats.dropped == 0 {
            true => Ok(self.stats()),
            false => Err(FinishError(reason)),
        })
    }

    pub(crate) fn finish(&mut self) {
        self.finishing = true;
    }

    pub(crate) fn is_finishing(&self) -> bool {
        self.finishing
    }

    pub(crate) fn is_multipath(&self) -> bool {
        self.opened == Some(true)
    }

    pub(crate) fn max_datagram(&self) -> usize {
        self.max_datagram
    }

    pub(crate) fn end(&self) -> Option<Reason> {
        self.end
    }

    pub(crate) fn stats(&self) -> Stats {
        let queued = self.stats.queued + self.outgoing.len() as u64;
        let Outgoing { displaced, expired, .. } = self.outgoing;
        Stats { queued, displaced, expired, ..self.stats.clone() }
    }

    pub(crate) fn peer_said(&self) -> Option<String> {
        self.peer_said.clone()
    }

    pub(crate) fn hear(&mut self, text: Option<String>) {
        self.peer_said = text;
    }

    /// So many packets were waited for long enough: their acknowledgement would find nobody.
    pub(crate) fn give_up(&mut self, packets: u64) {
        self.stats.lost += packets;
        self.given_up = true;
    }

    /// What the session says, beside what is counted here.
    pub(crate) fn update(&mut self, look: Stats) {
        let Stats { queued, dropped, rate, paths, .. } = look;
        let lost = if self.given_up { self.stats.lost } else { look.lost };
        self.stats = Stats { queued, dropped, lost, rate, paths, ..std::mem::take(&mut self.stats) };
    }
}

impl Stream {
    pub(crate) fn new(options: &Options) -> Stream {
        Stream {
            state: Mutex::new(State {
                outgoing: Outgoing::new(options.policy, options.queue),
                incoming: VecDeque::new(),
                events: VecDeque::new(),
                max_incoming: options.receive_queue,
                behind: false,
                opened: None,
                max_datagram: 0,
                finishing: false,
                given_up: false,
                told: false,
                end: None,
                peer_said: None,
                stats: Stats::default(),
            }),
            writable: Signal::default(),
            readable: Signal::default(),
            happened: Signal::default(),
        }
    }

    /// Takes up to `most` datagrams out; none are left if the second is true.
    pub(crate) fn take(&self, most: usize) -> (Vec<Vec<u8>>, bool) {
        let mut state = lock(&self.state);
        let taken = state.outgoing.take(Instant::now(), most);
        let empty = state.outgoing.len() == 0;
        if empty {
            state.told = false;
        }
        drop(state);
        if !taken.is_empty() {
            self.writable.notify();
        }
        (taken, empty)
    }

    /// A datagram arrived. True if the application does not keep up with them: it finds no room, or found none and has not read half of
    /// what waits since.
    pub(crate) fn deliver(&self, data: Vec<u8>) -> bool {
        let mut state = lock(&self.state);
        state.stats.received += 1;
        state.stats.received_bytes += data.len() as u64;
        if state.incoming.len() >= state.max_incoming {
            state.stats.unread += 1;
            state.behind = true;
            return true;
        }
        state.incoming.push_back(data);
        state.behind &= state.incoming.len() > state.max_incoming / 2;
        let behind = state.behind;
        drop(state);
        self.readable.notify();
        behind
    }

    pub(crate) fn open(&self, multipath: bool) {
        lock(&self.state).opened = Some(multipath);
        self.happened.notify();
    }

    pub(crate) fn set_max_datagram(&self, bytes: usize) {
        lock(&self.state).max_datagram = bytes;
        self.writable.notify();
    }

    pub(crate) fn tell_event(&self, event: Event) {
        let mut state = lock(&self.state);
        if state.events.len() >= MAX_EVENTS {
            state.events.pop_front();
        }
        state.events.push_back(event);
        drop(state);
        self.happened.notify();
    }

    /// It is over; what has not left is dropped, and counted: here, and `dropped` by the session.
    pub(crate) fn end(&self, reason: Reason, dropped: u64) {
        let mut state = lock(&self.state);
        if state.end.is_some() {
            return;
        }
        state.stats.dropped += dropped + state.outgoing.clear();
        state.stats.queued = 0;
        state.end = Some(reason);
        state.events.push_back(Event::Closed(reason));
        drop(state);
        self.writable.notify();
        self.readable.notify();
        self.happened.notify();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_read_is_behind_until_half_of_it_is_read() {
        let stream = Stream::new(&Options::default().receive_queue(4));
        let deliver = |n| (0..n).map(|_| stream.deliver(vec![1])).collect::<Vec<_>>();
        assert_eq!(deliver(5), [false, false, false, false, true]);
        lock(&stream.state).recv();
        assert_eq!(deliver(1), [true], "more than half waits still");
        (0..3).for_each(|_| drop(lock(&stream.state).recv()));
        assert_eq!(deliver(3), [false, false, false]);
        assert_eq!(lock(&stream.state).stats().unread, 1);
    }
}
