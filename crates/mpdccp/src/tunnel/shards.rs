//! Gives other threads access to a tunnel's data threads, which process its packets. A client has one data
//! thread. A server has one per shard, and each shard serves a part of the sessions.

use crate::tunnel::app::TunnelApp;
use crate::tunnel::face::control::{self, Request};
use crate::tunnel::face::events::Events;
use crate::tunnel::host::helper::Helper;
use crate::tunnel::links::Link;
use dccp_net::{Core, Driver, Handle};
use mpdccp_tunnel::config::Prio;
use mpdccp_tunnel::status::Status;
use mpdccp_tunnel::{Answer, Command};
use std::sync::Arc;
use std::sync::mpsc::channel;

/// All shards of this tunnel.
#[derive(Clone)]
pub(crate) struct Shards(Vec<Handle<TunnelApp>>);

const ENDING: &str = "the tunnel is ending";

impl Shards {
    /// Gives each shard the handles of all shards. The shards store them before they process any packet.
    pub(crate) fn of(drivers: &[Driver<TunnelApp>]) -> Shards {
        let all: Vec<Handle<TunnelApp>> = drivers.iter().map(Driver::handle).collect();
        for handle in all.iter().filter(|_| all.len() > 1) {
            let all = all.clone();
            handle.run(move |core, app| {
                core.share(&all);
                app.links.all = all.into_iter().map(link).collect();
            });
        }
        Shards(all)
    }

    /// Returns the shard that does the work that must be done only once.
    pub(crate) fn first(&self) -> &Handle<TunnelApp> {
        &self.0[0]
    }

    /// Runs a command on these shards, one after the other. Returns the first error if any shard returns one,
    /// the sum if the answers are numbers of clients, and otherwise the first answer.
    fn command(shards: &[Handle<TunnelApp>], command: &Command) -> Answer {
        let ask = |shard: &Handle<TunnelApp>| {
            let (caller, answer) = channel();
            let command = command.clone();
            shard.run(move |core, app| app.command(core, command, caller));
            answer.recv().unwrap_or_else(|_| Answer::Error(ENDING.into()))
        };
        let answers = shards.iter().map(ask).reduce(|before, answer| match (before, answer) {
            (Answer::Error(e), _) | (_, Answer::Error(e)) => Answer::Error(e),
            (Answer::Clients(a), Answer::Clients(b)) => Answer::Clients(a + b),
            (before, _) => before,
        });
        answers.unwrap_or_else(|| Answer::Error(ENDING.into()))
    }

    /// Shuts all shards down.
    pub(crate) fn shut_down(&self) {
        for shard in &self.0 {
            let (caller, _) = channel();
            shard.run(|core, app| app.command(core, Command::ShutDown, caller));
        }
    }

    /// Returns the status of the whole tunnel, with all peers or only one.
    pub(crate) fn status(&self, peer: Option<&str>) -> Option<Status> {
        let peer: Option<Arc<str>> = peer.map(Into::into);
        let ask = |shard: &Handle<TunnelApp>| {
            let peer = peer.clone();
            shard.call(move |core, app| app.status(core, peer.as_deref()))
        };
        let all: Option<Vec<Status>> = self.0.iter().map(ask).collect();
        all?.into_iter().reduce(Status::merge)
    }

    /// Reloads the configuration and describes the changes. On an error, nothing has changed.
    pub(crate) fn reload(&self, helper: &Helper) -> Result<String, String> {
        // No step of this can fail, so all shards apply the changes.
        let apply = |cfg, keys| Shards::command(&self.0, &Command::Reload(Box::new(cfg), keys));
        match helper.reload(apply)? {
            Answer::Reloaded(words) => Ok(words),
            Answer::Error(e) => Err(e),
            _ => Err(ENDING.into()),
        }
    }

    /// Answers a request on the control socket.
    pub(crate) fn control(&self, request: Request, helper: &Helper, events: &Events) -> control::Answer {
        let command = match request {
            Request::Status { peer } => {
                let status =
                    self.status(peer.as_deref()).map(|status| control::Answer::Status(Box::new(status)));
                return status.unwrap_or_else(|| control::Answer::Error(ENDING.into()));
            }
            Request::Events { after } => return control::Answer::Events(events.after(after)),
            Request::Reload => {
                return self.reload(helper).map_or_else(control::Answer::Error, control::Answer::Done);
            }
            Request::Down => {
                tracing::info!("closing all sessions: `mpdccp tunnel down`");
                self.shut_down();
                return control::Answer::Ok;
            }
            Request::Drain => Ok(Command::Drain),
            Request::PathAdd { peer, path } => {
                path.spec().map(|path| Command::PathAdd { peer, path: path.into() })
            }
            Request::PathDel { peer, name } => Ok(Command::PathDel { peer, name }),
            Request::PathPrio { peer, name, priority } => {
                Prio::try_from(i64::from(priority)).map(|priority| Command::PathPrio { peer, name, priority })
            }
        };
        let command = match command {
            Ok(command) => command,
            Err(e) => return control::Answer::Error(e),
        };
        let shards = if matches!(command, Command::Drain) { &self.0[..] } else { &self.0[..1] };
        match Shards::command(shards, &command) {
            Answer::Done => control::Answer::Ok,
            Answer::Clients(clients) => control::Answer::Clients(clients),
            Answer::Reloaded(words) => control::Answer::Done(words),
            Answer::Error(e) => control::Answer::Error(e),
        }
    }
}

fn link(shard: Handle<TunnelApp>) -> Link {
    let other = shard.clone();
    Link {
        packets: Box::new(move |packets| shard.offer(move |core, app| app.on_packets(core, packets))),
        message: Box::new(move |message| {
            let may_be_dropped = message.may_be_dropped();
            let job = move |core: &mut Core, app: &mut TunnelApp| app.on_shard(core, message);
            if may_be_dropped {
                other.offer(job)
            } else {
                other.run(job)
            };
        }),
    }
}

/// Ends all shards when the shard that owns this value ends, because the other shards cannot run a server
/// alone.
pub(crate) struct EndTogether(pub(crate) Shards);

impl Drop for EndTogether {
    fn drop(&mut self) {
        self.0.shut_down();
    }
}
