//! Sources of datagrams.

use core::time::Duration;

use linkem_net::quantity::parse_rate;
use mpdccp_units::Rate;
use serde::{Deserialize, Deserializer, de};

use super::quantity;

/// A kind of source. The packet size and the rate are keys of the flow.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum SourceSpec {
    /// Datagrams at `rate`, evenly spaced.
    Constant {},
    /// As many datagrams as the transport accepts.
    Bulk {},
    /// Datagrams at `rate`, with pauses.
    OnOff {
        /// Duration of a burst, from one pause to the next.
        #[serde(deserialize_with = "quantity::time")]
        on: Duration,
        /// Duration of a pause.
        #[serde(deserialize_with = "quantity::time")]
        off: Duration,
    },
    /// Datagrams at a mean rate of `rate`, with exponentially distributed intervals.
    Poisson {},
    /// Video frames, each sent as a burst of datagrams. The rate steps up as long as the sender drops
    /// nothing, and down when it drops datagrams.
    Video {
        /// Frame rate.
        frames_per_s: u32,
        /// Rates, lowest first.
        ladder: Ladder,
    },
    /// Replays a file in which each line has a time in milliseconds and a number of bytes.
    Trace {
        /// File name, relative to the scenario's file.
        file: String,
        /// Contents of the file: the time and size of each entry.
        #[serde(skip)]
        packets: Vec<(Duration, u32)>,
    },
}

impl Default for SourceSpec {
    fn default() -> SourceSpec {
        SourceSpec::Constant {}
    }
}

impl SourceSpec {
    /// Returns whether the source uses the flow's `rate`.
    pub(super) fn has_rate(&self) -> bool {
        matches!(self, SourceSpec::Constant {} | SourceSpec::OnOff { .. } | SourceSpec::Poisson {})
    }

    /// Returns the error in the source's settings, if any.
    pub(super) fn problem(&self) -> Option<&'static str> {
        match self {
            SourceSpec::OnOff { on, .. } if on.is_zero() => Some("`on` must be above 0"),
            SourceSpec::Video { frames_per_s, .. } if !(1..=1000).contains(frames_per_s) => {
                Some("frames_per_s must be from 1 to 1000")
            }
            SourceSpec::Video { ladder, .. } if ladder.0.is_empty() || !ladder.0.is_sorted() => {
                Some("the rates of `ladder` must be in ascending order")
            }
            _ => None,
        }
    }
}

/// Rates of a video, lowest first.
#[derive(Clone, Debug, PartialEq)]
pub struct Ladder(pub Vec<Rate>);

impl<'de> Deserialize<'de> for Ladder {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Ladder, D::Error> {
        let rates = Vec::<String>::deserialize(d)?;
        let rates: Result<_, String> = rates.iter().map(|text| parse_rate(text)).collect();
        rates.map(Ladder).map_err(de::Error::custom)
    }
}

/// Parses a trace of datagrams, skipping empty lines and lines that begin with `#`.
pub(super) fn parse_trace(text: &str) -> Result<Vec<(Duration, u32)>, String> {
    let mut packets: Vec<(Duration, u32)> = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |what: &str| format!("line {}: {what}", i + 1);
        let mut words = line.split_whitespace();
        let at = words.next().and_then(|w| w.parse::<f64>().ok());
        let at = at.and_then(|ms| Duration::try_from_secs_f64(ms / 1e3).ok());
        let bytes = words.next().and_then(|w| w.parse().ok());
        let (Some(at), Some(bytes), None) = (at, bytes, words.next()) else {
            return Err(wrong("expected a time in milliseconds and a number of bytes"));
        };
        if packets.last().is_some_and(|last| last.0 > at) {
            return Err(wrong("the time is earlier than on the previous line"));
        }
        packets.push((at, bytes));
    }
    if packets.is_empty() { Err("the trace is empty".to_owned()) } else { Ok(packets) }
}
