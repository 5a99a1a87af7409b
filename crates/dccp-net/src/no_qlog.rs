//! In place of traces where the feature `qlog` is off: nobody has one.

use dccp_proto::Ecn;
use mpdccp_proto::{Endpoint, SessionEvent, SessionId};
use mpdccp_units::Time;
use std::io;
use std::path::Path;

/// A trace; without the feature `qlog` there is none.
pub enum Qlog {}

impl Qlog {
    /// Fails.
    ///
    /// # Errors
    /// `Unsupported`, always.
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
