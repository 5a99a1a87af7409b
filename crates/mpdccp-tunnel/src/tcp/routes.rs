//! Which peer a flow goes to, and whether it may be a stream.

use crate::Cx;
use crate::config::Tcp;
use crate::packet::allowed::Allowed;
use crate::peer::Peer;
use crate::peers::Peers;
use mpdccp_proto::{PktInfo, SessionId};

/// Which addresses are whose.
#[derive(Clone, Copy)]
pub(crate) struct Routes<'a> {
    pub(crate) peers: &'a Peers,
    pub(crate) allowed: &'a Allowed,
}

impl Routes<'_> {
    pub(super) fn wants(&self, cx: &Cx<'_>, number: usize) -> bool {
        let wants = |peer: &Peer| {
            // What exceeds a rate is dropped, and that is for packets.
            peer.cfg.tcp.unwrap_or(cx.cfg.tcp) == Tcp::Streams && peer.cfg.receive_rate.is_none()
        };
        self.peers.get(number).is_some_and(wants)
    }

    /// The session that would carry a flow to this address as a stream.
    pub(super) fn session(&self, cx: &mut Cx<'_>, to: std::net::IpAddr) -> Option<Carrier> {
        let number = self.allowed.peer(to).filter(|number| self.wants(cx, *number))?;
        let session = self.peers[number].session?;
        cx.endpoint.streams(cx.now, session, |_| Carrier { number, session })
    }
}

/// A peer and its session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Carrier {
    pub(super) number: usize,
    pub(super) session: SessionId,
}

/// Whether a policy rule is for this packet and the others of its flow.
pub(super) fn has_rule(cx: &Cx<'_>, packet: &[u8]) -> bool {
    let policy = &cx.cfg.settings.policy_rule;
    !policy.0.is_empty() && policy.rule_for(&PktInfo::of_ip(packet, cx.endpoint.flow_key()), packet).is_some()
}
