//! The lab runs experiments over emulated links. From a single scenario file it produces a summary, series,
//! figures and a report.
//!
//! A [`Scenario`] describes an experiment; a [`Backend`] runs it once and returns a [`RunRecord`] of raw
//! packets. Everything after that (metrics, `summary.json`, CSV series, figures, `report.html`) reads only
//! the record, and is therefore the same for all backends.
#![forbid(unsafe_code)]

pub mod agreement;
mod aims;
mod backend;
mod bounds;
pub mod code;
pub mod comparison;
mod document;
pub mod estimate;
pub mod experiment;
pub mod export;
pub mod figures;
mod files;
mod friendliness;
pub mod judge;
mod links;
mod metric_names;
pub mod metrics;
pub mod netns;
pub mod packetdrill;
mod record;
pub mod report;
pub mod reproduce;
pub mod runs;
pub mod scenario;
mod seed;
pub mod sentences;
pub mod series;
pub mod sim;
pub mod store;
pub mod summary;
pub mod sweep;
mod tunnel_files;
pub mod uml;
mod windows;

pub(crate) use backend::DRAIN;
pub use backend::{Backend, LabError, Plan, Sample};
pub use bounds::Bounds;
pub use record::{
    Fate, FlowRecord, LinkPacket, LinkRecord, PathRecord, ReceivedPacket, RunRecord, SentPacket, TcpCounters,
    TraceRow,
};
pub use scenario::Scenario;
pub(crate) use seed::Random;
