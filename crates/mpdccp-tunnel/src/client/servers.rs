//! Several servers: a client moves to the next server of its list when its server asks it to, ends the session, or is
//! silent.

use crate::Cx;
use crate::action::Action;
use crate::client::paths::Paths;
use crate::path::WaitingPath;
use crate::peers::Peers;
use mpdccp_units::Duration;

/// Time without a working path before the next server is tried.
const SILENT: Duration = Duration::from_secs(3);

/// Moves a peer's paths to the next server of its list, if there is one. TCP connections of its session stay with the old server while it is
/// reachable.
pub(crate) fn next(
    cx: &mut Cx<'_>,
    peers: &mut Peers,
    paths: &mut Paths,
    number: usize,
    why: &str,
    connections: usize,
) {
    let Some(servers) = peers.get(number).map(|peer| peer.cfg.servers()).filter(|servers| *servers > 1)
    else {
        return;
    };
    let peer = &mut peers[number];
    peer.server = (peer.server + 1) % servers;
    peer.silent_since = None;
    cx.out.warn(format!("peer {}: switching to server {} of {servers}: {why}", peer.name(), peer.server + 1));
    // Sockets being opened lead to the server left behind.
    peer.waiting.iter_mut().for_each(|path| path.opening = None);
    if connections > 0 {
        let specs = peer.paths.iter().filter(|path| !path.spec.advertised).map(|path| path.spec.clone());
        peer.waiting.extend(specs.map(WaitingPath::new));
        cx.out.info(format!(
            "peer {}: {connections} connections stay with the previous server until they end, for at most one hour",
            peer.name()
        ));
        peer.set_aside(cx);
    }
    while !peers[number].paths.is_empty() {
        let path = paths.close(cx, peers, number, 0);
        // Addresses advertised by the server left behind do not apply to the next one.
        if !path.spec.advertised {
            peers[number].waiting.push(WaitingPath::new(path.spec));
        }
    }
    cx.out.push(Action::StartOver(number as u32));
    paths.open(cx, peers);
}

/// Leaves servers that have been silent on all paths for a while.
pub(crate) fn watch(cx: &mut Cx<'_>, peers: &mut Peers, paths: &mut Paths) {
    for number in peers.present() {
        let peer = &mut peers[number];
        if peer.session.is_none() || peer.cfg.servers() < 2 {
            continue;
        }
        if !peer.up(cx).is_empty() || peer.session.is_some_and(|session| cx.endpoint.is_answered(session)) {
            peer.silent_since = None;
        } else if cx.now.since(*peer.silent_since.get_or_insert(cx.now)) >= SILENT {
            next(cx, peers, paths, number, "the previous server does not answer", 0);
        }
    }
}
