//! Admits clients to a server, and drains the server. A draining server accepts no new clients and asks
//! connected clients to use another server.

use crate::Cx;
use crate::command::Answer;
use crate::config::Config;
use crate::message::Message;
use crate::peers::Peers;
use mpdccp_proto::{Counter, Endpoint, ListenConfig, PeerFilter};
use mpdccp_units::{Duration, Time};

/// Number of sessions allowed in addition to one per peer. A peer that lost its session may open the next one
/// before the server notices that the old one is gone.
const SPARE_SESSIONS: usize = 2;
/// Shortest interval between log lines about refused sessions, which anyone can cause.
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// State of a server's admission control; unused on a client.
#[derive(Debug, Default)]
pub(crate) struct Listener {
    /// Path MTU and overhead of the sockets, in bytes.
    sizes: Option<(u16, u16)>,
    draining: bool,
    /// Number of refused sessions from unknown addresses at the last log line about them, and when that line
    /// was written.
    refused: u64,
    told: Option<Time>,
}

impl Listener {
    /// Starts to admit the peers. `sizes` has the path MTU and the overhead of the sockets in bytes.
    pub(crate) fn open(&mut self, cfg: &Config, peers: &Peers, endpoint: &mut Endpoint, sizes: (u16, u16)) {
        self.sizes = Some(sizes);
        self.update(cfg, peers, endpoint);
    }

    /// Updates which peers are admitted. A draining server admits no peer, but paths can still join the
    /// sessions that are left.
    pub(crate) fn update(&self, cfg: &Config, peers: &Peers, endpoint: &mut Endpoint) {
        let Some((mtu, overhead)) = self.sizes else { return };
        let peers = if self.draining { Vec::new() } else { filters(cfg, peers) };
        endpoint.listen(ListenConfig {
            port: dccp_wire::DCCP_UDP_PORT,
            session: cfg.session(),
            max_sessions: peers.len() + SPARE_SESSIONS,
            // The tunnel keeps only the newest session of each peer, so the endpoint need not limit the
            // number.
            max_sessions_per_source: usize::MAX,
            peers,
            strangers: false,
            mtu,
            overhead,
        });
    }

    /// Stops accepting clients. `speaks` is true only on the one shard that logs on behalf of all shards.
    pub(crate) fn drain(&mut self, cx: &mut Cx<'_>, peers: &Peers, speaks: bool) -> Answer {
        if self.sizes.is_none() {
            return Answer::Error("this end is a client; only a server can be drained".into());
        }
        if !self.draining {
            if speaks {
                cx.out.info("draining: new clients are refused, and connected clients are asked to use another server");
            }
            self.close(cx.cfg, peers, cx.endpoint);
        }
        self.watch(cx, peers);
        Answer::Clients(peers.sessions().len())
    }

    /// Refuses new sessions from now on.
    pub(crate) fn close(&mut self, cfg: &Config, peers: &Peers, endpoint: &mut Endpoint) {
        self.draining = true;
        self.update(cfg, peers, endpoint);
    }

    /// Asks the clients to leave while the server is draining. Each call repeats the message, because
    /// datagrams can be lost. A client that knows no other server stays. Also logs refused sessions.
    pub(crate) fn watch(&mut self, cx: &mut Cx<'_>, peers: &Peers) {
        for number in peers.sessions().values().filter(|_| self.draining) {
            peers[*number].tell(cx, &Message::Leave);
        }
        let stats = cx.endpoint.stats();
        let count = stats.counters.get(&Counter::RefusedPeer).copied().unwrap_or(0);
        if let Some((from, Counter::RefusedPeer)) = stats.refused
            && !self.draining
            && self.is_news(cx.now, count)
        {
            cx.out.warn(format!(
                "refused a request from {from}: no peer lists this address in `from` ({count} requests refused so far)"
            ));
        }
    }

    /// Returns whether to log that so many sessions have been refused.
    fn is_news(&mut self, now: Time, count: u64) -> bool {
        let is_news = count > self.refused && self.told.is_none_or(|at| now.since(at) >= TOLD_EVERY);
        if is_news {
            (self.refused, self.told) = (count, Some(now));
        }
        is_news
    }
}

/// Returns the peers to admit, in the order of the file: without keys, a packet belongs to the first peer
/// whose addresses include its source.
fn filters(cfg: &Config, peers: &Peers) -> Vec<PeerFilter> {
    let numbers = cfg.peers.iter().filter_map(|peer| peers.number(&peer.get_ref().name));
    numbers.map(|number| PeerFilter { id: number as u32, remotes: peers[number].cfg.origins() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::Peer;

    #[test]
    fn a_peer_that_a_reload_adds_gets_its_place_in_the_file() {
        let [one, any] = [("one", "[\"192.0.2.7\"]", 2), ("any", "\"any\"", 3)].map(|(name, from, n)| {
            format!("[[peer]]\nname = {name:?}\nfrom = {from}\nallowed_ips = [\"10.0.0.{n}/32\"]\n")
        });
        let cfg = |peers: &str| {
            let top = "role = \"server\"\nlisten = \"192.0.2.1\"\naddresses = [\"10.0.0.1/24\"]\n";
            Config::parse("t".as_ref(), &format!("{top}security = \"none\"\n{peers}"), 1).unwrap()
        };
        let (before, after) = (cfg(&any), cfg(&format!("{one}{any}")));
        let mut peers = Peers::new(&before, vec![None]);
        let added = peers.add(Peer::new(after.peers[0].get_ref().clone(), None, false));
        let order: Vec<usize> = filters(&after, &peers).iter().map(|filter| filter.id as usize).collect();
        assert_eq!(order, [added, 0]);
    }

    #[test]
    fn a_flood_of_strangers_does_not_fill_the_log() {
        let mut listener = Listener::default();
        let mut lines = |seconds: std::ops::Range<u64>, count: u64| {
            seconds.filter(|s| listener.is_news(Time::from_millis(s * 1_000), count * s)).count()
        };
        assert_eq!(lines(1..121, 100), 2);
        assert_eq!(lines(200..300, 0), 0, "nothing was refused since");
    }
}
