//! Options that the peer confirms (RFC 9897 section 3.2.1).

use crate::PathId;
use alloc::vec::Vec;
use core::net::IpAddr;
use dccp_wire::{MpOption, Seq};
use mpdccp_units::{Duration, Time};

/// An option that needs confirmation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    Prio { path: PathId, prio: u8 },
    AddAddr { addr_id: u8, nonce: u32, addr: IpAddr, port: Option<u16> },
    RemoveAddr { addr_id: u8, nonce: u32 },
}

/// The subject of an option. A newer option on the same subject replaces an older one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dataset {
    Path(PathId),
    Address(u8),
}

impl Signal {
    pub(super) fn dataset(&self) -> Dataset {
        match *self {
            Signal::Prio { path, .. } => Dataset::Path(path),
            Signal::AddAddr { addr_id, .. } | Signal::RemoveAddr { addr_id, .. } => Dataset::Address(addr_id),
        }
    }

    pub(super) fn option(&self) -> MpOption<'static> {
        match *self {
            Signal::Prio { prio, .. } => MpOption::Prio(prio),
            Signal::AddAddr { addr_id, nonce, addr, port } => {
                MpOption::AddAddr { addr_id, nonce, addr, port }
            }
            Signal::RemoveAddr { addr_id, nonce } => MpOption::RemoveAddr { addr_id, nonce },
        }
    }
}

/// An option from this end that has not been confirmed yet.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) signal: Signal,
    /// MP_SEQs of the option's latest transmissions.
    pub(super) sent: Vec<Seq>,
    pub(super) due: Time,
    pub(super) gap: Duration,
}
