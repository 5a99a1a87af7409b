//! A subscriber of `tracing` whose lines a test can look at. One of a process.

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

/// Logs what `thread` does, or what all threads do, from now until the process ends.
///
/// It is the process's subscriber, not the thread's: a callsite that another thread reaches first would ask
/// that thread's subscriber, find none, and stay off for all threads.
pub(crate) fn install(thread: Option<ThreadId>) {
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG).with_ansi(false);
    let wanted = move || thread.is_none_or(|thread| thread == std::thread::current().id());
    let subscriber = subscriber.with_writer(|| Log).finish().with(dynamic_filter_fn(move |_, _| wanted()));
    tracing::subscriber::set_global_default(subscriber).unwrap();
}

/// The text logged since the last call.
pub(crate) fn take() -> String {
    String::from_utf8(std::mem::take(&mut *LOG.lock().unwrap())).unwrap()
}
