//! Further subflows: MP_JOIN with nonces and HMACs (RFC 9897 sections 3.2.2, 3.2.6 and 3.3).

use super::handshake::{Hello, reset};
use super::liveness::Liveness;
use super::subflow::{Stage, Subflow};
use super::{Gone, Reason, Role, Session, encode};
use crate::keys::{By, Tag, same};
use crate::{Counter, PathConfig, PathId, PathState, SessionState};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;
use dccp_proto::{Connection, Extra, Ports, Route};
use dccp_wire::{MpOption, Opt, Packet, Reset, ResetCode};
use mpdccp_units::{Duration, Time, source};
use rand_core::RngCore;

/// Maximum number of times that a join's Request is retransmitted. After that, the attempt fails, and the
/// path manager tries again later.
const JOIN_RETRIES: u8 = 3;

/// Maximum number of joins that have not yet proved knowledge of the keys.
const MAX_HALF_OPEN_JOINS: usize = 32;

/// If a new subflow comes from the same address, an older subflow that has been silent for this long is
/// closed.
const REPLACE_AFTER: Duration = Duration::from_secs(2);

/// How to treat a packet that gets no Response, and the counter to increment for it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refusal {
    /// Send no answer.
    Ignore(Counter),
    /// Answer with this Reset.
    Reset(Reset, Counter),
}

/// Returns the connection identifier of the session that a Request wants to join.
pub(crate) fn wanted_ci(request: &Packet<'_>) -> Option<u32> {
    Hello::read(request).join.map(|(_, ci, _)| ci)
}

impl Session {
    /// Client: sends a Request that joins path `i` to the session.
    pub(super) fn connect_join(&mut self, now: Time, i: usize, ports: Ports) {
        let PathConfig { route, mtu, overhead, .. } = self.paths[i].cfg;
        let Some(addr_id) = self.local_addrs.id_of(&route) else {
            self.gone.push(Gone { route, ports, time_wait: false });
            self.paths[i].connect_later(now);
            return self.count(Counter::NoAddressIdLeft);
        };
        let mut config = self.connection_config(mtu, overhead);
        // If answers normally arrive before the first retransmission, a new attempt is better than
        // retransmissions with back-off.
        let again = self.paths[i].is_quick && self.paths[i].is_missed(now);
        config.request_retries = config.request_retries.min(if again { 0 } else { JOIN_RETRIES });
        let seed = self.seed();
        let mut conn = Connection::client(config, now, route, ports, seed);
        let nonce = self.rng.next_u32();
        let option = MpOption::Join { addr_id, ci: self.keys.remote_ci, nonce };
        conn.set_extra(Extra::Request, self.named(i, &[option]).as_bytes());
        self.paths[i].local_addr = Some(addr_id);
        self.paths[i].start(now, conn, Stage::JoinSent { nonce });
    }

    /// Answers a Request to join this session, either on a server or on a client that allows joins.
    pub(crate) fn accept_join(
        &mut self,
        now: Time,
        route: Route,
        request: &Packet<'_>,
        mtu: u16,
        overhead: u16,
    ) -> Result<(PathId, Ports), Refusal> {
        let refuse = |code, why| Err(Refusal::Reset(reset(code), why));
        let hello = Hello::read(request);
        let Some((remote_addr, _, remote_nonce)) = hello.join else {
            return Err(Refusal::Ignore(Counter::JoinWithoutMpJoin));
        };
        // RFC 9897 section 3.2.11: joins are ignored while closing.
        if self.state != SessionState::Open {
            return Err(Refusal::Ignore(Counter::JoinWhileNotOpen));
        }
        if !self.multipath {
            return refuse(ResetCode::ConnectionRefused, Counter::JoinOfPlainSession);
        }
        // A peer may join a client's session only if the client allows joins, whether or not the client also
        // listens.
        if self.role == Role::Client && !self.cfg.joinable {
            return refuse(ResetCode::ConnectionRefused, Counter::JoinOfClientSession);
        }
        // RFC 9897 section 3.6: the subflow is closed if its options are invalid, or if its version differs
        // from that of the first subflow.
        if hello.malformed || !hello.version_0 {
            return refuse(ResetCode::OptionError, Counter::JoinMalformedOrOtherVersion);
        }
        if self.is_crowded() {
            return refuse(ResetCode::TooBusy, Counter::BeyondMaxPaths);
        }
        self.make_room_for_join(now);
        let Some(addr_id) = self.local_addrs.id_of(&route) else {
            return refuse(ResetCode::TooBusy, Counter::NoAddressIdLeft);
        };
        let (config, seed) = (self.connection_config(mtu, overhead), self.seed());
        let mut conn = Connection::server(config, now, route, request, seed)
            .map_err(|reset| Refusal::Reset(reset, Counter::RefusedRequest))?;
        let nonce = self.rng.next_u32();
        let options = [
            MpOption::Join { addr_id, ci: self.keys.remote_ci, nonce },
            MpOption::Hmac(&self.keys.join(By::Local, nonce, remote_nonce)),
        ];
        conn.set_extra(Extra::Response, encode(&options).as_bytes());
        let tag = self.keys.join(By::Remote, nonce, remote_nonce);
        let ports = conn.ports();
        let i = self.new_path(PathConfig { route, ports, name: hello.name, prio: 3, mtu, overhead });
        (self.paths[i].local_addr, self.paths[i].remote_addr) = (Some(addr_id), Some(remote_addr));
        self.paths[i].yields = true;
        self.paths[i].start(now, conn, Stage::JoinAnswered { tag });
        Ok((self.paths[i].id, ports))
    }

