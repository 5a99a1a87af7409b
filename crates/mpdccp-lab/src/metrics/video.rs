//! Measures the video quality that a viewer sees, by modelling a simple player of segmented video (such as
//! DASH) that downloads at the flow's delivery rate.

use super::arrivals::Delivery;

/// Bit rates in which the video is available, in Mbit/s.
const LADDER: [f64; 7] = [0.4, 1.0, 2.0, 3.5, 6.0, 10.0, 16.0];
/// Seconds of video per segment.
const SEGMENT: f64 = 2.0;
/// Largest buffer of the player, seconds.
const AHEAD: f64 = 30.0;
/// Fraction of the measured rate that the player uses.
const CAUTION: f64 = 0.8;
/// The player estimates the rate as the harmonic mean over this many recent segments.
const LOOKS_AT: usize = 3;

/// Quality of one playback.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Viewing {
    /// Seconds from the flow's start until the first picture is shown.
    pub(super) startup_s: f64,
    /// Number of interruptions after the first picture, and their total duration in seconds.
    pub(super) stalls: u32,
    pub(super) stalled_s: f64,
    /// Mean bit rate of the segments in Mbit/s.
    pub(super) mbps: f64,
}

/// Plays the video. Returns `None` if even the first segment did not arrive between `from` and `to` seconds.
pub(super) fn viewing(first: &[Delivery], (from, to): (f64, f64)) -> Option<Viewing> {
    let mut v = Viewing::default();
    let mut rates: Vec<f64> = Vec::new();
    // `media` is the number of seconds of video downloaded, and `played` the number played by `played_at`.
    let (mut media, mut played, mut played_at) = (0.0, 0.0, from);
    let (mut now, mut next, mut bits) = (from, 0, 0.0);
    let mut started = false;
    loop {
        let level = level(&rates);
        let need = LADDER[level] * 1e6 * SEGMENT;
        let begun = now;
        let mut got = 0.0;
        while got < need {
            let Some(d) = first.get(next).filter(|d| d.at < to) else {
                // The measurement has ended: the player plays the rest of its buffer until `to`. If the
                // buffer does not last until then, this counts as a stall.
                if started {
                    stall(&mut v, media - played, to - played_at);
                    v.mbps = bits / (media / SEGMENT);
                }
                return started.then_some(v);
            };
            next += 1;
            if d.at >= now {
                got += f64::from(d.bytes) * 8.0;
                now = d.at;
            }
        }
        rates.push(need / (now - begun).max(1e-6) / 1e6);
        bits += LADDER[level];
        if started {
            let passed = now - played_at;
            stall(&mut v, media - played, passed);
            played = (played + passed).min(media);
        } else {
            started = true;
            v.startup_s = now - from;
        }
        played_at = now;
        media += SEGMENT;
        // While the buffer is full, the next request waits, and bytes that arrive during this time are not
        // used.
        now += (media - played - AHEAD).max(0.0);
    }
}

/// Counts a stall if only `buffered` seconds of video were available for the `passed` seconds that have
/// passed.
fn stall(v: &mut Viewing, buffered: f64, passed: f64) {
    if passed > buffered + 1e-9 {
        v.stalls += 1;
        v.stalled_s += passed - buffered;
    }
}

/// Returns the index of the highest bit rate that is at most [`CAUTION`] times the estimated rate.
fn level(rates: &[f64]) -> usize {
    let recent = &rates[rates.len().saturating_sub(LOOKS_AT)..];
    let harmonic = recent.len() as f64 / recent.iter().map(|r| 1.0 / r).sum::<f64>();
    let fits = LADDER.iter().rposition(|rung| *rung <= CAUTION * harmonic);
    fits.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::arrivals::at_times;
    use super::*;

    /// Returns packets of 1,250 bytes (0.01 Mbit) at the rate `mbps`.
    fn flow(secs: f64, mbps: impl Fn(f64) -> f64) -> Vec<Delivery> {
        let (mut t, mut all) = (0.0, Vec::new());
        while t < secs {
            t += 0.01 / mbps(t);
            all.push((t, 1250));
        }
        at_times(&all)
    }

    #[test]
    fn a_steady_flow_plays_without_a_stall_at_the_rung_below_it() {
        let v = viewing(&flow(60.0, |_| 4.0), (0.0, 60.0)).unwrap();
        // The first segment has the lowest bit rate: it is 0.8 Mbit long and takes 0.2 s at 4 Mbit/s. No
        // other segment has a bit rate above 3.2 Mbit/s.
        assert!((v.startup_s - 0.2).abs() < 1e-6, "{v:?}");
        assert_eq!((v.stalls, v.stalled_s), (0, 0.0));
        assert!(v.mbps > 1.9 && v.mbps < 2.0, "{v:?}");
    }

    #[test]
    fn an_outage_longer_than_the_buffer_stalls_once() {
        // At 0.8 Mbit/s, a segment (2 s of video at 0.4 Mbit/s) takes 1 s. Nothing arrives for 20 s from 6.1
        // s on.
        let all: Vec<Delivery> =
            flow(60.0, |_| 0.8).into_iter().filter(|d| !(6.1..26.1).contains(&d.at)).collect();
        let v = viewing(&all, (0.0, 60.0)).unwrap();
        assert!((v.startup_s - 1.0).abs() < 0.02, "{v:?}");
        // At 6 s, six segments (12 s of video) have arrived and 5 s have been played, so the video lasts to
        // 13 s. The next segment arrives at 27 s.
        assert_eq!(v.stalls, 1, "{v:?}");
        assert!((v.stalled_s - 14.0).abs() < 0.1, "{v:?}");
        assert!((v.mbps - 0.4).abs() < 1e-9, "{v:?}");
    }

    #[test]
    fn nothing_to_see() {
        assert_eq!(viewing(&flow(1.0, |_| 0.1), (0.0, 1.0)), None);
    }
}
