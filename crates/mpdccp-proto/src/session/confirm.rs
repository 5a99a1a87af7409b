//! Options that need confirmation: retransmits this end's options, and confirms the peer's with MP_CONFIRM
//! (RFC 9897 section 3.2.1).

use super::signal::{Dataset, Pending, Signal};
use super::{Session, encode};
use crate::Counter;
use crate::PathId;
use crate::keys::By;
use alloc::vec::Vec;
use dccp_proto::{Gate, Sink};
use dccp_wire::{MpOption, Opt, Options, Seq};
use mpdccp_units::{Duration, Time};

/// Longest interval between retransmissions of an option. RFC 9897 leaves the timing open: this
/// implementation waits two RTOs before the first retransmission, and doubles the wait before each further
/// one.
const MAX_GAP: Duration = Duration::from_secs(64);
/// Number of transmissions of an option that a confirmation may answer. Because the intervals double, the
/// oldest of them is long past.
const MAX_SENT: usize = 8;

impl Session {
    /// Sends an option repeatedly until the peer confirms it or a newer option replaces it.
    pub(super) fn signal(&mut self, now: Time, signal: Signal) {
        self.pending.retain(|p| p.signal.dataset() != signal.dataset());
        self.pending.push(Pending { signal, sent: Vec::new(), due: now, gap: Duration::ZERO });
    }

    /// Drops unconfirmed removals once their retransmission interval has reached [`MAX_GAP`].
    /// RFC 9897 section 3.2.9: a peer that never learned of the address silently ignores its removal, so it
    /// never confirms it.
    fn give_up_removals(&mut self, now: Time) {
        let unheard = |p: &mut Pending| {
            matches!(p.signal, Signal::RemoveAddr { .. }) && p.due <= now && p.gap >= MAX_GAP
        };
        for given_up in self.pending.extract_if(.., unheard).collect::<Vec<_>>() {
            if let Signal::RemoveAddr { addr_id, .. } = given_up.signal {
                self.release_addr_id(addr_id);
            }
        }
    }

    /// Drops the pending options of a subflow that is gone.
    pub(super) fn forget_signals_of(&mut self, path: PathId) {
        self.pending.retain(|p| p.signal.dataset() != Dataset::Path(path));
    }

    /// Returns when the next retransmission is due.
    pub(super) fn signal_timeout(&self) -> Option<Time> {
        // An option that was already due at the last transmission waits until a path can send, not for a
        // timer.
        self.pending.iter().map(|p| p.due).filter(|due| *due > self.polled).min()
    }

    /// Sends the options that are due, each on a DCCP-Data packet without payload. Options that need
    /// confirmation need an MP_SEQ, and separate packets keep the size of other packets constant. If no path
    /// can send an option now, returns when one can.
    pub(super) fn transmit_signals(&mut self, now: Time, sink: &mut dyn Sink) -> Option<Time> {
        self.give_up_removals(now);
        let mut wait = None;
        for n in 0..self.pending.len() {
            let Pending { signal, due, .. } = self.pending[n];
            let suits = |id| !matches!(signal, Signal::Prio { path, .. } if path != id);
            if due > now {
                continue;
            }
            let gates = self.paths.iter().enumerate().filter(|(_, p)| p.is_up() && suits(p.id));
            let mut open = None;
            for (i, gate) in gates.map(|(i, p)| (i, p.gate(now))) {
                match gate {
                    Gate::Open { .. } => open = open.or(Some(i)),
                    Gate::At(t, _) => wait = Some(wait.map_or(t, |w: Time| w.min(t))),
                    Gate::Closed(_) => {}
                }
            }
            let Some(i) = open else { continue };
            let mp_seq = self.next_mp_seq;
            self.next_mp_seq = mp_seq.next();
            let mut options = encode(&[MpOption::Seq(mp_seq), signal.option()]);
            // RFC 9897 section 3.2.6: the HMAC directly follows the option that it covers.
            let tag = match signal {
                Signal::Prio { .. } => None,
                Signal::AddAddr { addr_id, nonce, addr, port } => {
                    Some(self.keys.add_addr(By::Local, addr_id, nonce, addr, port))
                }
                Signal::RemoveAddr { addr_id, nonce } => {
                    Some(self.keys.remove_addr(By::Local, addr_id, nonce))
                }
            };
            if let Some(tag) = &tag {
                options.push(&Opt::Mp(MpOption::Hmac(tag)));
            }
            let rto = self.paths[i].rto;
            self.paths[i].transmit(now, options.as_bytes(), &[], sink);
            let pending = &mut self.pending[n];
            if pending.sent.len() == MAX_SENT {
                pending.sent.remove(0);
            }
            pending.sent.push(mp_seq);
            pending.gap = (pending.gap * 2).clamp(rto * 2, MAX_GAP.max(rto * 2));
            pending.due = now + pending.gap;
        }
        wait
    }

    pub(super) fn on_confirm(&mut self, list: &[u8]) {
        let mut mp_seq = None;
        for option in Options::new(list).map_while(Result::ok) {
            match (option, mp_seq) {
                (Opt::Mp(MpOption::Seq(seq)), _) => mp_seq = Some(seq),
                (Opt::Mp(option), Some(seq)) => {
                    // All transmissions carried the same value, so a confirmation of any of them is valid.
                    // Only the MP_SEQ tells apart equal priorities of several subflows.
                    let confirmed = |p: &Pending| p.signal.option() == option && p.sent.contains(&seq);
                    let Some(n) = self.pending.iter().position(confirmed) else {
                        self.count(Counter::ConfirmUnexpected);
                        continue;
                    };
                    if let Signal::RemoveAddr { addr_id, .. } = self.pending.swap_remove(n).signal {
                        self.release_addr_id(addr_id);
                    }
                }
                _ => return self.count(Counter::ConfirmMalformed),
            }
        }
    }

    /// Confirms `options`, which arrived with `mp_seq`, on the path on which they arrived.
    pub(super) fn confirm(&mut self, i: usize, mp_seq: Seq, options: &[MpOption<'_>]) {
        let mut group = encode(&[MpOption::Seq(mp_seq)]);
        for option in options {
            group.push(&Opt::Mp(*option));
        }
        let confirm = encode(&[MpOption::Confirm(group.as_bytes())]);
        if let Some(conn) = &mut self.paths[i].conn {
            conn.send_options(confirm.as_bytes());
        }
    }
}
