//! Several endpoints of one server: a shard each, on a thread of its own, with the peers that are at home there. All of them have the same
//! peers under the same numbers, and sockets at the same addresses; what comes in at one and is for another is handed over.

use crate::tunnel::app::TunnelApp;
use crate::tunnel::control::{Answer, Request};
use crate::tunnel::mtu::Sizes;
use crate::tunnel::status::Status;
use dccp_net::{Core, Driver, Handle, Tun};
use std::sync::{Arc, Mutex};

/// The interface, as all shards share it.
#[derive(Clone)]
pub(crate) struct Interface {
    pub(crate) tun: Tun,
    pub(crate) sizes: Arc<Mutex<Sizes>>,
}

/// Which of the shards this one is, and its ways to the others.
pub(crate) struct Shard {
    pub(crate) number: u8,
    pub(crate) of: u8,
    all: Vec<Handle<TunnelApp>>,
    /// Packets of the interface for each of them.
    waiting: Vec<Vec<Vec<u8>>>,
    /// The first one's: which of them it heard of since all were heard of.
    heard: Vec<bool>,
    /// Of them, those that went there.
    pub(crate) handed_over: u64,
}

impl Shard {
    pub(crate) fn new(number: u8, of: u8) -> Shard {
        Shard {
            number,
            of,
            all: Vec::new(),
            waiting: vec![Vec::new(); of.into()],
            heard: vec![false; of.into()],
            handed_over: 0,
        }
    }

    /// A shard lives, as the first one hears; whether all of them do, since that was last so.
    pub(crate) fn all_live(&mut self, number: u8) -> bool {
        if let Some(heard) = self.heard.get_mut(usize::from(number)) {
            *heard = true;
        }
        let all = self.heard.iter().all(|heard| *heard);
        if all {
            self.heard.fill(false);
        }
        all
    }

    /// It does what is done once, however many there are.
    pub(crate) fn is_first(&self) -> bool {
        self.number == 0
    }

    /// The shard that has, or is to have, the session of a peer.
    pub(crate) fn home(&self, peer: usize) -> u8 {
        dccp_secure::home(peer as u32, self.of)
    }

    /// Whether it has the session of a peer.
    pub(crate) fn is_home(&self, peer: usize) -> bool {
        self.home(peer) == self.number
    }

    /// A packet for a peer that is at home elsewhere.
    pub(crate) fn put(&mut self, peer: usize, packet: Vec<u8>) {
        let home = usize::from(self.home(peer));
        self.waiting[home].push(packet);
    }

    /// Hands over what was put; how many packets were dropped since a shard has too much to do.
    pub(crate) fn hand_over(&mut self) -> u64 {
        let mut dropped = 0;
        for (shard, waiting) in self.all.iter().zip(&mut self.waiting).filter(|(_, w)| !w.is_empty()) {
            let packets = std::mem::take(waiting);
            let n = packets.len() as u64;
            match shard.offer(move |core, app| app.take_packets(core, packets)) {
                true => self.handed_over += n,
                false => dropped += n,
            }
        }
        dropped
    }

    /// Runs a job where a peer is at home.
    pub(crate) fn at_home(&self, peer: usize, job: impl FnOnce(&mut Core, &mut TunnelApp) + Send + 'static) {
        if let Some(shard) = self.all.get(usize::from(self.home(peer))) {
            shard.run(job);
        }
    }

    /// Runs a job on the first shard.
    pub(crate) fn at_first(&self, job: impl FnOnce(&mut Core, &mut TunnelApp) + Send + 'static) {
        if let Some(shard) = self.all.first() {
            shard.run(job);
        }
    }

    /// Runs a job on all the others.
    pub(crate) fn at_others(&self, job: impl FnOnce(&mut Core, &mut TunnelApp) + Clone + Send + 'static) {
        for (_, shard) in self.all.iter().enumerate().filter(|(i, _)| *i != usize::from(self.number)) {
            shard.run(job.clone());
        }
    }
}

/// All shards of this tunnel, for the threads that ask them.
#[derive(Clone)]
pub(crate) struct Shards(Vec<Handle<TunnelApp>>);

impl Shards {
    /// Makes them known to each other. Those that run begin with that.
    pub(crate) fn of(drivers: &[Driver<TunnelApp>]) -> Shards {
        let all: Vec<Handle<TunnelApp>> = drivers.iter().map(Driver::handle).collect();
        for handle in all.iter().filter(|_| all.len() > 1) {
            let all = all.clone();
            handle.run(move |core, app| {
                core.share(&all);
                app.shard.all = all;
            });
        }
        Shards(all)
    }

    /// The one that does what is done once.
    pub(crate) fn first(&self) -> &Handle<TunnelApp> {
        &self.0[0]
    }

    /// Asks all of them, one after the other; `None` if the tunnel is ending.
    pub(crate) fn each<R: Send + 'static>(
        &self,
        job: impl Fn(&mut Core, &mut TunnelApp) -> R + Clone + Send + 'static,
    ) -> Option<Vec<R>> {
        self.0.iter().map(|shard| shard.call(job.clone())).collect()
    }

    /// Has all of them end.
    pub(crate) fn shut_down(&self) {
        for shard in &self.0 {
            shard.run(|core, app| {
                let now = core.clock.now();
                app.shut_down(core, now);
            });
        }
    }

    /// The status of the whole tunnel, with all peers or only this one.
    pub(crate) fn status(&self, peer: Option<&str>) -> Option<Status> {
        let peer: Option<Arc<str>> = peer.map(Into::into);
        let all = self.each(move |core, app| app.status(core, core.clock.now(), peer.as_deref()))?;
        all.into_iter().reduce(Status::merge)
    }

    /// Answers a request.
    pub(crate) fn control(&self, request: Request) -> Answer {
        let answer = match request {
            Request::Status { peer } => {
                self.status(peer.as_deref()).map(|status| Answer::Status(Box::new(status)))
            }
            Request::Drain => self.each(|core, app| app.drain(core)).map(|all| {
                let clients: Result<usize, String> = all.into_iter().sum();
                clients.map_or_else(Answer::Error, Answer::Clients)
            }),
            Request::Down => {
                self.shut_down();
                Some(Answer::Ok)
            }
            // The peer is at home on one of them, and sessions to come may be on any.
            Request::Scheduler { .. } => {
                self.each(move |core, app| app.control(core, request.clone())).and_then(|all| {
                    all.into_iter().find(|answer| !matches!(answer, Answer::Ok)).or(Some(Answer::Ok))
                })
            }
            request => self.first().call(move |core, app| app.control(core, request)),
        };
        answer.unwrap_or(Answer::Error("the tunnel is ending".into()))
    }
}

/// Ends the tunnel with the shard that holds it: a part of a server is none.
pub(crate) struct EndTogether(pub(crate) Shards);

impl Drop for EndTogether {
    fn drop(&mut self) {
        self.0.shut_down();
    }
}
