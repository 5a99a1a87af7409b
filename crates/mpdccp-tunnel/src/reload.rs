//! Applies a new configuration to peers and paths. Sessions continue if the new configuration does not
//! affect them.

use crate::Cx;
use crate::action::Action;
use crate::client::leaving;
use crate::client::paths::Paths;
use crate::command::{Keys, PeerKeys};
use crate::config::{self, Config, PathSpec};
use crate::path::WaitingPath;
use crate::peer::Peer;
use crate::peers::Peers;
use dccp_secure::PrivateKey;
use std::collections::BTreeMap;

/// The changes made by a reload.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    rekeyed: bool,
    added: usize,
    removed: usize,
    paths: usize,
    rescheduled: bool,
    rules_changed: bool,
}

impl Changes {
    /// Applies a new scheduler and new policy rules to the open sessions.
    pub(crate) fn apply(&self, cx: &mut Cx<'_>, peers: &Peers) {
        for session in peers.sessions().keys() {
            if self.rescheduled {
                cx.endpoint.set_scheduler(cx.now, *session, cx.cfg.settings.scheduler);
            }
            if self.rules_changed {
                cx.endpoint.set_policy(cx.now, *session, &cx.cfg.settings.policy_rule);
            }
        }
    }

    /// Describes the changes in the reply to the command.
    pub(crate) fn words(&self) -> String {
        let Changes { rekeyed, added, removed, paths, rescheduled, rules_changed } = self;
        format!(
            "{}{added} peer(s) added, {removed} removed, {paths} path(s) changed{}{}; other changed settings apply to new sessions",
            if *rekeyed { "this end's key changed, " } else { "" },
            if *rescheduled { ", scheduler changed" } else { "" },
            if *rules_changed { ", policy rules changed" } else { "" }
        )
    }
}

/// Applies a new configuration: removes and adds peers, and changes the paths of the remaining peers. `own`
/// is this end's current key. The numbers of the removed peers are appended to `gone`.
pub(crate) fn follow(
    cx: &mut Cx<'_>,
    peers: &mut Peers,
    paths: &mut Paths,
    own: &mut Option<PrivateKey>,
    (new, keys): (&Config, Keys),
    gone: &mut Vec<usize>,
) -> Changes {
    let mut done = Changes {
        rescheduled: new.settings.scheduler != cx.cfg.settings.scheduler,
        rules_changed: new.settings.policy_rule != cx.cfg.settings.policy_rule,
        ..Changes::default()
    };
    if let Some(key) = keys.own.filter(|key| own.as_ref() != Some(key)) {
        // A peer whose handshake used this end's old key must prove that it knows the new key.
        done.rekeyed = true;
        cx.out.push(Action::SetPrivateKey(key.clone()));
        *own = Some(key);
    }
    let listed: Vec<(&config::Peer, PeerKeys)> =
        new.peers.iter().map(|p| p.get_ref()).zip(keys.peers).collect();
    // Use a map, because a server may have very many peers, whose packets wait meanwhile.
    let by_name: BTreeMap<&str, &PeerKeys> =
        listed.iter().map(|(new, keys)| (new.name.as_str(), keys)).collect();
    let stays = |peer: &Peer| by_name.get(peer.name()).is_some_and(|keys| **keys == peer.keys);
    for number in peers.present().filter(|number| done.rekeyed || !stays(&peers[*number])).collect::<Vec<_>>()
    {
        gone.push(number);
        peers[number].forget_waiting(cx, |_| true);
        let (left, sessions) = leaving::abort(cx, &mut peers[number]);
        sessions.into_iter().for_each(|session| peers.forget(session));
        // The last traffic still has to be charged. Without the peer's channels, the sockets carry no more.
        for path in std::mem::take(&mut peers[number].paths).into_iter().chain(left) {
            paths.retire(cx, peers[number].name(), &path);
        }
        peers[number].report_down(cx, "the configuration changed");
        if let Some(session) = peers.remove(number) {
            cx.endpoint.abort(cx.now, session);
        }
        cx.out.push(Action::RemovePeer(number as u32));
        done.removed += 1;
    }
    for (peer, keys) in listed {
        match peers.number(&peer.name) {
            Some(number) => {
                done.paths += change(cx, peers, paths, number, peer);
                peers[number].limit(cx);
            }
            None => {
                let number = peers.add(Peer::new(peer.clone(), keys.clone(), cx.cfg.is_client())) as u32;
                if let Some((key, preshared)) = keys {
                    cx.out.push(Action::AddPeer { peer: number, key, preshared });
                }
                done.added += 1;
            }
        }
    }
    done
}

/// Applies the configuration to a peer. A setting changed by command stays in force unless the new file's
/// value differs from the old file's. Returns the number of changed paths.
fn change(cx: &mut Cx<'_>, peers: &mut Peers, paths: &mut Paths, number: usize, new: &config::Peer) -> usize {
    let old = std::mem::replace(&mut peers[number].cfg, new.clone());
    if old.receive_rate != new.receive_rate {
        peers[number].policer.restart();
    }
    if !cx.cfg.is_client() {
        return 0;
    }
    let specs =
        |peer: &config::Peer| peer.paths.iter().map(|p| p.get_ref().clone()).collect::<Vec<PathSpec>>();
    let (mut before, after) = (specs(&old), specs(new));
    // If the file now lists a path that a command has added, the settings in the file apply.
    let is_new = |spec: &&PathSpec| {
        let same = |other: &PathSpec| other.name == spec.name;
        !spec.advertised && !before.iter().any(same) && after.iter().any(same)
    };
    let added: Vec<PathSpec> = peers[number].specs().filter(is_new).cloned().collect();
    before.extend(added);
    let mut changed = 0;
    for path in &before {
        match after.iter().find(|p| p.name == path.name) {
            Some(next) if next == path => continue,
            // A new priority or limit can be applied to the open path.
            Some(next) if next.unlimited() == path.unlimited() => {
                limit_anew(cx, &mut peers[number], path, next)
            }
            _ => paths.remove(cx, peers, number, &path.name),
        }
        changed += 1;
    }
    let (removed, new): (Vec<_>, Vec<_>) = after
        .into_iter()
        .filter(|path| !peers[number].has_path(&path.name))
        .partition(|path| before.contains(path));
    changed += new.iter().filter(|path| before.iter().all(|p| p.name != path.name)).count();
    // A path that was removed by command stays removed, unless the peer would have no path left.
    let none = new.is_empty() && peers[number].specs().all(|spec| spec.advertised);
    let back = if none { removed } else { new };
    peers[number].waiting.extend(back.into_iter().map(WaitingPath::new));
    changed
}

/// Applies new limits to an open path and to its copies, the paths to advertised addresses. Also applies the
/// priority in the file if it has changed there.
fn limit_anew(cx: &mut Cx<'_>, peer: &mut Peer, old: &PathSpec, new: &PathSpec) {
    let is_copy = |spec: &PathSpec| {
        spec.advertised && spec.name.rsplit_once('@').is_some_and(|(name, _)| name == new.name)
    };
    let mut names = Vec::new();
    for spec in peer.specs_mut().filter(|spec| spec.name == new.name || is_copy(spec)) {
        let PathSpec { name, remote, priority, advertised, .. } = spec.clone();
        names.push(name.clone());
        *spec = PathSpec { name, remote, priority, advertised, ..new.clone() };
    }
    if old.prio() != new.prio() {
        for name in names {
            // This cannot fail, because the peer has all these paths.
            let _ = peer.set_prio(cx, &name, new.prio());
        }
    }
}
