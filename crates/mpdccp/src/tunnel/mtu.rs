//! How large packets may be: what the system says goes to the sessions, which try it; what they find rules the interface, per peer.

use crate::tunnel::app::TunnelApp;
use crate::tunnel::inner::{self, TooBig};
use crate::tunnel::setup;
use dccp_net::Core;
use mpdccp_proto::{PathId, PathState, PktInfo, SessionId};
use std::collections::BTreeMap;
use std::sync::{MutexGuard, PoisonError};
use units::{Duration, Time};

/// At most so many answers to packets that are too large within [`PER`] (RFC 4443 section 2.4f, RFC 1812 section 4.3.2.8).
const ANSWERS: u32 = 100;
const PER: Duration = Duration::from_secs(1);

/// How large the interface's packets are and may be.
#[derive(Debug)]
pub(crate) struct Sizes {
    pub(crate) mtu: u16,
    /// What it was at the start; it never gets larger.
    pub(crate) most: u16,
    /// How many peers' paths carry packets of each size.
    pub(crate) carried: BTreeMap<u16, usize>,
}

/// Counts answers.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    since: Time,
    sent: u32,
}

impl Answers {
    fn may(&mut self, now: Time) -> bool {
        if now.since(self.since) >= PER {
            (self.since, self.sent) = (now, 0);
        }
        self.sent += 1;
        self.sent <= ANSWERS
    }
}

impl TunnelApp {
    /// What the system knows of a path's MTU (ICMP, a changed interface) goes to the session as a hint, and what its interface takes as
    /// worth trying: ICMP that says less may be forged. Of all its paths, if none is named.
    pub(crate) fn hint_path_mtu(
        &self,
        core: &mut Core,
        now: Time,
        session: SessionId,
        peer: usize,
        of: Option<PathId>,
    ) {
        let paths = core.endpoint.status(now, session).into_iter().flat_map(|status| status.paths);
        for path in paths.filter(|path| of.is_none_or(|id| path.id == id)) {
            let Ok(known) = core.net.path_mtu(path.route.socket, path.route.remote) else { continue };
            let most = self.peers[peer].cfg_of(&path).and_then(|spec| spec.mtu);
            let most = most.unwrap_or(setup::MAX_MTU);
            core.endpoint.set_mtu(now, session, path.id, known.min(most));
            if let Ok(device) = core.net.device_mtu(path.route.socket, path.route.remote) {
                core.endpoint.try_mtu(now, session, path.id, device.min(most));
            }
        }
    }

    /// A peer's packets may be as large as each of its paths carries, and the interface's as large as some peer's.
    pub(crate) fn adapt_mtu(&mut self, core: &Core, now: Time, peer: usize) {
        let status = self.peers[peer].session.and_then(|session| core.endpoint.status(now, session));
        let paths = status.iter().flat_map(|status| &status.paths);
        let carried = paths
            .filter(|path| path.state.is_up() || path.state == PathState::Suspect)
            .filter_map(|path| u16::try_from(path.max_payload).ok())
            .min();
        // Without a path it keeps what it was.
        if let Some(carried) = carried {
            self.count_carried(peer, Some(carried));
        }
        let mut sizes = self.sizes();
        let wanted = sizes.carried.keys().next_back().copied();
        let wanted = wanted.map(|mtu| mtu.max(setup::least_mtu(&self.cfg)).min(sizes.most));
        let wanted = wanted.map(|mtu| mtu.min(self.assigned.mtu().unwrap_or(mtu)));
        let Some(wanted) = wanted.filter(|mtu| *mtu != sizes.mtu) else { return };
        match self.tun.tun().set_mtu(wanted) {
            Ok(()) => {
                tracing::info!("{}: MTU {} -> {wanted}, as the paths carry", self.cfg.interface, sizes.mtu);
                sizes.mtu = wanted;
            }
            Err(e) => tracing::warn!("{}: cannot set MTU {wanted}: {e}", self.cfg.interface),
        }
    }

    /// A peer's packets may be so large; none if it is a peer no more.
    pub(crate) fn count_carried(&mut self, peer: usize, mtu: Option<u16>) {
        let before = std::mem::replace(&mut self.peers[peer].mtu, mtu);
        let carried = &mut self.sizes().carried;
        if let Some(mtu) = mtu {
            *carried.entry(mtu).or_default() += 1;
        }
        if let Some(count) = before.and_then(|before| carried.get_mut(&before)) {
            *count -= 1;
            carried.retain(|_, count| *count > 0);
        }
    }

    /// The interface's, which all shards share.
    pub(crate) fn sizes(&self) -> MutexGuard<'_, Sizes> {
        self.sizes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a packet to or from a peer may have.
    pub(crate) fn limit(&self, peer: usize) -> u16 {
        self.peers[peer].mtu.unwrap_or_else(|| self.sizes().mtu)
    }

    /// A packet is larger than the peer's paths carry.
    pub(crate) fn send_too_big(
        &mut self,
        core: &mut Core,
        now: Time,
        session: SessionId,
        packet: &[u8],
        limit: u16,
    ) {
        let own = self.cfg.addresses.iter().map(|net| net.addr());
        match inner::too_big(packet, limit, own) {
            TooBig::Answer(answer) if self.answers.may(now) => {
                self.counters.drop("too_big_told");
                // The sender will learn it from the next one.
                self.write(core, answer);
            }
            TooBig::Answer(_) | TooBig::Drop => self.counters.drop("too_big"),
            TooBig::Fragments(pieces) => {
                for piece in pieces {
                    let info = PktInfo::of_ip(&piece, core.endpoint.flow_key());
                    core.endpoint.send(now, session, piece, info);
                }
            }
        }
    }
}
