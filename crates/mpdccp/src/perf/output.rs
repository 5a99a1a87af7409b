//! Prints lines to standard output or a file, with an optional prefix.

use clap::ValueEnum;
use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

/// Unit of printed rates. As in iperf3, byte units are powers of 1024.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "verbatim")]
pub(crate) enum Unit {
    /// kbit/s
    #[value(name = "k")]
    Kbit,
    /// Mbit/s
    #[default]
    #[value(name = "m")]
    Mbit,
    /// Gbit/s
    #[value(name = "g")]
    Gbit,
    /// Tbit/s
    #[value(name = "t")]
    Tbit,
    /// KiB/s
    #[value(name = "K")]
    KiB,
    /// MiB/s
    #[value(name = "M")]
    MiB,
    /// GiB/s
    #[value(name = "G")]
    GiB,
    /// TiB/s
    #[value(name = "T")]
    TiB,
}

impl Unit {
    /// Formats a rate in this unit. The argument is in Mbit/s.
    pub(crate) fn text(self, mbps: f64) -> String {
        let (bits, name) = match self {
            Unit::Kbit => (1e3, "kbit/s"),
            Unit::Mbit => (1e6, "Mbit/s"),
            Unit::Gbit => (1e9, "Gbit/s"),
            Unit::Tbit => (1e12, "Tbit/s"),
            Unit::KiB => (8.0 * 1024.0, "KiB/s"),
            Unit::MiB => (8.0 * 1024_f64.powi(2), "MiB/s"),
            Unit::GiB => (8.0 * 1024_f64.powi(3), "GiB/s"),
            Unit::TiB => (8.0 * 1024_f64.powi(4), "TiB/s"),
        };
        format!("{:.2} {name}", mbps * 1e6 / bits)
    }
}

/// Standard output or a log file.
#[derive(Debug, Default)]
pub(crate) struct Output {
    log: Option<File>,
    title: Option<String>,
    timestamps: bool,
}

/// Returns the current time in UTC, in the format of RFC 3339.
pub(crate) fn utc() -> Option<String> {
    let mut time = String::new();
    SystemTime.format_time(&mut Writer::new(&mut time)).ok().map(|()| time)
}

impl Output {
    /// Creates an output that appends to the file `log` if given, and otherwise writes to standard output.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub(crate) fn new(log: Option<&Path>, title: Option<String>, timestamps: bool) -> io::Result<Output> {
        let open = |path| OpenOptions::new().append(true).create(true).open(path);
        Ok(Output { log: log.map(open).transpose()?, title, timestamps })
    }

    /// Prints a text for people.
    pub(crate) fn text(&self, text: &str) {
        let time = self.time().map(|time| format!("{time} ")).unwrap_or_default();
        let title = self.title.as_ref().map(|title| format!("{title}: ")).unwrap_or_default();
        text.lines().for_each(|line| self.line(&format!("{time}{title}{line}")));
    }

    /// Prints a JSON object.
    pub(crate) fn json(&self, mut record: Value) {
        if let Some(title) = &self.title {
            record["title"] = title.as_str().into();
        }
        if let Some(time) = self.time() {
            record["time"] = time.into();
        }
        self.line(&record.to_string());
    }

    /// Returns whether lines go to a file.
    pub(crate) fn is_file(&self) -> bool {
        self.log.is_some()
    }

    fn time(&self) -> Option<String> {
        self.timestamps.then(utc).flatten()
    }

    /// Prints a line. Ignores errors, because the transfer continues even if nobody reads the output.
    fn line(&self, line: &str) {
        let mut log = self.log.as_ref();
        let mut stdout = io::stdout();
        let to: &mut dyn Write = log.as_mut().map_or(&mut stdout, |file| file);
        let _ = writeln!(to, "{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_in_any_unit() {
        let texts: Vec<String> = Unit::value_variants().iter().map(|unit| unit.text(1234.5)).collect();
        let expected = ["1234500.00 kbit/s", "1234.50 Mbit/s", "1.23 Gbit/s", "0.00 Tbit/s"];
        assert_eq!(texts[..4], expected);
        assert_eq!(texts[4..], ["150695.80 KiB/s", "147.16 MiB/s", "0.14 GiB/s", "0.00 TiB/s"]);
    }
}
