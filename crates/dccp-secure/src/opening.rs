use crate::aead::RecordKey;
use std::sync::Arc;

/// The key and counter of a received record, which may be opened on another thread.
#[derive(Debug)]
pub struct Opening {
    key: Arc<RecordKey>,
    counter: u64,
}

/// Result of opening a record.
#[derive(Debug)]
pub struct OpenedRecord {
    by: Opening,
    len: Option<usize>,
}

impl Opening {
    pub(crate) fn new(key: Arc<RecordKey>, counter: u64) -> Opening {
        Opening { key, counter }
    }

    /// Opens the record in place.
    pub fn open(self, record: &mut [u8]) -> OpenedRecord {
        let len = self.key.open(self.counter, record);
        OpenedRecord { by: self, len }
    }
}

impl OpenedRecord {
    /// Length of the packet, if the record is authentic under this key and counter.
    pub(crate) fn len(&self, key: &Arc<RecordKey>, counter: u64) -> Option<usize> {
        self.len.filter(|_| Arc::ptr_eq(&self.by.key, key) && self.by.counter == counter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aead::Aead;
    use crate::header::OVERHEAD;

    /// An index may belong to a new key by the time that its record is open.
    #[test]
    fn a_record_counts_only_under_the_key_that_opened_it() {
        let [key, other] = [(); 2].map(|()| Arc::new(RecordKey::new(Aead::Aes128Gcm, &[1; 32]).unwrap()));
        let mut record = [0; OVERHEAD + 3];
        assert!(key.seal(7, &mut record));
        let opened = Opening::new(key.clone(), 7).open(&mut record);
        assert_eq!((opened.len(&key, 7), opened.len(&other, 7), opened.len(&key, 8)), (Some(3), None, None));
    }
}
