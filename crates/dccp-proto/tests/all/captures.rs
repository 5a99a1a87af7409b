//! Reads captures of Linux.

#[path = "../../../dccp-wire/tests/all/common/pcap.rs"]
#[allow(dead_code)]
mod pcap;

use mpdccp_units::Time;
use std::path::Path;

/// Returns the time and the DCCP packet of each frame. The IPv4 headers must not have options.
pub(crate) fn capture(name: &str) -> Vec<(Time, Vec<u8>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/pcaps").join(name);
    let dccp = |ip: Vec<u8>| ip[20..usize::from(u16::from_be_bytes([ip[2], ip[3]]))].to_vec();
    let native = pcap::read_timed(&path).into_iter().filter(|(_, ip)| (ip[0], ip[9]) == (0x45, 33));
    native.map(|(at, ip)| (Time::from_micros(at), dccp(ip))).collect()
}
