//! Measures the extent (RFC 4737 section 4.2) and the density (RFC 5236) of reordering.

use super::arrivals::Delivery;
use crate::estimate::percentile;

/// Reordering among a flow's arrivals, duplicates excluded.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Reordering {
    /// The 95th percentile and the maximum of the reordering extent. They are zero without reordering. The
    /// extent of a reordered packet is the number of arrivals since the first arrival with a larger sequence
    /// number (RFC 4737 section 4.2.2).
    pub(super) extent_p95: f64,
    pub(super) extent_max: f64,
    /// Percentage of arrivals whose position is not that of their sequence number (1 minus the density at
    /// displacement 0, RFC 5236).
    pub(super) displaced_pct: f64,
    /// Mean absolute displacement over all arrivals, in packets.
    pub(super) displacement: f64,
}

/// Measures the reordering. Returns `None` if nothing arrived.
pub(super) fn reordering(first: &[Delivery]) -> Option<Reordering> {
    if first.is_empty() {
        return None;
    }
    let seqs: Vec<u64> = first.iter().map(|d| d.seq).collect();
    let mut extents = extents(&seqs);
    extents.sort_unstable();
    let displacements = displacements(&seqs);
    let n = displacements.len() as f64;
    Some(Reordering {
        extent_p95: percentile(&extents, 95.0).map_or(0.0, |e| e as f64),
        extent_max: extents.last().map_or(0.0, |e| *e as f64),
        displaced_pct: displacements.iter().filter(|d| **d != 0).count() as f64 * 100.0 / n,
        displacement: displacements.iter().sum::<u64>() as f64 / n,
    })
}

/// Returns the extent of each reordered packet: the number of arrivals since the first arrival with a larger
/// number.
fn extents(seqs: &[u64]) -> Vec<usize> {
    // All arrivals whose number is larger than the numbers of all earlier arrivals. For any number, the first
    // arrival with a larger number is in this list.
    let mut records: Vec<(u64, usize)> = Vec::new();
    let mut out = Vec::new();
    for (i, seq) in seqs.iter().enumerate() {
        match records.get(records.partition_point(|(largest, _)| largest < seq)) {
            Some((_, at)) => out.push(i - at),
            None => records.push((*seq, i)),
        }
    }
    out
}

/// Returns the distance of each arrival from its position in the sorted list of received packets. Lost
/// packets have no position (RFC 5236).
fn displacements(seqs: &[u64]) -> Vec<u64> {
    let mut in_order = seqs.to_vec();
    in_order.sort_unstable();
    let place = |seq: &u64| in_order.partition_point(|s| s < seq);
    seqs.iter().enumerate().map(|(i, seq)| place(seq).abs_diff(i) as u64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(seqs: &[u64]) -> Vec<Delivery> {
        seqs.iter().map(|seq| Delivery { seq: *seq, at: 0.0, latency_ms: None, bytes: 1 }).collect()
    }

    #[test]
    fn extents_as_in_the_example_of_rfc_4737() {
        // RFC 4737 section 7.3, table 2: packet 4 arrives after packets 5 to 8, so its extent is 4.
        assert_eq!(extents(&[1, 2, 3, 5, 6, 7, 8, 4, 9, 10]), [4]);
        // Table 3: packets 4, 5 and 6 arrive after packets 7 to 10.
        assert_eq!(extents(&[1, 2, 3, 7, 8, 9, 10, 4, 5, 6, 11]), [4, 5, 6]);
    }

    #[test]
    fn density_by_hand() {
        assert_eq!(displacements(&[1, 4, 2, 5, 3, 6, 7, 8]), [0, 2, 1, 1, 2, 0, 0, 0]);
        let r = reordering(&arrivals(&[1, 4, 2, 5, 3, 6, 7, 8])).unwrap();
        assert_eq!((r.displaced_pct, r.displacement), (50.0, 0.75));
        // Packet 2 arrives one position after packet 4, and packet 3 three positions after packet 4.
        assert_eq!((r.extent_p95, r.extent_max), (3.0, 3.0));
    }

    #[test]
    fn losses_are_no_reordering() {
        assert_eq!(reordering(&arrivals(&[0, 1, 5, 6, 9])), Some(Reordering::default()));
        assert_eq!(reordering(&[]), None);
    }
}
