//! Computes the mean opinion score of a telephone call with the delays and losses of a flow, by the E-model
//! of ITU-T G.107. All other parameters of the model have their defaults.

use super::arrivals::Delivery;

/// Length of the jitter buffer in milliseconds. A packet counts as lost if its delay exceeds the delay of the
/// fastest packet by more than this.
const BUFFER_MS: f64 = 60.0;
/// Milliseconds of speech per packet.
const FRAME_MS: f64 = 20.0;
/// Rating factor R of a call without delay and loss (G.107 defaults).
const R0: f64 = 93.2;
/// Packet-loss robustness factor (Bpl), in per cent, of G.711 with concealment (G.113 appendix I). This
/// codec's equipment impairment factor Ie is 0.
const BPL: f64 = 25.1;

/// Returns the mean opinion score of a call with `sent` packets.
pub(super) fn voip_mos(first: &[Delivery], sent: usize) -> Option<f64> {
    let latencies = || first.iter().filter_map(|d| d.latency_ms);
    let fastest = latencies().min_by(f64::total_cmp)?;
    let play_out = fastest + BUFFER_MS;
    let played = latencies().filter(|ms| *ms <= play_out).count();
    (sent > 0).then(|| mos(rating(play_out + FRAME_MS, 100.0 * (1.0 - played as f64 / sent as f64))))
}

/// Returns the rating factor R for a mouth-to-ear delay in milliseconds and a loss in per cent.
fn rating(delay: f64, loss: f64) -> f64 {
    // This is Cole and Rosenbluth's fit of G.107's delay impairment.
    let delayed = 0.024 * delay + 0.11 * (delay - 177.3).max(0.0);
    // This is the loss impairment of G.107 section 7.4 for random loss.
    let lost = 95.0 * loss / (loss + BPL);
    R0 - delayed - lost
}

/// Converts the rating factor R to a mean opinion score (G.107 annex B).
fn mos(r: f64) -> f64 {
    if r <= 0.0 {
        1.0
    } else if r >= 100.0 {
        4.5
    } else {
        (1.0 + 0.035 * r + r * (r - 60.0) * (100.0 - r) * 7e-6).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::arrivals::with_latencies;
    use super::*;

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() < 5e-3, "{a} is not {b}");
    }

    #[test]
    fn scores_of_ratings_as_g_107_has_them() {
        // The expected scores are from table B.1 of G.107.
        for (r, score) in
            [(93.2, 4.409), (80.0, 4.024), (70.0, 3.597), (50.0, 2.575), (-1.0, 1.0), (101.0, 4.5)]
        {
            near(mos(r), score);
        }
    }

    #[test]
    fn delay_and_loss_by_hand() {
        // At a delay of 100 ms, R is 93.2 - 2.4; at 277.3 ms, it is 93.2 - 6.655 - 11.
        near(rating(100.0, 0.0), 90.8);
        near(rating(277.3, 0.0), 75.545);
        // A loss of 5 % lowers R by 95 * 5 / 30.1 = 15.78.
        near(rating(0.0, 5.0), 77.419);
    }

    #[test]
    fn late_packets_are_lost() {
        // The fastest packet takes 20 ms, so one of the four packets that arrived is too late: it takes more
        // than 80 ms. A fifth packet was lost, so the loss is 40 %. The delay is 100 ms.
        let first = with_latencies(&[20.0, 80.0, 81.0, 40.0]);
        near(voip_mos(&first, 5).unwrap(), mos(90.8 - 95.0 * 40.0 / 65.1));
        assert_eq!(voip_mos(&[], 5), None);
    }
}
