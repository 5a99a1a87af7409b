//! Congestion Control IDs (RFC 4340 section 10). Each direction of a connection has a sending half at one end
//! and a receiving half at the other. Negotiation chooses their CCID, independently for each direction.

use crate::{CcOptions, Experiment};
use alloc::boxed::Box;
use core::any::Any;
use core::ops::RangeInclusive;
use dccp_wire::Seq;
use table::{AckVectors, Engine};

mod ackvec;
mod half;
mod table;
mod tfrc;

pub use ackvec::{AckVecReceiver, AckVecSender, Control};
pub use half::{
    AckDue, Arrival, Counts, Fated, Feedback, HalfConfig, Handover, Late, Outstanding, ReceiverHalf,
    SenderHalf, SenderRequest, TxLoad, TxView,
};
pub use table::{CCIDS, Ccid, find};
pub use tfrc::{TfrcReceiver, TfrcSenderHalf};

/// CCIDs for experiments (RFC 4340 section 19.5).
const EXPERIMENTAL: RangeInclusive<u8> = 248..=254;

/// Returns whether `ccid` requires Ack Vectors from its receiver (RFC 4341 section 4).
pub(crate) fn needs_ack_vector(ccid: u8) -> bool {
    match find(ccid) {
        Some(ccid) => matches!(ccid.engine, Engine::AckVectors(_)),
        None => EXPERIMENTAL.contains(&ccid),
    }
}

/// Returns whether the sending half of `ccid` uses Timestamps on acknowledgements.
pub(crate) fn uses_timestamps(ccid: u8) -> bool {
    find(ccid).is_some_and(|ccid| matches!(ccid.engine, Engine::AckVectors(by) if !by.strict))
}

/// Returns whether `ccid` is 3, or one that uses the options and features of CCID 3 (RFC 5622 section 8).
pub(crate) fn is_tfrc(ccid: u8) -> bool {
    find(ccid).is_some_and(|ccid| matches!(ccid.engine, Engine::Tfrc { .. }))
}

/// Returns whether the sending half of `ccid` understands options of type `kind`, 128 to 255
/// (RFC 4342 section 8, RFC 5622 section 8).
pub(crate) fn has_option(ccid: u8, kind: u8) -> bool {
    is_tfrc(ccid) && matches!(kind, 192..=194) || ccid == 4 && kind == 195
}

/// Returns whether this stack implements `ccid`.
pub fn is_known(ccid: u8) -> bool {
    find(ccid).is_some()
}

/// Returns the experiment that these settings register as `ccid`.
fn experiment(ccid: u8, cc: &CcOptions) -> Option<Experiment> {
    cc.experiment.filter(|experiment| experiment.ccid == ccid && EXPERIMENTAL.contains(&ccid))
}

/// Returns the kind of halves that run `ccid` with these settings, or `None` if none do.
fn engine(ccid: u8, cc: &CcOptions) -> Option<Engine> {
    if let Some(experiment) = experiment(ccid, cc) {
        return Some(Engine::AckVectors(AckVectors::new(experiment.controller)));
    }
    find(ccid).map(|ccid| ccid.engine)
}

/// Returns whether a connection with these settings can use `ccid`.
pub(crate) fn is_usable(ccid: u8, cc: &CcOptions) -> bool {
    engine(ccid, cc).is_some()
}

/// Creates the sending half of `ccid`. Returns `None` if the CCID is unknown.
pub fn sender(ccid: u8, cfg: &HalfConfig) -> Option<Box<dyn SenderHalf>> {
    Some(match engine(ccid, &cfg.cc)? {
        Engine::AckVectors(by) => Box::new(AckVecSender::new(&by, cfg)),
        Engine::Tfrc { small_packets } => Box::new(TfrcSenderHalf::new(small_packets, cfg)),
    })
}

/// Returns the half as its concrete type, if connections can share its congestion state.
pub(crate) fn shareable(half: &mut dyn SenderHalf) -> Option<&mut AckVecSender> {
    (half as &mut dyn Any).downcast_mut()
}

/// Creates a sending half of `ccid` that replaces `old`. Returns `None` if the CCID is unknown.
pub(crate) fn succeed(
    mut old: Box<dyn SenderHalf>,
    ccid: u8,
    acked: Seq,
    cfg: &HalfConfig,
) -> Option<Box<dyn SenderHalf>> {
    let engine = engine(ccid, &cfg.cc)?;
    if let (Engine::AckVectors(by), Some(half)) = (&engine, shareable(&mut *old)) {
        half.change_control(by, cfg);
        return Some(old);
    }
    let mut new = sender(ccid, cfg)?;
    new.take_over(&old.hand_over(cfg.now, acked));
    Some(new)
}

/// Returns whether both CCIDs can use the same receiving half.
pub(crate) fn same_receiver(one: u8, other: u8, cc: &CcOptions) -> bool {
    let by_vectors = |ccid| matches!(engine(ccid, cc), Some(Engine::AckVectors(_)));
    one == other || by_vectors(one) && by_vectors(other)
}

/// Creates the receiving half of `ccid`. Returns `None` if the CCID is unknown.
pub fn receiver(ccid: u8, cfg: &HalfConfig) -> Option<Box<dyn ReceiverHalf>> {
    Some(match engine(ccid, &cfg.cc)? {
        Engine::AckVectors(_) => Box::new(AckVecReceiver::new(cfg)),
        Engine::Tfrc { small_packets } => Box::new(TfrcReceiver::new(small_packets, cfg)),
    })
}

#[cfg(test)]
fn ms(ms: u64) -> mpdccp_units::Time {
    mpdccp_units::Time::from_millis(ms)
}
