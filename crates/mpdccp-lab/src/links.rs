//! Changes a link during a scenario in the same way on every backend.

use mpdccp_linkem::Link;
use mpdccp_units::Time;

use crate::LabError;
use crate::scenario::LinkKeys;

/// Gives a link the configuration from these keys, effective from `now` on.
pub(crate) fn change<P: Clone>(link: &mut Link<P>, now: Time, keys: &LinkKeys) -> Result<(), LabError> {
    link.reconfigure(now, keys.config()).map_err(|e| LabError::failed("cannot change a path", e))?;
    match (link.is_up(), keys.is_up()) {
        (false, true) => link.set_up(now),
        (true, false) => link.set_down(now),
        _ => {}
    }
    Ok(())
}
