//! The service manager.

use sd_notify::NotifyState;

/// Tells systemd, if it started us with Type=notify.
pub(crate) fn notify(states: &[NotifyState<'_>]) {
    if let Err(e) = sd_notify::notify(false, states) {
        tracing::debug!("sd_notify: {e}");
    }
}
