use crate::{AckEvent, CcConfig, Controller, Limits, Sent};
use units::Time;

/// AIMD congestion control as TCP's, counted as RFC 4341 section 5 wants.
#[derive(Debug)]
pub struct Reno {}

impl Reno {
    /// A fresh one.
    pub fn new(cfg: &CcConfig) -> Reno {
        let _ = cfg;
        todo!()
    }
}

impl Controller for Reno {
    fn on_sent(&mut self, _pkt: &Sent) {
        todo!()
    }
    fn on_ack(&mut self, _ev: &AckEvent<'_>) {
        todo!()
    }
    fn on_rto(&mut self, _now: Time) {
        todo!()
    }
    fn on_idle_restart(&mut self, _now: Time) {
        todo!()
    }
    fn on_mtu(&mut self, _mtu: u16) {
        todo!()
    }
    fn limits(&self) -> Limits {
        todo!()
    }
    fn phase(&self) -> &'static str {
        todo!()
    }
}
