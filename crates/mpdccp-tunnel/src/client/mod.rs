//! The client manages its paths here.

pub(crate) mod advertised;
pub(crate) mod assigned;
pub(crate) mod leaving;
pub(crate) mod names;
pub(crate) mod paths;
pub(crate) mod quota;
pub(crate) mod servers;
pub(crate) mod timestamp;

use crate::Cx;
use crate::action::{Action, Actions};
use crate::host::Looked;
use crate::peer::Peer;
use crate::peers::Peers;
use assigned::Assigned;
use paths::Paths;
use quota::Quotas;
use timestamp::Timestamp;

/// Opens the waiting paths. If a path chooses its interface by a pattern, lists the interfaces first.
pub(crate) fn open(cx: &mut Cx<'_>, peers: &mut Peers, paths: &mut Paths) {
    match Paths::has_patterns(peers) {
        true => cx.out.push(Action::ListInterfaces),
        false => paths.open(cx, peers),
    }
}

/// Checks the paths; called periodically.
pub(crate) fn watch(cx: &mut Cx<'_>, peers: &mut Peers, paths: &mut Paths, assigned: &mut Assigned) {
    advertised::follow(cx, peers, paths);
    peers.iter_mut().for_each(|peer| peer.tell_server(cx));
    open(cx, peers, paths);
    paths.watch_names(cx, peers);
    if let Some(peer) = peers.iter().next() {
        assigned.ask(cx, peer, false);
    }
}

/// Before the tunnel ends, asks the host about all sockets of paths. The answers contain the volumes and the
/// time of the newest handshake, which are to be saved.
pub(crate) fn finish(peers: &Peers, paths: &Paths, out: &mut Actions) {
    for path in peers.iter().flat_map(Peer::open_paths).chain(paths.lingering()) {
        out.push(Action::Look { socket: path.socket, remote: path.remote, own: false });
    }
}

/// Handles the host's answer about a socket: stores the time of the newest handshake, updates the path, and
/// charges the traffic to the path's quota.
pub(crate) fn charge(
    cx: &mut Cx<'_>,
    peers: &mut Peers,
    paths: &mut Paths,
    quotas: &mut Quotas,
    timestamp: &mut Timestamp,
    looked: &Looked,
) {
    if let Some(handshake) = looked.handshake {
        timestamp.remember(handshake, cx.out);
    }
    let owns = |peer: &&mut Peer| peer.open_paths().any(|path| path.socket == looked.socket);
    if let Some(peer) = peers.iter_mut().find(owns) {
        peer.heard |= looked.heard;
        peer.on_looked(cx, looked);
        peer.on_encapsulation(cx, looked);
        quotas.charge(cx, peer, looked);
    } else if let Some((peer, path)) = paths.retired(looked.socket) {
        quotas.charge_closed(cx, peer, path, looked);
        paths.on_charged(cx, looked.socket);
    }
}
