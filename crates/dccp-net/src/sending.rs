//! A thread that encrypts and sends runs of packets.

use crate::batch::Run;
use crate::marking::Part;
use crate::secure::{Address, Sealing};
use crate::worker::{Alarm, Worker};
use crate::{Outlet, SendError};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// Maximum number of runs that wait for the thread. More would only add delay, because a run takes about 0.1 ms.
const MOST_WAITING: usize = 16;

/// A run to send, and the result.
pub(crate) struct Parcel {
    pub(crate) run: Run,
    pub(crate) parts: Vec<Part>,
    pub(crate) to: Address,
    /// Encrypts the run; `None` without encryption.
    pub(crate) sealing: Option<Sealing>,
    pub(crate) outlet: Arc<dyn Outlet>,
    /// The reason why the path is unusable, if it is.
    pub(crate) down: Option<io::Error>,
    /// Destinations that have refused packets.
    pub(crate) refused: Vec<SocketAddr>,
}

impl Parcel {
    /// Encrypts and sends the run. Returns true if there is something to report.
    fn send(&mut self) -> bool {
        if let Some(sealing) = self.sealing.take() {
            let (records, segment) = self.run.records_mut();
            sealing.seal(records, segment);
        }
        for part in &self.parts {
            // As on the loop's thread, other errors are only counted.
            if let Err(SendError::LinkDown(e)) =
                self.outlet.send(&self.run.burst_to(part, self.to.local, self.to.remote))
            {
                self.down.get_or_insert(e);
            }
        }
        self.refused = self.outlet.refused();
        self.down.is_some() || !self.refused.is_empty()
    }
}

/// Starts the sending thread.
pub(crate) fn start(alarm: Alarm) -> io::Result<Worker<Parcel>> {
    Worker::start("send", MOST_WAITING, alarm, Parcel::send)
}
