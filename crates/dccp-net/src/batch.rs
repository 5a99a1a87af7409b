use crate::Burst;
use crate::channels::is_channel;
use crate::outer_mark::{Mark, Marking, Part};
use crate::secure::{HEADER, TAG};
use dccp_proto::{Ecn, Route, Sink};
use std::net::{IpAddr, SocketAddr};

/// Maximum number of packets in a [`Run`] (the kernel's UDP_MAX_SEGMENTS), and maximum number of bytes.
const MAX_SEGMENTS: usize = 64;
const MAX_BYTES: usize = 65_000;

/// Packets of equal size for one route, all with the same ECN field. Only the last may be shorter.
#[derive(Debug)]
pub struct Run {
    route: Route,
    ecn: Ecn,
    segment: usize,
    /// Whether the run is complete, either because of a shorter packet or because of [`Sink::separate`].
    closed: bool,
    /// Only the first `used` bytes are in use. The buffer keeps its length between turns, so that bytes need
    /// not be cleared before they are overwritten.
    bytes: Vec<u8>,
    used: usize,
}

impl Run {
    /// Returns the route of the run.
    pub fn route(&self) -> &Route {
        &self.route
    }

    /// Returns the ECN field of all packets of the run.
    pub(crate) fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.used]
    }

    /// Returns the run as a burst for a socket, with the addresses of the run's route.
    pub fn burst(&self) -> Burst<'_> {
        let (local, remote) = (self.route.local, self.route.remote);
        Burst { local, remote, dscp: 0, ecn: self.ecn, segment: self.segment, bytes: self.bytes() }
    }

    /// Returns the packets of `part` as a burst for a socket, with the current addresses of the channel.
    pub(crate) fn burst_to(&self, part: &Part, local: Option<IpAddr>, remote: SocketAddr) -> Burst<'_> {
        let at = |packet: usize| (packet * self.segment).min(self.used);
        let bytes = &self.bytes[at(part.packets.start)..at(part.packets.end)];
        Burst { local, remote, dscp: part.mark.dscp, ecn: part.mark.ecn, segment: self.segment, bytes }
    }

    /// Splits the run into parts of consecutive packets that have the same [`Mark`]. Without `marking`, the
    /// whole run is one part. Call this before the records are sealed.
    pub(crate) fn parts(&self, marking: Option<&dyn Marking>, parts: &mut Vec<Part>) {
        parts.clear();
        let Some(marking) = marking else {
            let packets = 0..self.used.div_ceil(self.segment.max(1));
            return parts.push(Part { packets, mark: Mark { dscp: 0, ecn: self.ecn } });
        };
        for (i, packet) in self.packets().enumerate() {
            let mark = marking.outer_of(packet, self.ecn);
            match parts.last_mut() {
                Some(part) if part.mark == mark => part.packets.end = i + 1,
                _ => parts.push(Part { packets: i..i + 1, mark }),
            }
        }
    }

    /// Returns the packets without the header and tag of the channel.
    pub(crate) fn packets(&self) -> impl Iterator<Item = &[u8]> {
        let (head, tail) = margins(&self.route);
        let inner = move |packet: &'_ [u8]| packet.len().saturating_sub(tail);
        self.bytes().chunks(self.segment.max(1)).map(move |packet| &packet[head..inner(packet)])
    }

    /// Returns the unsealed records of a channel, to be sealed in place, and the size of each record except
    /// the last.
    pub(crate) fn records_mut(&mut self) -> (&mut [u8], usize) {
        (&mut self.bytes[..self.used], self.segment)
    }

    fn takes(&self, ecn: Ecn, len: usize) -> bool {
        !self.closed
            && self.ecn == ecn
            && len <= self.segment
            && self.used + len <= MAX_BYTES.min(MAX_SEGMENTS * self.segment)
    }
}

/// The packets that one turn of the loop sends, collected in runs. Each run takes one system call. The
/// packets of a route stay in order.
#[derive(Debug, Default)]
pub struct Batch {
    runs: Vec<Run>,
    /// Empty buffers kept for reuse.
    spare: Vec<Vec<u8>>,
}

impl Batch {
    /// Removes and returns the runs, oldest first.
    pub(crate) fn take(&mut self) -> Vec<Run> {
        std::mem::take(&mut self.runs)
    }

    /// Takes back the emptied list of runs to reuse its memory.
    pub(crate) fn put_list(&mut self, runs: Vec<Run>) {
        self.runs = runs;
    }

    /// Takes back a run from [`take`](Self::take) to reuse its memory.
    pub(crate) fn put(&mut self, run: Run) {
        self.spare.push(run.bytes);
    }

    /// Returns the runs, oldest first.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Removes all runs but keeps their memory.
    pub fn clear(&mut self) {
        self.spare.extend(self.runs.drain(..).map(|run| run.bytes));
    }
}

/// Returns how many bytes must be free before and after a packet.
fn margins(route: &Route) -> (usize, usize) {
    if is_channel(route.socket) { (HEADER, TAG) } else { (0, 0) }
}

