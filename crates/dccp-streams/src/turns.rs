//! Scheduling of streams. Priorities are strict. Streams of equal priority take turns (deficit round robin).
//! A stream with newly written data goes first and may use the rest of its turn, similar to FQ-CoDel
//! (RFC 8290), so short exchanges do not wait for bulk transfers.

use crate::place::{Listed, PRIORITIES, Place, QUANTUM};
use crate::stream::Stream;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};

/// The waiting streams of one priority: new ones, which have newly written data, and old ones.
#[derive(Debug, Default)]
struct Level {
    new: VecDeque<u64>,
    old: VecDeque<u64>,
}

/// Maximum number of waiting streams to examine when a distant path needs a stream with a long burst. The
/// limit bounds the work per packet when thousands of streams are waiting.
const LOOK_AHEAD: usize = 16;

impl Level {
    /// Returns the next stream with a burst of at least `least` bytes, and moves it to the front of the old
    /// streams.
    fn next_long(&mut self, streams: &mut BTreeMap<u64, Box<Stream>>, least: u64) -> Option<u64> {
        let at = self.ahead(streams, |place| place.burst >= least && place.deficit > 0).or_else(|| {
            for id in self.old.iter().take(LOOK_AHEAD) {
                if let Some(stream) = streams.get_mut(id).filter(|stream| stream.place.burst >= least) {
                    stream.place.deficit += QUANTUM;
                }
            }
            self.ahead(streams, |place| place.burst >= least)
        })?;
        let id = self.old.remove(at)?;
        self.old.push_front(id);
        Some(id)
    }

    /// Returns the position of the first old stream for which `fits` returns true.
    fn ahead(&self, streams: &BTreeMap<u64, Box<Stream>>, fits: impl Fn(&Place) -> bool) -> Option<usize> {
        let mut ahead = self.old.iter().take(LOOK_AHEAD);
        ahead.position(|id| streams.get(id).is_some_and(|stream| fits(&stream.place)))
    }
}

#[derive(Debug, Default)]
pub(crate) struct Turns([Level; PRIORITIES as usize]);

impl Turns {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|level| level.new.is_empty() && level.old.is_empty())
    }

    /// Adds a stream that has data to send. If the stream did not use up its last turn, it goes before the
    /// old streams with the rest of that turn. Otherwise it waits for its next turn.
    pub(crate) fn add(&mut self, id: u64, place: &mut Place) {
        if place.listed != Listed::No {
            return;
        }
        let level = &mut self.0[usize::from(place.priority)];
        if place.deficit > 0 {
            place.listed = Listed::New;
            level.new.push_back(id);
        } else {
            place.deficit += QUANTUM;
            place.listed = Listed::Old;
            level.old.push_back(id);
        }
    }

    /// Returns the stream that sends next. On a distant path, only streams whose bursts have at least
    /// `head_start` bytes may send. `head_start` is 0 on a path with the smallest delay.
    pub(crate) fn next(&mut self, streams: &mut BTreeMap<u64, Box<Stream>>, head_start: u64) -> Option<u64> {
        if head_start > 0 {
            return self.0.iter_mut().find_map(|level| level.next_long(streams, head_start));
        }
        for level in &mut self.0 {
            loop {
                let list = if level.new.is_empty() { &mut level.old } else { &mut level.new };
                let Some(&id) = list.front() else { break };
                let Some(place) = streams.get_mut(&id).map(|stream| &mut stream.place) else {
                    list.pop_front();
                    continue;
                };
                if place.deficit > 0 {
                    return Some(id);
                }
                list.pop_front();
                place.deficit += QUANTUM;
                place.listed = Listed::Old;
                level.old.push_back(id);
            }
        }
        None
    }

    /// Changes a stream's priority.
    pub(crate) fn set_priority(&mut self, id: u64, place: &mut Place, priority: u8) {
        let listed = self.remove(id, place);
        place.priority = priority.min(PRIORITIES - 1);
        if listed {
            self.add(id, place);
        }
    }

    /// Removes a stream from the lists. Returns whether it was in any of them.
    pub(crate) fn remove(&mut self, id: u64, place: &mut Place) -> bool {
        let level = &mut self.0[usize::from(place.priority)];
        match core::mem::take(&mut place.listed) {
            Listed::No => return false,
            Listed::New => level.new.retain(|other| *other != id),
            Listed::Old => level.old.retain(|other| *other != id),
        }
        true
    }

    /// Ends the turn of the current stream, because it has nothing to send for now.
    pub(crate) fn drop_next(&mut self, place: &mut Place) {
        let level = &mut self.0[usize::from(place.priority)];
        match core::mem::take(&mut place.listed) {
            Listed::New => level.new.pop_front(),
            _ => level.old.pop_front(),
        };
    }
}
