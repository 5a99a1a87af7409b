use super::{Demand, Feedback, HalfConfig, SenderHalf, TxView};
use crate::Gate;
use dccp_wire::Seq;
use units::Time;

/// Sending half of the CCIDs that are fed by Ack Vectors (2, 5): history of packets in flight, loss detection,
/// RTT, delivery rate, pacing; the algorithm itself is a [`dccp_cc::Controller`].
#[derive(Debug)]
pub struct AckVecSender {}

impl AckVecSender {
    /// A fresh half for `ccid`.
    pub fn new(ccid: u8, cfg: &HalfConfig) -> AckVecSender {
        let _ = (ccid, cfg);
        todo!()
    }
}

impl SenderHalf for AckVecSender {
    fn gate(&self, _now: Time) -> Gate {
        todo!()
    }
    fn on_sent(&mut self, _now: Time, _seq: Seq, _bytes: u32, _data: bool) {
        todo!()
    }
    fn on_feedback(&mut self, _now: Time, _feedback: &Feedback<'_>) {
        todo!()
    }
    fn on_app_limited(&mut self, _now: Time) {
        todo!()
    }
    fn on_timeout(&mut self, _now: Time) {
        todo!()
    }
    fn next_timeout(&self) -> Option<Time> {
        todo!()
    }
    fn poll_demand(&mut self) -> Option<Demand> {
        todo!()
    }
    fn on_ack_ratio(&mut self, _ratio: u16) {
        todo!()
    }
    fn on_mtu(&mut self, _mtu: u16) {
        todo!()
    }
    fn hold_probe_rtt(&mut self, _hold: bool) {
        todo!()
    }
    fn view(&self) -> TxView {
        todo!()
    }
}
