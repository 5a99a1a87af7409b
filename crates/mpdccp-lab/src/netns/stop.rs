//! Interrupts an experiment. A signal sets a flag that every loop checks, so that all of them end cleanly.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::LabError;

static STOP: AtomicBool = AtomicBool::new(false);

/// Makes Ctrl-C, SIGTERM and SIGHUP end the experiment cleanly instead of killing the process.
///
/// # Errors
/// Fails if a handler is already installed, or if the system refuses to install one.
pub fn install_handler() -> Result<(), LabError> {
    ctrlc::set_handler(interrupt).map_err(|e| LabError::failed("cannot catch Ctrl-C", e))
}

/// Ends the experiment cleanly, like Ctrl-C.
pub fn interrupt() {
    STOP.store(true, Ordering::Relaxed);
}

/// Returns `Err(Interrupted)` after an interruption.
pub(crate) fn check() -> Result<(), LabError> {
    if STOP.load(Ordering::Relaxed) { Err(LabError::Interrupted) } else { Ok(()) }
}

/// Clears an interruption, so that another experiment can run in this process.
pub fn resume() {
    STOP.store(false, Ordering::Relaxed);
}
