use super::{AckDue, Arrival, Feedback, HalfConfig, ReceiverHalf};
use dccp_wire::{OptionBuf, Seq};
use units::{Duration, Time};

/// Receiving half that acknowledges with Ack Vectors, one Ack for every Ack Ratio data packets (RFC 4341 section 6).
#[derive(Debug)]
pub struct AckVecReceiver {}

impl AckVecReceiver {
    /// A fresh half.
    pub fn new(cfg: &HalfConfig) -> AckVecReceiver {
        let _ = cfg;
        todo!()
    }
}

impl ReceiverHalf for AckVecReceiver {
    fn on_packet(&mut self, _now: Time, _arrival: &Arrival) {
        todo!()
    }
    fn ack_due(&self, _now: Time) -> AckDue {
        todo!()
    }
    fn write_feedback(&mut self, _now: Time, _seq: Seq, _ack: Seq, _room: usize, _out: &mut OptionBuf) {
        todo!()
    }
    fn on_ack_of_ack(&mut self, _now: Time, _feedback: &Feedback<'_>) {
        todo!()
    }
    fn on_ack_ratio(&mut self, _ratio: u16) {
        todo!()
    }
    fn on_send_ack_vector(&mut self, _on: bool) {
        todo!()
    }
    fn on_rtt(&mut self, _rtt: Duration) {
        todo!()
    }
}
