//! The keys of records as text, with which users can decrypt their own captures.
//!
//! Each line consists of the word `MPDCCP_RECORD`, the receiver, the cipher, and the key in hexadecimal. The
//! receiver is given in 14 hexadecimal digits, as in the record header: server, shard and slot.

use crate::ciphers::{Aead, RecordKey};
use crate::header::{self, HEADER, Kind, Receiver};
use core::fmt::Write;
use core::ops::Range;
use std::collections::BTreeMap;

const WORD: &str = "MPDCCP_RECORD";

pub(crate) fn line(to: Receiver, aead: Aead, key: &[u8]) -> String {
    let mut line = format!("{WORD} {:06x}{:08x} {} ", to.server, to.index, aead.name());
    for byte in key {
        // Writing to a string does not fail.
        let _ = write!(line, "{byte:02x}");
    }
    line
}

/// Keys read from a key log.
#[derive(Debug, Default)]
pub struct KeyLog {
    /// Keys by receiver. A slot may have had several keys in succession.
    keys: BTreeMap<(u32, u32), Vec<RecordKey>>,
}

impl KeyLog {
    /// Parses a key log, ignoring lines from other programs.
    ///
    /// # Errors
    /// Returns the number of the first invalid line.
    pub fn parse(text: &str) -> Result<KeyLog, usize> {
        let mut log = KeyLog::default();
        for (i, text) in text.lines().enumerate() {
            let mut words = text.split_whitespace();
            if words.next() != Some(WORD) {
                continue;
            }
            let (to, key) = entry(words).ok_or(i + 1)?;
            log.keys.entry((to.server, to.index)).or_default().push(key);
        }
        Ok(log)
    }

    /// Opens a datagram in place if it is a record with a known key. Returns the position of the packet.
    pub fn open(&self, datagram: &mut [u8]) -> Option<Range<usize>> {
        let (to, Kind::Record(counter)) = header::read(datagram)? else { return None };
        let mut keys = self.keys.get(&(to.server, to.index))?.iter();
        keys.find_map(|key| {
            // Use a copy, because trying a wrong key overwrites the bytes.
            let mut copy = datagram.to_vec();
            let len = key.open(counter, &mut copy)?;
            datagram.copy_from_slice(&copy);
            Some(HEADER..HEADER + len)
        })
    }
}

fn entry<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<(Receiver, RecordKey)> {
    let to = words.next().filter(|to| to.len() == 14 && to.is_ascii())?;
    let server = u32::from_str_radix(&to[..6], 16).ok()?;
    let index = u32::from_str_radix(&to[6..], 16).ok()?;
    let aead: Aead = words.next()?.parse().ok()?;
    let text = words.next().filter(|text| text.is_ascii() && text.len() == 2 * aead.key_len())?;
    let mut key = [0; 32];
    for (byte, at) in key.iter_mut().zip((0..text.len()).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
    }
    Some((Receiver { server, index }, RecordKey::new(aead, &key)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_key_log_opens_records() {
        let to = Receiver { server: 7, index: 0x0100_0002 };
        for aead in Aead::ALL {
            let key = RecordKey::new(aead, &[9; 32]).unwrap();
            let mut record = vec![0; HEADER];
            header::write(to, Kind::Record(5), record.first_chunk_mut().unwrap());
            record.extend_from_slice(b"a packet");
            record.extend_from_slice(&[0; header::TAG]);
            assert!(key.seal(5, &mut record));
            let right = line(to, aead, &[9; 32][..aead.key_len()]);
            let wrong = line(to, aead, &[8; 32][..aead.key_len()]);
            let log = KeyLog::parse(&format!("# others\n{wrong}\n{right}\n")).unwrap();
            assert_eq!(log.open(&mut record.clone()), Some(HEADER..HEADER + 8));
            assert_eq!(KeyLog::parse(&wrong).unwrap().open(&mut record.clone()), None);
            assert_eq!(KeyLog::parse(&format!("\n{}", &right[..right.len() - 1])).err(), Some(2));
        }
    }
}
