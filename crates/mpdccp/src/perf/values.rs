//! Parses the values of flags.

use mpdccp_units::Duration;

/// Parses a time, given in seconds as in iperf3 or as a number with a unit.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let with_unit = || linkem_net::quantity::parse_time(text).ok().map(|time| time.as_secs_f64());
    let seconds = text.parse().ok().or_else(with_unit).filter(|s: &f64| (0.0..=1e6).contains(s));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "expected seconds, or a time such as 500ms".into())
}

/// Parses the time between reports. With a shorter one, perf would do little else than print.
pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    let time = seconds(text)?;
    let long = time.is_zero() || time >= Duration::from_millis(1);
    if long { Ok(time) } else { Err("expected 0, or at least 1ms".into()) }
}

/// Splits off the number after the last slash. The slash in `Mbit/s` does not count.
pub(crate) fn with_number(text: &str) -> (&str, Option<&str>) {
    let number = |(_, after): &(&str, &str)| after.starts_with(|c: char| c.is_ascii_digit());
    text.rsplit_once('/').filter(number).map_or((text, None), |(rate, number)| (rate, Some(number)))
}
