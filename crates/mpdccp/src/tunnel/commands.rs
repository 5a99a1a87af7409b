//! What the control socket asks of a running tunnel, answered on the data thread.

use crate::tunnel::app::TunnelApp;
use crate::tunnel::control::{Answer, NewPath, Request};
use crate::tunnel::peer::WaitingPath;
use crate::tunnel::setup::{self, OpenPath};
use crate::tunnel::status::{PathReport, PeerStatus, ShardStatus, SocketStatus, Status, TunStatus, VERSION};
use crate::tunnel::values::Prio;
use dccp_net::{CarrierStats, Core};
use mpdccp_proto::Named;
use mpdccp_proto::sched::SchedulerKind;
use std::collections::BTreeMap;
use units::Time;

impl TunnelApp {
    /// Answers a request.
    pub(crate) fn control(&mut self, core: &mut Core, request: Request) -> Answer {
        let done = match request {
            // Answered without the data thread, or by several.
            Request::Events { .. }
            | Request::Reload
            | Request::Status { .. }
            | Request::Drain
            | Request::Down => Ok(()),
            Request::PathAdd { peer, path } => self.path_add(core, peer.as_deref(), &path),
            Request::PathDel { peer, name } => self.path_del(core, peer.as_deref(), &name),
            Request::PathPrio { peer, name, priority } => {
                self.path_prio(core, peer.as_deref(), &name, priority)
            }
            Request::Scheduler { peer, name } => self.set_scheduler(core, peer.as_deref(), &name),
        };
        match done {
            Ok(()) => Answer::Ok,
            Err(e) => Answer::Error(e),
        }
    }

    fn path_add(&mut self, core: &mut Core, peer: Option<&str>, path: &NewPath) -> Result<(), String> {
        let (now, index) = self.now_and_peer(core, peer)?;
        if !setup::is_client(&self.cfg) {
            return Err("paths are added at the client".into());
        }
        let spec = path.spec()?;
        self.cfg.check_path(&spec)?;
        let peer = &mut self.peers[index];
        if peer.has_path(&spec.name) {
            return Err(format!("peer `{}` has a path `{}` already", peer.cfg.name, spec.name));
        }
        let most = self.session_cfg.max_paths;
        if peer.paths.len() + peer.waiting.len() >= most {
            return Err(format!(
                "peer `{}` has {most} paths already, as many as there can be",
                peer.cfg.name
            ));
        }
        let (name, remote) = (spec.name.clone(), spec.remote.ip());
        match remote {
            // Whoever types it is to hear at once of what is not here.
            Some(ip) if spec.pattern().is_none() => {
                let open = setup::open_path(core, &self.cfg, index as u32, &spec, ip, &[])
                    .map_err(|e| format!("path `{name}`: {}", e.words()))?;
                peer.add_path(core, now, open, self.cfg.dccp_port);
            }
            _ => {
                peer.waiting.push(WaitingPath::new(spec));
                self.open_waiting(core, now);
            }
        }
        tracing::info!("peer {}: path {name} added", self.peers[index].cfg.name);
        Ok(())
    }

    fn path_del(&mut self, core: &mut Core, peer: Option<&str>, name: &str) -> Result<(), String> {
        let (now, index) = self.now_and_peer(core, peer)?;
        let peer = &mut self.peers[index];
        if !peer.has_path(name) {
            return Err(no_such_path(peer));
        }
        if peer.paths.len() + peer.waiting.len() == 1 {
            return Err(format!("path `{name}` is the last; use `mpdccp tunnel down` to end the tunnel"));
        }
        peer.waiting.retain(|p| p.spec.name != name);
        if let Some(at) = peer.paths.iter().position(|p| p.spec.name == name) {
            self.take_path(core, now, index, at);
        }
        tracing::info!("peer {}: path {name} removed", self.peers[index].cfg.name);
        Ok(())
    }

    fn path_prio(
        &mut self,
        core: &mut Core,
        peer: Option<&str>,
        name: &str,
        priority: u8,
    ) -> Result<(), String> {
        let (now, index) = self.now_and_peer(core, peer)?;
        self.prio_of(core, now, index, name, Prio::try_from(i64::from(priority))?)
    }

    pub(crate) fn prio_of(
        &mut self,
        core: &mut Core,
        now: Time,
        index: usize,
        name: &str,
        priority: Prio,
    ) -> Result<(), String> {
        let id = self.peers[index].path_id(core, now, name);
        let peer = &mut self.peers[index];
        let specs = peer.paths.iter_mut().map(|p| &mut p.spec);
        let mut specs = specs.chain(peer.waiting.iter_mut().map(|p| &mut p.spec));
        let Some(spec) = specs.find(|spec| spec.name == name) else {
            return Err(no_such_path(peer));
        };
        // Kept for the sessions to come.
        spec.priority = Some(priority);
        if let (Some(session), Some(id)) = (peer.session, id) {
            let prio = peer.paths.iter().find(|p| p.spec.name == name).map_or(priority, OpenPath::prio);
            core.endpoint.set_prio(now, session, id, prio.0);
        }
        Ok(())
    }

    fn set_scheduler(&mut self, core: &mut Core, peer: Option<&str>, name: &str) -> Result<(), String> {
        let (now, index) = self.now_and_peer(core, peer)?;
        let kind = SchedulerKind::named(name)?;
        // Kept for the sessions to come.
        self.cfg.settings.scheduler = kind;
        if let Some(session) = self.peers[index].session {
            core.endpoint.set_scheduler(now, session, kind);
        }
        if self.shard.is_home(index) {
            tracing::info!("peer {}: scheduler {name}", self.peers[index].cfg.name);
        }
        Ok(())
    }

