//! The C structure that holds an address.

use crate::errno::{Outcome, invalid};
use std::net::{IpAddr, SocketAddr, SocketAddrV6};

/// An address for functions of dccp_endpoint.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct dccp_address {
    /// The address: 4 or 16 bytes in network byte order.
    pub ip: [u8; 16],
    /// IP version: 4 or 6.
    pub version: u16,
    /// UDP port, in host byte order.
    pub port: u16,
    /// Interface of a link-local IPv6 address.
    pub scope: u32,
}

pub(super) fn address(addr: SocketAddr) -> dccp_address {
    let mut ip = [0; 16];
    let (version, scope) = match addr {
        SocketAddr::V4(addr) => {
            ip[..4].copy_from_slice(&addr.ip().octets());
            (4, 0)
        }
        SocketAddr::V6(addr) => {
            ip = addr.ip().octets();
            (6, addr.scope_id())
        }
    };
    dccp_address { ip, version, port: addr.port(), scope }
}

/// Converts an address of the caller.
///
/// # Safety
/// `from` must be null or readable.
pub(super) unsafe fn place(from: *const dccp_address) -> Outcome<SocketAddr> {
    if from.is_null() {
        return Err(invalid("the address is null"));
    }
    // SAFETY: the caller guarantees this.
    let dccp_address { ip, version, port, scope } = unsafe { from.read() };
    match version {
        4 => Ok(SocketAddr::new(IpAddr::from([ip[0], ip[1], ip[2], ip[3]]), port)),
        6 => Ok(SocketAddrV6::new(ip.into(), port, 0, scope).into()),
        other => Err(invalid(format!("dccp_address.version: invalid value {other}; expected 4 or 6"))),
    }
}
