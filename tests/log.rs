//! A subscriber of `tracing` whose lines a test can look at. One of a process.

use std::io::Write;
use std::sync::Mutex;

static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Log;

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOG.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

pub(crate) fn subscriber() -> impl tracing::Subscriber + Send + Sync {
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG);
    subscriber.with_ansi(false).with_writer(|| Log).finish()
}

/// What was written since the last call.
pub(crate) fn take() -> String {
    String::from_utf8(std::mem::take(&mut *LOG.lock().unwrap())).unwrap()
}