    /// Everything there is to know, of all peers or of this one, which then costs nothing for the others.
    pub(crate) fn status(&self, core: &Core, now: Time, only: Option<&str>) -> Status {
        let asked = match only {
            None => 0..self.peers.len(),
            Some(name) => self.numbers.get(name).map_or(0..0, |number| *number..number + 1),
        };
        let here = asked.filter(|i| !self.peers[*i].gone && self.shard.is_home(*i));
        let peers = here.map(|number| {
            let peer = &self.peers[number];
            let status = peer.session.and_then(|s| Some((s, core.endpoint.status(now, s)?)));
            let mut status = match status {
                None => PeerStatus::idle(&peer.cfg.name),
                Some((session, status)) => {
                    let rows = core.endpoint.rows(now, session);
                    PeerStatus::of(&peer.cfg.name, &status, &rows, |path| {
                        (peer.path_name(path), core.net.resolve(&path.route).remote)
                    })
                }
            };
            status.number = number;
            status.mtu = peer.mtu;
            status.leased = peer.leased.iter().map(|ip| ip.to_string()).collect();
            status.receive_limit_mbps = peer.cfg.receive_rate.map(|rate| rate.0.mbps());
            if peer.policer.dropped > 0 {
                status.drops.insert("over_rate".into(), peer.policer.dropped);
            }
            status.rate_limit_mbps = peer.cfg.rate.map(|rate| rate.0.mbps());
            for report in &mut status.paths {
                let spec =
                    peer.paths.iter().map(|p| &p.spec).chain(peer.cfg.paths.iter().map(|p| p.get_ref()));
                if let Some(spec) = spec.into_iter().find(|spec| spec.name == report.name) {
                    self.quotas.report(&peer.cfg.name, spec, report);
                }
            }
            let waiting = peer.waiting.iter();
            status.paths.extend(waiting.map(|p| PathReport::waiting(&p.spec, &p.why)));
            status
        });
        let drops = core.net.channels().map(|channels| channels.drops());
        Status {
            version: VERSION,
            program: env!("CARGO_PKG_VERSION").into(),
            role: if setup::is_client(&self.cfg) { "client" } else { "server" }.into(),
            interface: self.cfg.interface.clone(),
            mtu: self.sizes().mtu,
            addresses: self.cfg.addresses.iter().map(|net| net.to_string()).collect(),
            no_address: self.no_address(),
            rate_limit_mbps: self.cfg.rate.map(|rate| rate.0.mbps()),
            uptime_s: now.since(self.started).as_secs_f64(),
            tun: TunStatus {
                read_packets: self.counters.read.0,
                read_bytes: self.counters.read.1,
                written_packets: self.counters.written.0,
                written_bytes: self.counters.written.1,
                drops: self.counters.drops.iter().map(|(k, n)| ((*k).into(), *n)).collect(),
            },
            sockets: core
                .net
                .stats()
                .iter()
                .map(|(socket, stats)| socket_status(core, *socket, stats))
                .collect(),
            endpoint: core.endpoint.stats().counters.iter().map(|(k, n)| (k.name().into(), *n)).collect(),
            security: self.cfg.security.name().into(),
            channels: drops.into_iter().flatten().map(|(why, n)| (why.name().into(), *n)).collect(),
            shards: self.shard_status(core).into_iter().collect(),
            peers: peers.collect(),
        }
    }
}

impl TunnelApp {
    /// What this shard does, if it is one of several.
    fn shard_status(&self, core: &Core) -> Option<ShardStatus> {
        let (handed_over, dropped) = core.net.handed_over();
        let (shard, sessions) = (self.shard.number, self.sessions.len() as u64);
        let (tun_read, tun_handed_over) = (self.counters.read.0, self.shard.handed_over);
        let status = ShardStatus { shard, sessions, handed_over, dropped, tun_read, tun_handed_over };
        (self.shard.of > 1).then_some(status)
    }
}

fn no_such_path(peer: &crate::tunnel::peer::PeerState) -> String {
    let waiting = peer.waiting.iter().map(|p| &p.spec);
    let specs = peer.paths.iter().map(|p| &p.spec).chain(waiting);
    let names: Vec<&str> = specs.map(|spec| spec.name.as_str()).collect();
    match names.is_empty() {
        true => "paths are changed at the client".into(),
        false => format!("no such path, expected one of: {}", names.join(", ")),
    }
}

fn socket_status(core: &Core, socket: u32, stats: &CarrierStats) -> SocketStatus {
    let local = core.net.carrier(socket).and_then(|c| c.local_addr().ok());
    let drops = [
        ("tx_buffer_full", stats.tx_buffer_full),
        ("tx_too_big", stats.tx_too_big),
        ("tx_link_down", stats.tx_link_down),
        ("rx_bad_checksum", stats.rx_bad_checksum),
        ("rx_malformed", stats.rx_malformed),
    ];
    let drops: BTreeMap<String, u64> =
        drops.into_iter().filter(|(_, n)| *n > 0).map(|(k, n)| (k.into(), n)).collect();
    SocketStatus {
        socket,
        local: local.map_or_else(|| "?".into(), |a| a.to_string()),
        tx_packets: stats.tx_packets,
        tx_bytes: stats.tx_bytes,
        tx_calls: stats.tx_calls,
        rx_packets: stats.rx_packets,
        rx_bytes: stats.rx_bytes,
        rx_calls: stats.rx_calls,
        drops,
    }
}
