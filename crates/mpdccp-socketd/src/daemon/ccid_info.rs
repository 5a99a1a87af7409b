//! The values of the options DCCP_SOCKOPT_CCID_TX_INFO and DCCP_SOCKOPT_CCID_RX_INFO for CCID 3, in the form
//! of the kernel's structures (linux/tfrc.h). As in the kernel, CCID 2 has no such values.

use mpdccp_proto::SessionStatus;
use mpdccp_units::{Duration, Rate};

const CCID3: u8 = 3;
/// Some rates in the structures are in units of 1/64 byte per second.
const SCALE: u64 = 64;

fn microseconds(time: Option<Duration>) -> u32 {
    time.map_or(0, |time| u32::try_from(time.as_micros()).unwrap_or(u32::MAX))
}

fn bytes(rate: Rate) -> u64 {
    rate.bps() / 8
}

/// Returns a `struct tfrc_tx_info`. It contains the allowed rate, the received rate, the calculated rate, the
/// round-trip time, the loss event rate, the retransmission timeout, and the interval between packets.
pub(super) fn sender(status: Option<&SessionStatus>) -> Option<Vec<u8>> {
    let path = status?.paths.first()?;
    let tx = path.tx.as_ref().filter(|_| path.ccids.is_some_and(|(ours, _)| ours == CCID3))?;
    let allowed = tx.pacing.unwrap_or(tx.delivery_rate);
    let rtt = tx.rtt.srtt();
    // The fraction of lost packets among all acknowledged or lost packets, in millionths.
    let seen = tx.lost.packets + tx.delivered.packets;
    let loss = (tx.lost.packets * 1_000_000).checked_div(seen).unwrap_or(0);
    // The timeout is the nofeedback timeout of RFC 5348 section 4.3: four round-trip times. The packet size
    // is the mean of all packets so far.
    let size = tx.sent.bytes.checked_div(tx.sent.packets).unwrap_or(0);
    let interval = (allowed > Rate::ZERO).then(|| allowed.time_for(size));
    let mut info = Vec::new();
    info.extend((bytes(allowed) * SCALE).to_ne_bytes());
    info.extend((bytes(tx.delivery_rate) * SCALE).to_ne_bytes());
    let small = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    for field in [
        small(bytes(allowed)),
        microseconds(rtt),
        small(loss),
        microseconds(rtt.map(|rtt| rtt * 4)),
        microseconds(interval),
    ] {
        info.extend(field.to_ne_bytes());
    }
    // Padding, because the size of the structure is a multiple of eight bytes.
    info.extend([0; 4]);
    Some(info)
}

/// Returns a `struct tfrc_rx_info`. It contains the mean receive rate since the connection opened, and the
/// round-trip time. Its loss event rate is 0, because only the sender computes it in this implementation.
pub(super) fn receiver(status: Option<&SessionStatus>, open: Duration) -> Option<Vec<u8>> {
    let path = status?.paths.first().filter(|path| path.ccids.is_some_and(|(_, theirs)| theirs == CCID3))?;
    let rtt = path.tx.as_ref().and_then(|tx| tx.rtt.srtt());
    let rate = bytes(Rate::from_bytes_per(path.stats.bytes_received, open.max(Duration::from_millis(1))));
    let rate = u32::try_from(rate).unwrap_or(u32::MAX);
    Some([rate, microseconds(rtt), 0].iter().flat_map(|field| field.to_ne_bytes()).collect())
}
