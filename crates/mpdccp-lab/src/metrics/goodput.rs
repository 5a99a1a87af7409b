//! Measures goodput: bytes received by the application, without duplicates (RFC 2647 section 3.17).

use crate::record::FlowRecord;

use super::arrivals::Delivery;

/// Returns the goodput in Mbit/s between `from` and `to` seconds. For TCP, goodput counts the bytes that the
/// application read in order; for other flows, the first copy of each packet. Packets still in flight at `to`
/// do not count: otherwise, a long queue would look like a fast link.
pub(super) fn goodput_mbps(flow: &FlowRecord, first: &[Delivery], (from, to): (f64, f64)) -> Option<f64> {
    let bytes = match flow.stream_bytes {
        Some(bytes) => bytes,
        None if flow.kind == "tcp" && flow.offered.is_none() => return None,
        None => first.iter().filter(|d| d.at <= to).map(|d| u64::from(d.bytes)).sum(),
    };
    (to > from).then(|| bytes as f64 * 8.0 / 1e6 / (to - from))
}

#[cfg(test)]
mod tests {
    use super::super::arrivals::at_times;
    use super::*;

    #[test]
    fn bytes_read_of_tcp_and_first_copies_of_others() {
        let first = at_times(&[(0.0, 1000), (1.0, 1500)]);
        let udp = FlowRecord { kind: "udp".into(), ..FlowRecord::default() };
        // The receiver got 2,500 bytes in 4 s.
        assert_eq!(goodput_mbps(&udp, &first, (1.0, 5.0)), Some(0.005));
        // The second packet arrived after 0.5 s, so it does not count.
        assert_eq!(goodput_mbps(&udp, &first, (0.0, 0.5)), Some(0.016));
        let tcp = FlowRecord { kind: "tcp".into(), stream_bytes: Some(1_000_000), ..FlowRecord::default() };
        assert_eq!(goodput_mbps(&tcp, &first, (0.0, 4.0)), Some(2.0));
        let unknown = FlowRecord { kind: "tcp".into(), ..FlowRecord::default() };
        assert_eq!(goodput_mbps(&unknown, &first, (0.0, 4.0)), None);
    }
}
