use crate::{AckEvent, CcConfig, Controller, Limits, Sent};
use units::Time;

/// BBR version 1 (draft-cardwell-iccrg-bbr-congestion-control-00).
#[derive(Debug)]
pub struct Bbr1 {}

impl Bbr1 {
    /// A fresh one.
    pub fn new(cfg: &CcConfig) -> Bbr1 {
        let _ = cfg;
        todo!()
    }
}

impl Controller for Bbr1 {
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
