//! Requests from hosts that the endpoint does not know.

use dccp_proto::Route;
use dccp_wire::{Header, PacketType, Seq};
use std::net::{Ipv4Addr, SocketAddr};

use super::{PORT, emit};

/// Returns the source of the `n`-th Request. There are 256 addresses with many ports each.
pub fn stranger(n: u32) -> Route {
    let ip = Ipv4Addr::from(0x0a00_0000 | n & 0xff);
    Route { socket: 0, local: None, remote: SocketAddr::new(ip.into(), 1000 + (n >> 8) as u16) }
}

/// Returns the header of the `n`-th Request.
pub fn request_header(n: u32) -> Header {
    let header = Header::new((n as u16, PORT), PacketType::Request, Seq::new(u64::from(n) << 20));
    Header { service_code: Some(7), ..header }
}

/// Returns the `n`-th Request, with these options.
pub fn request_with(n: u32, options: &[u8]) -> Vec<u8> {
    emit(&request_header(n), options, &[])
}
