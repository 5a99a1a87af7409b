use crate::aead::RecordKey;
use crate::header::{self, Kind, Receiver};
use core::ops::Range;
use std::sync::Arc;

/// Reserved counters of a channel's key. Another thread may seal the records.
#[derive(Debug)]
pub struct Sealing {
    key: Arc<RecordKey>,
    to: Receiver,
    counters: Range<u64>,
}

impl Sealing {
    pub(crate) fn new(key: Arc<RecordKey>, to: Receiver, counters: Range<u64>) -> Sealing {
        Sealing { key, to, counters }
    }

    /// Writes the headers, and seals the records for which [`reserve`](crate::Channels::reserve) was called, in place.
    /// Consumes the counters, because no counter may seal twice.
    pub fn seal(mut self, records: &mut [u8], segment: usize) {
        for record in records.chunks_mut(segment.max(1)) {
            let sealed = self.counters.next().is_some_and(|counter| {
                if let Some(head) = record.first_chunk_mut() {
                    header::write(self.to, Kind::Record(counter), head);
                }
                self.key.seal(counter, record)
            });
            // A record without room for header and tag, or without a counter, must not be sent in plain text. Fill it
            // with zeros, which no receiver accepts.
            if !sealed {
                record.fill(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aead::Aead;
    use crate::header::{HEADER, OVERHEAD};

    #[test]
    fn reserved_counters_seal_that_many_records() {
        let key = || RecordKey::new(Aead::Aes128Gcm, &[1; 32]).unwrap();
        let to = Receiver { server: 0, index: 1 };
        let mut records = [7; 3 * OVERHEAD + 3];
        Sealing::new(Arc::new(key()), to, 5..7).seal(&mut records, OVERHEAD + 1);
        let (sealed, rest) = records.split_at_mut(2 * (OVERHEAD + 1));
        for (counter, record) in (5..).zip(sealed.chunks_mut(OVERHEAD + 1)) {
            assert_eq!(header::read(record), Some((to, Kind::Record(counter))));
            assert_eq!((key().open(counter, record), record[HEADER]), (Some(1), 7));
        }
        assert_eq!(rest, [0; OVERHEAD + 1], "no counter was left for the third record");
    }
}
