//! A channel as a stream of bytes.

use super::{Channel, ChannelError};
use std::io::{self, Read, Write};

impl From<ChannelError> for io::Error {
    fn from(e: ChannelError) -> io::Error {
        io::Error::new(io::ErrorKind::ConnectionAborted, e)
    }
}

impl Write for &Channel {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let shared = &self.0;
        let written = shared.writable.wait(&shared.state, None, |state| state.write(bytes));
        shared.outgoing.notify();
        Ok(written.unwrap_or(Err(ChannelError::Ended))?)
    }

    /// What was written leaves by itself.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for &Channel {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let shared = &self.0;
        let read = shared.readable.wait(&shared.state, None, |state| state.read(into.len()));
        shared.outgoing.notify();
        let bytes = read.unwrap_or(Ok(Vec::new()))?;
        into.iter_mut().zip(&bytes).for_each(|(to, from)| *to = *from);
        Ok(bytes.len())
    }
}
