//! Normal form of states. States that differ only in their numbers count as one state.

use super::*;

impl State {
    /// Returns the same state with its numbers replaced. Their order is preserved, as is whether sequence
    /// numbers are adjacent.
    pub(super) fn normal(&self) -> State {
        let mut state = self.clone();
        for half in state.conns.iter_mut().flatten() {
            if matches!(half.state, Conn::Closed | Conn::TimeWait) {
                *half = Half { state: half.state, inc: half.inc, ..Half::default() };
            }
        }
        for c in 0..=state.joins {
            rename(&mut |visit| state.incarnations(c, visit), false);
            rename(&mut |visit| state.sequence_numbers(c, CLIENT, visit), true);
            rename(&mut |visit| state.sequence_numbers(c, SERVER, visit), true);
        }
        rename(&mut |visit| state.mp_seqs(CLIENT, visit), false);
        rename(&mut |visit| state.mp_seqs(SERVER, visit), false);
        state.net.sort_unstable();
        state
    }

    fn incarnations(&mut self, c: usize, visit: Visit<'_>) {
        self.conns[c].iter_mut().for_each(|half| visit(&mut half.inc));
        self.net.iter_mut().filter(|p| p.conn == c).for_each(|p| visit(&mut p.inc));
    }

    /// Visits the numbers of the packets of one end.
    fn sequence_numbers(&mut self, c: usize, from: usize, visit: Visit<'_>) {
        let [half, peer] = [from, 1 - from].map(|end| self.conns[c][end]);
        let (mut half, mut peer) = (half, peer);
        [&mut half.gss, &mut half.gar, &mut peer.gsr, &mut peer.isr].into_iter().for_each(&mut *visit);
        (self.conns[c][from], self.conns[c][1 - from]) = (half, peer);
        for packet in self.net.iter_mut().filter(|p| p.conn == c) {
            match packet.from == from {
                true => visit(&mut packet.seq),
                false => packet.ack.iter_mut().for_each(&mut *visit),
            }
        }
    }

    /// Visits the MP_SEQs of one end.
    fn mp_seqs(&mut self, end: usize, visit: Visit<'_>) {
        visit(&mut self.next_mp_seq[end]);
        for (first, newest) in self.pending[end].iter_mut().flatten().filter_map(|p| p.sent.as_mut()) {
            visit(first);
            visit(newest);
        }
        match end {
            CLIENT => {
                let heard = self.conns.iter_mut().filter_map(|c| c[SERVER].prio.as_mut());
                heard.for_each(|(_, mp_seq)| visit(mp_seq));
            }
            _ => self.known.iter_mut().flatten().for_each(|(_, mp_seq)| visit(mp_seq)),
        }
        for packet in &mut self.net {
            match &mut packet.kind {
                Data(_, mp_seq) if packet.from == end => visit(mp_seq),
                Ack { confirms: Some((_, mp_seq)), .. } if packet.from != end => visit(mp_seq),
                _ => {}
            }
        }
    }
}

/// A function that is called with each number.
type Visit<'a> = &'a mut dyn FnMut(&mut u16);

/// Replaces the visited numbers by the smallest values in the same order. Zero stays zero. If `adjacent`,
/// adjacent numbers stay adjacent.
fn rename(numbers: &mut dyn FnMut(Visit<'_>), adjacent: bool) {
    let (mut used, mut len) = ([(0, 0); 64], 0);
    numbers(&mut |n| (used[len], len) = ((*n, 0), len + 1));
    used[..len].sort_unstable();
    let (mut old, mut new) = (0, 0);
    for (number, name) in used[..len].iter_mut().filter(|(n, _)| *n > 0) {
        if *number > old {
            new += if adjacent && old > 0 { (*number - old).min(2) } else { 1 };
            old = *number;
        }
        *name = new;
    }
    numbers(&mut |n| *n = used[..len].iter().find(|(number, _)| number == n).map_or(0, |(_, name)| *name));
}
