//! The file given with `-F`: either the source of sent data or the destination of received data.

use crate::error::Error;
use crate::perf::message::STAMPED;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Reads the data of sent messages.
#[derive(Debug)]
pub(crate) struct Source {
    file: BufReader<File>,
    pub(crate) ended: bool,
    /// The error that ended the file early.
    pub(crate) error: Option<io::Error>,
}

impl Source {
    pub(crate) fn open(path: &Path) -> io::Result<Source> {
        Ok(Source { file: BufReader::new(File::open(path)?), ended: false, error: None })
    }

    /// Fills the part of a message after its header, and shortens the message at the end of the file. Returns
    /// false if no data is left. A read error ends the file, and `error` then contains it.
    pub(crate) fn fill(&mut self, message: &mut Vec<u8>) -> bool {
        let mut at = STAMPED;
        while at < message.len() && !self.ended {
            match self.file.read(&mut message[at..]) {
                Ok(0) => self.ended = true,
                Ok(more) => at += more,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => (self.ended, self.error) = (true, Some(e)),
            }
        }
        message.truncate(at);
        at > STAMPED
    }
}

/// Writes the data of received messages in arrival order.
pub(crate) struct Store(BufWriter<File>);

impl Store {
    pub(crate) fn create(path: &Path) -> io::Result<Store> {
        Ok(Store(BufWriter::new(File::create(path)?)))
    }

    pub(crate) fn add(&mut self, message: &[u8]) -> io::Result<()> {
        self.0.write_all(message.get(STAMPED..).unwrap_or(&[]))
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Checks at startup whether the file can be read (`reads`) or written (`writes`). If both are set, either
/// suffices, because each client of a server requests only one of them.
pub(crate) fn check(path: &Path, reads: bool, writes: bool) -> Result<(), Error> {
    let kind = fs::metadata(path).map(|file| file.file_type());
    let odd = |kind: fs::FileType| !(kind.is_file() || kind.is_char_device());
    let wrong = |why: String| Error::usage(format!("--file {}: {why}", path.display()));
    if kind.is_ok_and(odd) {
        return Err(wrong("not a file".into()));
    }
    let read = || File::open(path).map(drop);
    let write = || OpenOptions::new().append(true).create(true).open(path).map(drop);
    let checked = match (reads, writes) {
        (true, true) => read().or_else(|_| write()),
        (true, false) => read(),
        _ => write(),
    };
    checked.map_err(|e| wrong(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_carry_a_file_whole() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        for len in [0_usize, 1, 99, 100, 101, 1000] {
            let data: Vec<u8> = (0..len).map(|n| n as u8).collect();
            fs::write(&from, &data).unwrap();
            let (mut source, mut store) = (Source::open(&from).unwrap(), Store::create(&to).unwrap());
            let mut messages = 0;
            loop {
                let mut message = vec![0; STAMPED + 100];
                if !source.fill(&mut message) {
                    break;
                }
                messages += 1;
                store.add(&message).unwrap();
            }
            store.flush().unwrap();
            assert_eq!((fs::read(&to).unwrap(), messages), (data, len.div_ceil(100)), "{len}");
        }
    }

    #[test]
    fn files_that_cannot_serve_are_refused_at_the_start() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("missing");
        assert!(check(&missing, true, false).is_err() && !missing.exists());
        assert!(check(dir.path(), true, true).is_err() && check(Path::new("/dev/zero"), true, false).is_ok());
        assert!(check(Path::new("/nowhere/file"), false, true).is_err());
        assert!(check(&missing, false, true).is_ok() && missing.exists());
    }
}
