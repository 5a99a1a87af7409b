//! Manages routes into the interface for the networks behind the peers. The kernel deletes these routes
//! together with the interface.

use crate::Cx;
use crate::action::Action;
use crate::client::servers::SILENT;
use crate::config::{Config, Routes};
use crate::peer::Peer;
use crate::peers::Peers;
use ipnet::IpNet;
use mpdccp_units::Time;
use std::collections::{BTreeMap, BTreeSet};

/// Returns the networks to route into the interface: every peer's `allowed_ips`, the pool, and the routes
/// received from the server, except networks already covered by the interface's own networks. The result is
/// empty unless `routes = true`, and while the interface has no address.
pub(crate) fn wanted(cfg: &Config, own: &[IpNet], told: &[IpNet]) -> Vec<IpNet> {
    let (mut wanted, mut seen) = (Vec::new(), BTreeSet::new());
    if own.is_empty() || cfg.routes != Routes::All {
        return wanted;
    }
    let peers = cfg.peers.iter().flat_map(|p| &p.get_ref().allowed_ips);
    let pool = cfg.assign.iter().flat_map(|assign| &assign.pool);
    for net in peers.chain(pool).chain(told).map(IpNet::trunc) {
        let connected = own.iter().any(|a| a.trunc().contains(&net));
        if !connected && seen.insert(net) {
            wanted.push(net);
        }
    }
    wanted
}

/// Routes of a server with `routes = "sessions"`, by peer. While a route exists, a routing daemon announces
/// it. A route is set even if the interface's own network covers it, because the daemon announces that
/// network only as a whole.
#[derive(Debug, Default)]
pub(crate) struct SessionRoutes {
    set: BTreeMap<usize, Vec<IpNet>>,
    /// Peers that have a session and routes but no working path, and since when no path has worked.
    silent: BTreeMap<usize, Time>,
}

impl SessionRoutes {
    /// Handles a change in a peer's session or paths. The peer's networks are routed while one of its paths
    /// works. If no path works, either the client has moved to another server, or there is only a short
    /// outage, which must not change the routes on all routers. The routes of an open session therefore stay
    /// for [`SILENT`], the time after which clients change servers.
    pub(crate) fn follow(&mut self, cx: &mut Cx<'_>, peers: &Peers, number: usize) {
        if cx.cfg.routes != Routes::Sessions {
            return;
        }
        let after = wanted_of(cx, peers, number);
        let open = peers.get(number).is_some_and(|peer| peer.session.is_some());
        if after.is_empty() && open && self.set.contains_key(&number) {
            self.silent.entry(number).or_insert(cx.now);
        } else {
            self.set_to(cx, number, after);
        }
    }

    /// Deletes the routes of peers that have had no working path for [`SILENT`].
    pub(crate) fn watch(&mut self, cx: &mut Cx<'_>) {
        let over: Vec<usize> = self
            .silent
            .iter()
            .filter(|(_, since)| cx.now.since(**since) >= SILENT)
            .map(|(n, _)| *n)
            .collect();
        over.into_iter().for_each(|number| self.set_to(cx, number, Vec::new()));
    }

    fn set_to(&mut self, cx: &mut Cx<'_>, number: usize, after: Vec<IpNet>) {
        self.silent.remove(&number);
        let before = self.set.remove(&number).unwrap_or_default();
        change(cx, &before, &after, false);
        self.set.extend((!after.is_empty()).then_some((number, after)));
    }

    /// Sets all routes again, because the kernel deleted them.
    pub(crate) fn renew(&self, cx: &mut Cx<'_>) {
        let all: Vec<IpNet> = self.set.values().flatten().copied().collect();
        change(cx, &all, &all, true);
    }

    /// Applies a new configuration to the routes. The routes of a client in a short outage stay.
    pub(crate) fn reload(&mut self, cx: &mut Cx<'_>, peers: &Peers) {
        let open = |number: &usize| peers.get(*number).filter(|peer| peer.session.is_some());
        let after = self.set.keys().filter_map(|number| Some((*number, nets_of(open(number)?))));
        let after: BTreeMap<usize, Vec<IpNet>> = after.collect();
        let all =
            |routes: &BTreeMap<usize, Vec<IpNet>>| routes.values().flatten().copied().collect::<Vec<_>>();
        // Change all routes in one call, because a network may move from one peer to another.
        change(cx, &all(&self.set), &all(&after), false);
        self.silent.retain(|number, _| after.contains_key(number));
        self.set = after;
    }
}

fn wanted_of(cx: &Cx<'_>, peers: &Peers, number: usize) -> Vec<IpNet> {
    let peer = peers.get(number).filter(|peer| !peer.up(cx).is_empty());
    peer.map_or_else(Vec::new, nets_of)
}

fn nets_of(peer: &Peer) -> Vec<IpNet> {
    peer.cfg.allowed_ips.iter().map(IpNet::trunc).collect()
}

/// Adds new routes, and deletes routes that are no longer needed. If `renew` is set, also sets all other
/// routes again, because the kernel may have deleted them.
pub(crate) fn change(cx: &mut Cx<'_>, before: &[IpNet], after: &[IpNet], renew: bool) {
    let [was, is] = [before, after].map(|nets| nets.iter().copied().collect::<BTreeSet<_>>());
    for net in was.difference(&is).filter(|net| net.prefix_len() > 0) {
        cx.out.push(Action::DeleteRoute(*net));
    }
    for net in is.iter().filter(|net| renew || !was.contains(net)) {
        if net.prefix_len() > 0 {
            swallows(cx, *net);
            cx.out.push(Action::AddRoute { net: *net, replace: was.contains(net) });
        } else if !cx.cfg.default_route {
            let interface = &cx.cfg.interface;
            cx.out.warn(format!(
                "not adding a route for {net} to {interface}: it would also capture the tunnel's own packets; \
                 use default_route = true instead"
            ));
        }
    }
}

/// Returns whether a route into the interface would capture the tunnel's own packets. If so, logs a warning.
pub(crate) fn swallows(cx: &mut Cx<'_>, net: IpNet) -> bool {
    // The routes into the interface also apply to marked packets; only the default route spares them. Sockets
    // that are bound to an interface ignore the routes.
    let peers = cx.cfg.peers.iter().map(|peer| peer.get_ref());
    let paths = peers.flat_map(|peer| peer.paths.iter().map(move |path| (&peer.name, path.get_ref())));
    let mut outer = paths.filter(|(_, path)| path.interface.is_none()).flat_map(|(peer, path)| {
        path.outer().filter_map(move |(what, at)| Some((peer, &path.name, what, at.ip()?)))
    });
    let found = outer.find(|(.., ip)| net.contains(ip));
    if let Some((peer, path, what, ip)) = found {
        cx.out.warn(format!(
            "peer {peer}: path {path}: its {what} {ip} is within {net}, which the tunnel routes into itself; set \
             the path's `interface`, or remove {ip} from {net}"
        ));
    }
    found.is_some()
}
