//! TCP's throughput as a function of round-trip time and loss event rate (RFC 5348 section 3.1), with b = 1
//! and t_RTO = 4 R.

/// Lower limit of the loss event rate, at which the throughput exceeds that of any link. The upper limit is
/// 1, one loss event per packet.
const LEAST: f64 = 1e-12;

/// Returns f(p). The number of segments per round trip is `1 / f(p)` (RFC 5348 section 8.1).
pub fn f(p: f64) -> f64 {
    let p = p.clamp(LEAST, 1.0);
    libm::sqrt(2.0 * p / 3.0) + 12.0 * libm::sqrt(3.0 * p / 8.0) * p * (1.0 + 32.0 * p * p)
}

/// Returns the rate of a TCP in bytes per second. Segments have `s` bytes, the round-trip time is `rtt`
/// seconds, and the loss event rate is `p`.
pub fn throughput(s: f64, rtt: f64, p: f64) -> f64 {
    s / (rtt * f(p))
}

/// Inverts the equation: returns the loss event rate at which [`throughput`] gives `rate`. The result is 1 if
/// `rate` is too low for any loss event rate, and at least 1e-12.
pub fn loss_event_rate_for(rate: f64, s: f64, rtt: f64) -> f64 {
    // f increases with p over more than ten decades, so the code bisects the exponent. 50 halvings leave an
    // error below 1e-13.
    let (mut low, mut high) = (libm::log(LEAST), 0.0);
    for _ in 0..50 {
        let middle = (low + high) / 2.0;
        if throughput(s, rtt, libm::exp(middle)) > rate {
            low = middle;
        } else {
            high = middle;
        }
    }
    libm::exp(high)
}

#[cfg(test)]
#[path = "equation_tests.rs"]
mod tests;
