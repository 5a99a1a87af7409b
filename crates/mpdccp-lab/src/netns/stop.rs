//! Interruption: a signal sets a flag that every loop looks at, so that all of them end in order and clean up.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::LabError;

static STOP: AtomicBool = AtomicBool::new(false);

/// Lets Ctrl-C, SIGTERM and SIGHUP end the experiment in order instead of killing the process.
///
/// # Errors
/// A handler is there already, or the system refuses.
pub fn install_handler() -> Result<(), LabError> {
    ctrlc::set_handler(interrupt).map_err(|e| LabError::failed("catching Ctrl-C", e))
}

/// Ends the experiment in order, as Ctrl-C does.
pub fn interrupt() {
    STOP.store(true, Ordering::Relaxed);
}

/// `Err(Interrupted)` if the experiment is to end.
pub(super) fn check() -> Result<(), LabError> {
    if STOP.load(Ordering::Relaxed) { Err(LabError::Interrupted) } else { Ok(()) }
}

/// Takes an interruption back, so that another experiment can run in this process.
pub fn resume() {
    STOP.store(false, Ordering::Relaxed);
}
