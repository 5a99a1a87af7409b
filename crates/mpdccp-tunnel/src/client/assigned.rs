//! Inner addresses of this end, taken from the file or assigned by the server.

use crate::Cx;
use crate::action::Action;
use crate::config::{Config, Mtu};
use crate::message::{Gift, Message};
use crate::packet::mtu;
use crate::peer::Peer;
use crate::routes;
use ipnet::IpNet;
use mpdccp_units::{Duration, Time};

/// Intervals between a client's requests for addresses: without an answer, after a refusal, and after an
/// assignment. The client keeps asking even after an assignment, because the server's file may change.
const UNANSWERED: Duration = Duration::from_secs(1);
const REFUSED: Duration = Duration::from_secs(5);
const ANSWERED: Duration = Duration::from_secs(30);

/// The current inner addresses.
#[derive(Debug, Default)]
pub(crate) struct Assigned {
    /// Addresses of the interface.
    pub(crate) nets: Vec<IpNet>,
    /// Routes that the server assigned.
    told: Vec<IpNet>,
    gift: Option<Gift>,
    /// The assignment that the host is applying, and the usable ones among its routes.
    setting: Option<(Gift, Vec<IpNet>)>,
    /// Why the addresses are missing or outdated.
    why: Option<String>,
    ask_at: Time,
}

impl Assigned {
    pub(crate) fn new(cfg: &Config) -> Assigned {
        Assigned { nets: cfg.addresses.nets.clone(), ..Assigned::default() }
    }

    /// Returns the networks to route into the interface.
    pub(crate) fn routes(&self, cfg: &Config) -> Vec<IpNet> {
        // A reload may have removed networks from `allowed_ips` since the server assigned the routes.
        let allowed = |net: &&IpNet| cfg.peers.iter().any(|peer| may_route(&peer.get_ref().allowed_ips, net));
        let told: Vec<IpNet> = self.told.iter().filter(allowed).copied().collect();
        routes::wanted(cfg, &self.nets, &told)
    }

    /// Returns the size of the largest inner packet that the server allows.
    pub(crate) fn mtu(&self) -> Option<u16> {
        self.gift.as_ref().map(|gift| gift.mtu).filter(|mtu| *mtu > 0)
    }

    /// Returns why a client has no addresses from its server, or only outdated ones.
    pub(crate) fn error(&self, cfg: &Config) -> Option<String> {
        let waiting = || "the server has not assigned one yet".to_owned();
        self.why.clone().or_else(|| (cfg.addresses.auto && self.nets.is_empty()).then(waiting))
    }

    /// Requests addresses from the server if the configuration says `addresses = "auto"`. The first request
    /// is sent when a session opens, and further ones at intervals.
    pub(crate) fn ask(&mut self, cx: &mut Cx<'_>, peer: &Peer, opened: bool) {
        if !cx.cfg.addresses.auto || (self.ask_at > cx.now && !opened) {
            return;
        }
        if peer.session.is_some() {
            peer.tell(cx, &Message::Ask);
            self.ask_at = cx.now + UNANSWERED;
        }
    }

    /// Handles the server's refusal to assign an address.
    pub(crate) fn on_refused(&mut self, cx: &mut Cx<'_>, peer: &Peer, why: &str) {
        self.ask_at = cx.now + REFUSED;
        self.not_taken(cx, peer, why.into());
    }

