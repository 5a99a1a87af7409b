//! A `tracing` subscriber that stores log lines so that a test can check them. A process has only one.

use std::io::Write;
use std::sync::Mutex;
use std::thread::ThreadId;
use tracing_subscriber::filter::dynamic_filter_fn;
use tracing_subscriber::layer::SubscriberExt;

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

/// Starts storing what `thread` logs, or what all threads log, until the process ends.
///
/// The subscriber is installed for the process, not for the thread. Otherwise, a log call first made by
/// another thread would be disabled for all threads, because that thread has no subscriber.
pub(crate) fn install(thread: Option<ThreadId>) {
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG).with_ansi(false);
    let wanted = move || thread.is_none_or(|thread| thread == std::thread::current().id());
    let subscriber = subscriber.with_writer(|| Log).finish().with(dynamic_filter_fn(move |_, _| wanted()));
    tracing::subscriber::set_global_default(subscriber).unwrap();
}

/// Takes the text that was logged since the last call.
pub(crate) fn take() -> String {
    String::from_utf8(std::mem::take(&mut *LOG.lock().unwrap())).unwrap()
}