    /// Returns whether the session has too many subflows (RFC 9897 section 3.10). At most `max_paths` may be
    /// active, and at most twice as many including silent ones, which the peer may have lost. Unproven joins
    /// do not count.
    fn is_crowded(&self) -> bool {
        let proven = self.paths.iter().filter(|p| !p.is_half_open());
        let (silent, loud): (Vec<&Subflow>, Vec<_>) = proven.partition(|p| p.state == PathState::Suspect);
        loud.len() >= self.cfg.max_paths || loud.len() + silent.len() >= self.cfg.max_paths * 2
    }

    /// If there are many unproven joins, closes the oldest join from the address with the most of them. A
    /// flood from a few addresses therefore displaces its own joins, while a flood from many addresses still
    /// leaves each join enough time to complete.
    fn make_room_for_join(&mut self, now: Time) {
        let mut sources: BTreeMap<IpAddr, (usize, usize)> = BTreeMap::new();
        let half_open = self.paths.iter().enumerate().filter(|(_, p)| p.is_half_open());
        for (i, path) in half_open {
            sources.entry(source(path.cfg.route.remote.ip())).or_insert((0, i)).0 += 1;
        }
        if sources.values().map(|(n, _)| n).sum::<usize>() < MAX_HALF_OPEN_JOINS {
            return;
        }
        let most = sources.values().map(|(n, _)| *n).max();
        // Paths are ordered by start time.
        let oldest = sources.values().filter(|(n, _)| Some(*n) == most).map(|(_, oldest)| *oldest).min();
        if let Some(oldest) = oldest {
            self.count(Counter::HalfOpenJoinDisplaced);
            self.give_up(now, oldest, Reason::Displaced);
            self.forget_paths();
        }
    }

    /// Client: handles the Response to a join.
    pub(super) fn on_join_response(&mut self, i: usize, nonce: u32, packet: &Packet<'_>) {
        let Some(conn) = &mut self.paths[i].conn else { return };
        let hello = Hello::read(packet);
        let error = match (hello.join, hello.join_tag) {
            _ if hello.malformed => Some(Counter::MalformedMpOption),
            _ if !conn.is_multipath() => Some(Counter::JoinOtherVersion),
            (None, _) => Some(Counter::JoinWithoutMpJoin),
            (Some((_, ci, _)), _) if ci != self.keys.local_ci => Some(Counter::JoinWrongCi),
            (_, None) => Some(Counter::JoinWithoutHmac),
            (Some((_, _, remote_nonce)), Some(tag))
                if !same(&self.keys.join(By::Remote, nonce, remote_nonce), tag) =>
            {
                Some(Counter::JoinWrongHmac)
            }
            (Some((remote_addr, _, remote_nonce)), Some(_)) => {
                let tag = self.keys.join(By::Local, nonce, remote_nonce);
                conn.set_extra(Extra::HandshakeAck, encode(&[MpOption::Hmac(&tag)]).as_bytes());
                self.paths[i].remote_addr = Some(remote_addr);
                self.paths[i].stage = Stage::Proven;
                None
            }
        };
        // RFC 9897 section 3.6: the subflow must be closed on such an error.
        if let Some(error) = error {
            self.reset_path(i, ResetCode::OptionError, error);
        }
    }

    /// Server: checks the first packet after the Response, which must prove that the peer knows the keys.
    /// Before that, no data is accepted from the peer or sent to it. Returns false if the subflow was closed.
    pub(super) fn prove_join(&mut self, now: Time, i: usize, tag: &Tag, packet: &Packet<'_>) -> bool {
        let found = packet.options().map_while(Result::ok).find_map(|option| match option {
            Opt::Mp(MpOption::Hmac(tag)) => Some(tag),
            _ => None,
        });
        if found.is_some_and(|found| same(tag, found)) {
            if self.is_crowded() {
                self.reset_path(i, ResetCode::TooBusy, Counter::BeyondMaxPaths);
                return false;
            }
            self.paths[i].stage = Stage::Proven;
            self.suspect_predecessors(now, i);
            return true;
        }
        let error = if found.is_some() { Counter::JoinWrongHmac } else { Counter::JoinWithoutHmac };
        self.reset_path(i, ResetCode::OptionError, error);
        false
    }

    /// A peer that joins again from the same address has most likely lost its earlier subflow from there.
    /// That subflow must answer a probe before it is used again; if it is already silent, it is closed.
    fn suspect_predecessors(&mut self, now: Time, joined: usize) {
        let ends = |p: &Subflow| (p.remote_addr, p.cfg.route.socket, p.cfg.route.local);
        let new = ends(&self.paths[joined]);
        for i in (0..self.paths.len()).filter(|i| *i != joined) {
            let path = &mut self.paths[i];
            if ends(path) != new {
                continue;
            }
            match (path.state, &mut path.conn) {
                (PathState::Up, Some(conn)) => {
                    conn.probe();
                    path.liveness = Liveness::suspect(now);
                    self.on_suspect(now, i);
                }
                (PathState::Suspect, _) if path.liveness.silent_for(now) >= REPLACE_AFTER => {
                    self.give_up(now, i, Reason::Replaced)
                }
                _ => {}
            }
        }
    }
}