impl Sink for Batch {
    fn reserve(&mut self, route: &Route, ecn: Ecn, len: usize) -> &mut [u8] {
        let (head, tail) = margins(route);
        let packet = head..head + len;
        let len = len + head + tail;
        // Only the newest run of a route may grow. Otherwise the packets of a path would be reordered.
        let newest = self.runs.iter().rposition(|run| run.route == *route);
        let at = match newest.filter(|&i| self.runs[i].takes(ecn, len)) {
            Some(i) => i,
            None => {
                let bytes = self.spare.pop().unwrap_or_default();
                self.runs.push(Run { route: *route, ecn, segment: len, closed: false, bytes, used: 0 });
                self.runs.len() - 1
            }
        };
        let run = &mut self.runs[at];
        run.closed = len < run.segment;
        let start = run.used;
        run.used += len;
        if run.bytes.len() < run.used {
            run.bytes.resize(run.used, 0);
        }
        &mut run.bytes[start..][packet]
    }

    fn separate(&mut self, route: &Route) {
        if let Some(run) = self.runs.iter_mut().rfind(|run| run.route == *route) {
            run.closed = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(socket: u32) -> Route {
        Route { socket, local: None, remote: ([127, 0, 0, 1], 6511).into() }
    }

    fn shape(batch: &Batch) -> Vec<(u32, Ecn, usize, usize)> {
        batch.runs().iter().map(|r| (r.route.socket, r.ecn, r.segment, r.used)).collect()
    }

    #[test]
    fn equal_neighbours_share_a_run_and_a_shorter_one_ends_it() {
        let mut batch = Batch::default();
        for len in [100, 100, 60, 100] {
            batch.reserve(&route(0), Ecn::Ect0, len).fill(1);
        }
        assert_eq!(shape(&batch), [(0, Ecn::Ect0, 100, 260), (0, Ecn::Ect0, 100, 100)]);
    }

    #[test]
    fn nothing_joins_a_run_that_was_separated() {
        let mut batch = Batch::default();
        for separate in [false, true, false] {
            for socket in [0, 1] {
                batch.reserve(&route(socket), Ecn::Ect0, 100).fill(1);
            }
            if separate {
                batch.separate(&route(0));
            }
        }
        let expected = [(0, Ecn::Ect0, 100, 200), (1, Ecn::Ect0, 100, 300), (0, Ecn::Ect0, 100, 100)];
        assert_eq!(shape(&batch), expected);
    }

    #[test]
    fn interleaved_routes_keep_their_runs() {
        let mut batch = Batch::default();
        for i in 0..6 {
            batch.reserve(&route(i % 2), Ecn::Ect0, 100).fill(1);
        }
        assert_eq!(shape(&batch), [(0, Ecn::Ect0, 100, 300), (1, Ecn::Ect0, 100, 300)]);
    }

    #[test]
    fn order_within_a_route_survives_other_ecn_fields() {
        let mut batch = Batch::default();
        for (n, ecn) in [(1, Ecn::Ect0), (2, Ecn::NotEct), (3, Ecn::Ect0)] {
            batch.reserve(&route(0), ecn, 10).fill(n);
        }
        let order: Vec<u8> = batch.runs().iter().flat_map(|r| r.bytes().chunks(10).map(|c| c[0])).collect();
        assert_eq!(order, [1, 2, 3]);
    }

    #[test]
    fn packets_of_a_channel_have_room_around_them() {
        let mut batch = Batch::default();
        let channel = route(crate::channels::FIRST);
        for (n, len) in [(1, 100), (2, 100), (3, 40)] {
            batch.reserve(&channel, Ecn::Ect0, len).fill(n);
        }
        assert_eq!(shape(&batch), [(channel.socket, Ecn::Ect0, 132, 2 * 132 + 72)]);
        let packets: Vec<Vec<u8>> = batch.runs()[0].packets().map(<[u8]>::to_vec).collect();
        assert_eq!(packets, [vec![1; 100], vec![2; 100], vec![3; 40]]);
        let (records, segment) = batch.runs[0].records_mut();
        assert_eq!((segment, &records[..16], &records[116..132]), (132, &[0; 16][..], &[0; 16][..]));
    }

    #[test]
    fn runs_stay_within_what_one_call_may_carry() {
        let mut batch = Batch::default();
        for _ in 0..100 {
            batch.reserve(&route(0), Ecn::Ect0, 1400).fill(1);
            batch.reserve(&route(1), Ecn::Ect0, 40).fill(1);
        }
        assert!(batch.runs().iter().all(|r| r.used <= MAX_BYTES));
        assert!(batch.runs().iter().all(|r| r.used.div_ceil(r.segment) <= MAX_SEGMENTS));
        assert_eq!(batch.runs().iter().map(|r| r.used).sum::<usize>(), 100 * 1440);
        batch.clear();
        assert!(batch.runs().is_empty());
    }
}
