//! Stands in for the qlog support if the feature `qlog` is off.

use dccp_proto::Ecn;
use mpdccp_proto::{Endpoint, SessionEvent, SessionId};
use mpdccp_units::Time;
use std::io;
use std::path::Path;

/// A qlog trace. Without the feature `qlog`, this type has no values.
pub enum Qlog {}

impl Qlog {
    /// Always fails.
    ///
    /// # Errors
    /// Always `Unsupported`.
    pub fn create(_: &Path, _: bool) -> io::Result<Qlog> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "qlog is not built in; enable the feature `qlog`"))
    }

    pub(crate) fn packet(&mut self, _: Time, _: bool, _: &[u8], _: Ecn) {
        match *self {}
    }

    pub(crate) fn look(&mut self, _: Time, _: &Endpoint) {
        match *self {}
    }

    pub(crate) fn happened(&mut self, _: Time, _: &Endpoint, _: SessionId, _: &SessionEvent) {
        match *self {}
    }
}