    /// Handles an assignment of addresses by the server.
    pub(crate) fn on_given(&mut self, cx: &mut Cx<'_>, peer: &Peer, mut gift: Gift) {
        self.ask_at = cx.now + ANSWERED;
        let allowed = &peer.cfg.allowed_ips;
        if let Some(net) = gift.addresses.iter().find(|net| !allowed.iter().any(|a| a.contains(&net.addr())))
        {
            let why =
                format!("the server assigned {}, which is not within allowed_ips; add it there", net.addr());
            return self.not_taken(cx, peer, why);
        }
        for net in &mut gift.addresses {
            // Setting an address also adds a route to the address's network. If `allowed_ips` does not cover
            // that network, use the address alone.
            if !may_route(allowed, net) {
                *net = net.addr().into();
            }
        }
        if self.setting.is_some() || self.gift.as_ref() == Some(&gift) && self.why.is_none() {
            return;
        }
        let least = mtu::LEAST_V6;
        let own = if let Mtu::Fixed(mtu) = cx.cfg.mtu { mtu } else { 0 };
        let narrow = [("the server's", gift.mtu, "there"), ("this end's", own, "here")]
            .into_iter()
            .find(|(_, mtu, _)| (1..least).contains(mtu))
            .filter(|_| gift.addresses.iter().any(|net| net.addr().is_ipv6()));
        if let Some((whose, mtu, place)) = narrow {
            let why =
                format!("{whose} mtu = {mtu} is too small for IPv6, which needs {least}; raise it {place}");
            return self.not_taken(cx, peer, why);
        }
        let routes = usable_routes(cx, peer, &gift.routes);
        let without =
            |a: &[IpNet], b: &[IpNet]| a.iter().filter(|net| !b.contains(net)).copied().collect::<Vec<_>>();
        cx.out.push(Action::SetAddresses {
            remove: without(&self.nets, &gift.addresses),
            add: without(&gift.addresses, &self.nets),
        });
        self.setting = Some((gift, routes));
    }

    /// Handles the host's answer: the interface has the assigned addresses, or setting them failed.
    pub(crate) fn on_set(&mut self, cx: &mut Cx<'_>, peer: &Peer, result: Result<(), String>) {
        let Some((gift, told)) = self.setting.take() else {
            // The addresses were set again after the interface had been off.
            return result.unwrap_or_else(|why| cx.out.warn(why));
        };
        let before = self.routes(cx.cfg);
        if let Err(why) = result {
            // The host has restored the old addresses, but the kernel may have deleted their routes.
            routes::change(cx, &before, &before, true);
            return self.not_taken(cx, peer, why);
        }
        self.nets.clone_from(&gift.addresses);
        self.told = told;
        self.gift = Some(gift);
        self.why = None;
        // The kernel may have deleted routes together with the old addresses, so set all routes again.
        routes::change(cx, &before, &self.routes(cx.cfg), true);
        let list = |nets: &[IpNet]| nets.iter().map(|net| net.to_string()).collect::<Vec<_>>().join(", ");
        let told = match self.told.as_slice() {
            [] => String::new(),
            nets => format!("; routes to {}", list(nets)),
        };
        cx.out.info(format!("peer {}: the server assigned {}{told}", peer.name(), list(&self.nets)));
    }

    /// Sets the IPv6 addresses and all routes again, because the kernel deleted them.
    pub(crate) fn renew(&self, cx: &mut Cx<'_>) {
        let add: Vec<IpNet> = self.nets.iter().filter(|net| net.addr().is_ipv6()).copied().collect();
        if !add.is_empty() {
            cx.out.push(Action::SetAddresses { remove: Vec::new(), add });
        }
        let routes = self.routes(cx.cfg);
        routes::change(cx, &routes, &routes, true);
    }

    /// Logs why the client does not use the new addresses, but the same reason only once.
    fn not_taken(&mut self, cx: &mut Cx<'_>, peer: &Peer, why: String) {
        if self.why.as_ref() != Some(&why) {
            cx.out.error(format!("peer {}: no address: {why}", peer.name()));
            self.why = Some(why);
        }
    }
}

/// Returns whether this end accepts a route to this network from the server. A prefix of length 0 in
/// `allowed_ips` does not permit routes, because only `default_route` may route all traffic.
fn may_route(allowed: &[IpNet], net: &IpNet) -> bool {
    allowed.iter().any(|a| a.prefix_len() > 0 && a.contains(net))
}

/// Returns the routes from the server that this end uses. Leaves out routes that `allowed_ips` does not
/// permit, and routes that would capture the tunnel's own packets.
fn usable_routes(cx: &mut Cx<'_>, peer: &Peer, told: &[IpNet]) -> Vec<IpNet> {
    let mut usable = Vec::new();
    for net in told {
        if !may_route(&peer.cfg.allowed_ips, net) {
            cx.out.warn(format!(
                "peer {}: ignoring the server's route to {net}: no allowed_ips prefix longer than /0 contains it; \
                 add one to use the route",
                peer.name()
            ));
        } else if !routes::swallows(cx, *net) {
            usable.push(*net);
        }
    }
    usable
}
