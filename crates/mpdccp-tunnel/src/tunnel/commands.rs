//! Executes the owner's commands, such as reloading the configuration.

use super::Tunnel;
use crate::action::Action;
use crate::command::{Answer, Command, Keys};
use crate::config::Config;
use crate::packet::dscp_ecn::Marker;
use crate::{Cx, client, reload, routes};
use mpdccp_proto::Endpoint;
use mpdccp_units::Time;

impl Tunnel {
    /// Handles a command. The answer is an [`Action::Reply`] with the number `id`.
    pub fn handle_command(&mut self, endpoint: &mut Endpoint, now: Time, id: u64, command: Command) {
        let cx = cx!(self, endpoint, now);
        let done = match command {
            Command::PathAdd { peer, path } => {
                match self.paths.add(cx, &mut self.peers, id, peer.as_deref(), *path) {
                    Ok(true) => Ok(()),
                    // The reply follows once the host has opened the path.
                    Ok(false) => return,
                    Err(e) => Err(e),
                }
            }
            Command::PathDel { peer, name } => self.paths.delete(cx, &mut self.peers, peer.as_deref(), &name),
            Command::PathPrio { peer, name, priority } => {
                self.peers.set_prio(cx, peer.as_deref(), &name, priority)
            }
            Command::Drain => {
                let answer = self.listener.drain(cx, &self.peers, self.shard.is_first());
                return self.out.push(Action::Reply(id, answer));
            }
            Command::Reload(new, keys) => {
                let words = self.reload(endpoint, now, *new, keys);
                return self.out.push(Action::Reply(id, Answer::Reloaded(words)));
            }
            Command::ShutDown => {
                self.shut_down(endpoint, now);
                Ok(())
            }
        };
        cx!(self, endpoint, now).reply(id, done);
    }

    /// Applies a new configuration. Returns a description of the changes.
    fn reload(&mut self, endpoint: &mut Endpoint, now: Time, new: Config, keys: Keys) -> String {
        let before = self.assigned.routes(&self.cfg);
        let mut gone = Vec::new();
        let (cx, own) = (cx!(self, endpoint, now), &mut self.own_key);
        let done = reload::follow(cx, &mut self.peers, &mut self.paths, own, (&new, keys), &mut gone);
        let proxy = self.cfg.proxy;
        self.cfg = new;
        self.cfg.proxy = proxy;
        for number in gone {
            let (cx, peer) = (cx!(self, endpoint, now), &mut self.peers[number]);
            self.forward.carries(cx, peer, &self.shard, &self.assigned, None);
        }
        self.out.push(Action::SetMarking(Marker::new(&self.cfg)));
        endpoint.cap_all(self.cfg.rate_of_shard());
        self.forward.allowed = self.leases.allow(cx!(self, endpoint, now), &mut self.peers, &self.shard);
        if self.shard.is_first() {
            // The interface must be wide enough before it gets IPv6 routes.
            self.forward.adapt_interface(cx!(self, endpoint, now), &self.assigned);
        }
        let asked = |number: &usize| self.shard.is_first() && self.peers[*number].asked.is_some();
        for number in self.peers.present().filter(asked).collect::<Vec<_>>() {
            self.assign(endpoint, now, number);
        }
        self.listener.update(&self.cfg, &self.peers, endpoint);
        done.apply(cx!(self, endpoint, now), &self.peers);
        self.recheck_flows(endpoint, now);
        let words = done.words();
        if self.shard.is_first() {
            let after = self.assigned.routes(&self.cfg);
            routes::change(cx!(self, endpoint, now), &before, &after, false);
            self.out.info(format!("reloaded: {words}"));
        }
        self.session_routes.reload(cx!(self, endpoint, now), &self.peers);
        if self.cfg.is_client() {
            client::open(cx!(self, endpoint, now), &mut self.peers, &mut self.paths);
        }
        words
    }
}
