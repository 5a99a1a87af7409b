//! Reports the sending half's state in the form of Linux's `tcp_info`.

use super::loss_detector::Cause;
use super::sender::Sender;
use super::timers::timeout;

/// Linux's value for an infinite slow-start threshold.
const INFINITE: u64 = 0x7fff_ffff;

impl Sender {
    /// Returns a field of `tcp_info` by name, or `None` if the model lacks the field.
    pub(crate) fn info(&self, field: &str) -> Option<i64> {
        let repairing = self.board.repairing() as u64;
        let value = match field {
            "tcpi_ca_state" => self.ca_state(),
            "tcpi_snd_cwnd" => self.window(&self.cc.limits()).packets(self.mtu()),
            "tcpi_snd_ssthresh" => self.cc.threshold().unwrap_or(INFINITE),
            "tcpi_unacked" => self.board.len() as u64,
            "tcpi_sacked" => self.board.arrived(),
            "tcpi_lost" => self.board.missing() as u64,
            "tcpi_retrans" => repairing,
            "tcpi_total_retrans" => self.counters.retransmits,
            "tcpi_dsack_dups" => self.counters.dsack,
            "tcpi_backoff" => u64::from(self.timers.backoff()),
            "tcpi_rtt" => self.oldest_rtt.srtt().unwrap_or_default().as_micros() as u64,
            "tcpi_rto" => timeout(&self.oldest_rtt).as_micros() as u64,
            _ => return None,
        };
        Some(value as i64)
    }

    /// Returns the state of congestion avoidance, from `TCP_CA_Open` to `TCP_CA_Loss`.
    fn ca_state(&self) -> u64 {
        match (self.recover, self.cause) {
            (Some(_), Cause::Timeout) => 4,
            (Some(_), Cause::Hole) => 3,
            (Some(_), Cause::Mark) => 2,
            (None, _) if self.board.arrived() > 0 || self.board.repairing() > 0 => 1,
            (None, _) => 0,
        }
    }
}
