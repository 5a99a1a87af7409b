//! Writes the log to standard error as text or JSON. Keeps the newest events for `tunnel events`.

use crate::error::Error;
use mpdccp_tunnel::Level;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fmt::{self, Write};
use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};
use time::OffsetDateTime;
use tracing::field::{Field, Visit};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

/// Number of events that are kept.
const KEPT: usize = 1000;

/// Format of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    #[default]
    Text,
    /// One object per line.
    Json,
}

/// An event in the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Event {
    /// Number of the event, counted from 1. If numbers are missing, older events have been dropped.
    pub(crate) number: u64,
    /// Seconds since 1970.
    pub(crate) time: f64,
    /// Severity: `INFO`, `WARN` or `ERROR`.
    pub(crate) level: String,
    pub(crate) message: String,
}

/// The events that are kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Events(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    events: VecDeque<Event>,
    count: u64,
}

impl Events {
    fn push(&self, level: String, message: String) {
        let time = dccp_net::Clock.wall_nanos() as f64 / 1e9;
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.count += 1;
        let number = kept.count;
        kept.events.push_back(Event { number, time, level, message });
        if kept.events.len() > KEPT {
            kept.events.pop_front();
        }
    }

    /// Returns up to `most` of the newest events, newest first.
    pub(crate) fn newest(&self, most: usize) -> Vec<Event> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.events.iter().rev().take(most).cloned().collect()
    }

    /// Returns the events that follow the event with this number.
    pub(crate) fn after(&self, number: u64) -> Vec<Event> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A number that does not exist yet comes from a tunnel that has been restarted since.
        let number = if number > kept.count { 0 } else { number };
        kept.events.iter().filter(|event| event.number > number).cloned().collect()
    }
}

impl<S: tracing::Subscriber> Layer<S> for Events {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let mut message = Message(String::new());
        event.record(&mut message);
        self.push(event.metadata().level().to_string(), message.0);
    }
}

/// The text of an event.
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            // Ignore the result: writing to a string cannot fail.
            let _ = write!(self.0, "{value:?}");
        }
    }
}

/// Returns whether standard error is connected to systemd's journal. JOURNAL_STREAM identifies the file that
/// was standard error when the service started.
fn is_journal() -> bool {
    let (Ok(named), Ok(meta)) = (std::env::var("JOURNAL_STREAM"), rustix::fs::fstat(std::io::stderr()))
    else {
        return false;
    };
    named == format!("{}:{}", meta.st_dev, meta.st_ino)
}

/// Format for the journal: a priority prefix (sd-daemon(3)) and no time, because the journal adds times.
struct Journal;

impl<S, N> FormatEvent<S, N> for Journal
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        ctx: &FmtContext<'_, S, N>,
        mut out: Writer<'_>,
        event: &tracing::Event<'_>,
    ) -> fmt::Result {
        let priority = match *event.metadata().level() {
            tracing::Level::ERROR => 3,
            tracing::Level::WARN => 4,
            tracing::Level::INFO => 6,
            _ => 7,
        };
        write!(out, "<{priority}>")?;
        ctx.format_fields(out.by_ref(), event)?;
        writeln!(out)
    }
}

/// Starts the log of this process.
pub(crate) fn log(format: LogFormat, verbose: bool) -> Events {
    let level = if verbose { LevelFilter::DEBUG } else { LevelFilter::INFO };
    let events = Events::default();
    let journal = is_journal();
    // Ignore write errors: the reader of standard error may have ended.
    let layer = tracing_subscriber::fmt::layer()
        .log_internal_errors(false)
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    let layer = match (format, journal) {
        (LogFormat::Json, _) => layer.json().flatten_event(true).boxed(),
        (LogFormat::Text, true) => layer.event_format(Journal).boxed(),
        (LogFormat::Text, false) => layer.boxed(),
    };
    let kept = events.clone().with_filter(LevelFilter::INFO);
    tracing_subscriber::registry().with(kept).with(layer.with_filter(level)).init();
    events
}

/// Starts the log of a helper process. Each event is a line on standard output, which the tunnel passes to
/// [`relay`].
pub(crate) fn forward(verbose: bool) {
    let level = if verbose { LevelFilter::DEBUG } else { LevelFilter::INFO };
    let layer = tracing_subscriber::fmt::layer().without_time().with_target(false).json().flatten_event(true);
    // Ignore write errors: standard output is a pipe to the tunnel, and the tunnel may have ended.
    let layer = layer.log_internal_errors(false).with_writer(std::io::stdout);
    tracing_subscriber::registry().with(layer.with_filter(level)).init();
}

/// Logs an event that the helper process wrote as a line.
pub(crate) fn relay(line: &str) {
    #[derive(Deserialize)]
    struct Line {
        level: String,
        message: String,
    }
    let Ok(Line { level, message }) = serde_json::from_str(line) else { return };
    match level.as_str() {
        "ERROR" => tracing::error!("{message}"),
        "WARN" => tracing::warn!("{message}"),
        "INFO" => tracing::info!("{message}"),
        _ => tracing::debug!("{message}"),
    }
}

/// Logs an event of the tunnel.
pub(crate) fn write(level: Level, message: &str) {
    match level {
        Level::Info => tracing::info!("{message}"),
        Level::Warn => tracing::warn!("{message}"),
        Level::Error => tracing::error!("{message}"),
    }
}

/// Formats an event as a line.
pub(crate) fn line(event: &Event, json: bool) -> Result<String, Error> {
    if json {
        return Ok(serde_json::to_string(event).map_err(std::io::Error::from)?);
    }
    let time = OffsetDateTime::from_unix_timestamp(event.time as i64).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let (date, (h, m, s)) = (time.date(), time.to_hms());
    let ms = (event.time.fract() * 1e3) as u64;
    Ok(format!("{date} {h:02}:{m:02}:{s:02}.{ms:03} UTC {:>5} {}", event.level, event.message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_kept() {
        let events = Events::default();
        for i in 1..=KEPT + 5 {
            events.push("INFO".into(), format!("event {i}"));
        }
        let all = events.after(0);
        assert_eq!((all.len(), all[0].number, all[KEPT - 1].number), (KEPT, 6, KEPT as u64 + 5));
        assert_eq!([4, 5, 6].map(|n| events.after(KEPT as u64 + n).len()), [1, 0, KEPT]);
        assert_eq!(
            events.newest(2).iter().map(|e| e.number).collect::<Vec<_>>(),
            [KEPT as u64 + 5, KEPT as u64 + 4]
        );
        let event = Event { number: 1, time: 3_723.25, level: "WARN".into(), message: "silent".into() };
        assert_eq!(line(&event, false).unwrap(), "1970-01-01 01:02:03.250 UTC  WARN silent");
        assert!(line(&event, true).unwrap().contains("\"message\":\"silent\""));
    }
}
