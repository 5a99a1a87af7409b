//! Finds the peer of a flow, and decides whether the flow may be carried as a stream.

use crate::Cx;
use crate::packet::allowed::Allowed;
use crate::peers::Peers;
use mpdccp_proto::policy::Rule;
use mpdccp_proto::{PktInfo, SessionId};
use mpdccp_proxy::AsPacket;

/// The peers, and the inner addresses behind them.
pub(crate) struct Routes<'a> {
    pub(crate) peers: &'a mut Peers,
    pub(crate) allowed: &'a Allowed,
}

impl Routes<'_> {
    /// Returns the peer and the session to carry a flow to this address.
    pub(super) fn session(&self, cx: &mut Cx<'_>, to: std::net::IpAddr) -> Option<StreamPeer> {
        let number = self.allowed.peer(to)?;
        let session = self.peers[number].session?;
        cx.endpoint.streams(cx.now, session, |_| StreamPeer { number, session })
    }
}

/// A peer and its session.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamPeer {
    pub(super) number: usize,
    pub(super) session: SessionId,
}

/// Returns the policy rule that applies to this packet and its flow, if any, and the class of the flow's
/// stream.
pub(super) fn rule<'a>(cx: &Cx<'a>, packet: &[u8]) -> (Option<&'a Rule>, u8) {
    let policy = &cx.cfg.settings.policy_rule;
    if policy.0.is_empty() {
        return (None, 0);
    }
    let number = policy.rule_for(&PktInfo::of_ip(packet, cx.endpoint.flow_key()), packet);
    number.map_or((None, 0), |n| (policy.0.get(n), n as u8 + 1))
}

/// Returns the class of the stream that would carry this packet's flow, or an error if the policy requires
/// the flow to be carried as packets.
pub(super) fn class_of(cx: &Cx<'_>, packet: &[u8]) -> Result<u8, AsPacket> {
    match rule(cx, packet) {
        (Some(rule), _) if rule.drop || rule.fec.is_some() || rule.no_streams => Err(AsPacket::Policy),
        (_, class) => Ok(class),
    }
}
