//! The ways in which a transfer ends: refused, stopped, failed or closed.

use super::{Mode, REPEATS, Say, Stage, Transfer};
use crate::perf::control::Control;
use crate::perf::file::Store;
use dccp_net::Core;
use mpdccp_proto::{Reason, SessionId};
use mpdccp_units::{Duration, Time};

/// How long a server gives a refused client to close the session.
pub(super) const REFUSED: Duration = Duration::from_secs(2);
/// The reason sent to a client that has too many sessions.
const CROWDED: &str = "too many sessions from this client's address";

impl Transfer {
    /// Server: refuses a client that has too many sessions. Closes the session soon after.
    pub(crate) fn refuse(&mut self, now: Time) {
        self.refuse_because(now, CROWDED.into());
    }

    pub(super) fn refuse_because(&mut self, now: Time, why: String) {
        self.refused = Some(why);
        self.stage = Stage::Lingering { until: now + REFUSED };
    }

    /// Server: ends a test that exceeded a limit. Sends the reason to the client, and closes the session soon
    /// after.
    pub(crate) fn stop(&mut self, core: &mut Core, now: Time, session: SessionId, why: &str) {
        self.look(core, now, session);
        self.failure = Some(format!("ended the connection: {why}"));
        self.refuse_because(now, why.into());
        self.say = Some(Say { what: Control::Refused { why: why.into() }, at: now, left: REPEATS });
    }

    /// Ends a test with an error. If this end is a server, the client receives the error too.
    pub(super) fn fail(&mut self, core: &mut Core, now: Time, session: SessionId, why: String) {
        if matches!(self.mode, Mode::Obey) {
            return self.stop(core, now, session, &why);
        }
        self.failure.get_or_insert(why);
        self.close(core, now, session);
    }

    /// Records that the peer's results are missing, which is an error. An earlier error, such as a full disk,
    /// stays.
    pub(super) fn lack_results(&mut self) {
        self.failure.get_or_insert_with(|| {
            "the other end did not report what it received; the last data may be lost, so run the test again"
                .into()
        });
    }

    pub(crate) fn close(&mut self, core: &mut Core, now: Time, session: SessionId) {
        if !matches!(self.stage, Stage::Asking | Stage::Lingering { .. } | Stage::Fetching) {
            self.look(core, now, session);
        }
        self.flush();
        self.say = None;
        self.stage = Stage::Closing;
        core.endpoint.close(now, session);
    }

    /// Writes the received data that is still buffered to the file.
    pub(crate) fn flush(&mut self) {
        if let Some(Err(e)) = self.store.as_mut().map(Store::flush) {
            self.failure = Some(format!("cannot write the file of --file: {e}"));
        }
    }

    /// Returns whether the transfer ended as it should, given that the session ended for this reason.
    pub(crate) fn ended_well(&self, why: Reason) -> bool {
        // A client that expects data knows that it is complete only once the server has said so. A server
        // that is interrupted closes its sessions in an orderly way.
        let complete = self.peer_done || !matches!(&self.mode, Mode::Ask(test) if test.down);
        match self.stage {
            Stage::Closing => true,
            Stage::Receiving => why.is_orderly() && complete,
            Stage::Lingering { .. } => why.is_orderly() && complete,
            Stage::Greeting | Stage::Sending | Stage::Draining { .. } => false,
            Stage::Asking | Stage::Fetching => false,
        }
    }
}
