use crate::SessionId;
use crate::session::Session;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;
use dccp_proto::ccid::{AckVecSender, Control};
use dccp_proto::{CcOptions, Connection};

/// Connections with the same key may share a congestion state: they use the same socket (and thus the same
/// route), hosts, CCID and rules.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    socket: u32,
    local: Option<IpAddr>,
    remote: IpAddr,
    ccid: u8,
    packets: bool,
    draft: bool,
}

impl Key {
    /// Returns `None` for external congestion control, because two external controllers cannot be compared.
    fn of(conn: &Connection, cc: &CcOptions) -> Option<Key> {
        let (ccid, _) = conn.ccids().filter(|(ccid, _)| cc.experiment.is_none_or(|e| e.ccid != *ccid))?;
        let route = conn.route();
        Some(Key {
            socket: route.socket,
            local: route.local,
            remote: route.remote.ip(),
            ccid,
            packets: cc.packets,
            draft: cc.draft,
        })
    }
}

#[derive(Debug)]
struct Group {
    key: Key,
    control: Control,
    /// Sessions in turn order. The session that sent last goes to the end, so that the others get the next
    /// free window space. Each session has at most one connection in the group.
    members: Vec<SessionId>,
    /// Number of packets that the group had sent when the state was lent out.
    sent: u64,
}

/// The congestion manager. It keeps the congestion states shared by connections between the same two hosts,
/// and lends them to a session while that session is processed.
#[derive(Debug, Default)]
pub(super) struct Groups {
    groups: BTreeMap<u64, Group>,
    next: u64,
}

impl Groups {
    /// Lends a session the congestion states that its connections share with others.
    pub(super) fn lend(&mut self, session: &mut Session) {
        for sender in session.senders() {
            if let Some(group) = sender.group().and_then(|id| self.groups.get_mut(&id)) {
                group.sent = group.control.sent();
                sender.exchange(&mut group.control);
            }
        }
    }

    /// Takes back what [`lend`](Self::lend) lent.
    pub(super) fn take_back(&mut self, id: SessionId, session: &mut Session) {
        for sender in session.senders() {
            if let Some(group) = sender.group().and_then(|id| self.groups.get_mut(&id)) {
                sender.exchange(&mut group.control);
                if group.control.sent() != group.sent {
                    group.members.retain(|member| *member != id);
                    group.members.push(id);
                }
            }
        }
    }

    /// Adds open connections to groups, and removes closed ones. Call this after an input, when no state is
    /// lent out. Returns the sessions that may now be able to send more, in turn order.
    pub(super) fn follow(&mut self, id: SessionId, session: &mut Session) -> Vec<SessionId> {
        let cc = session.cc_options();
        let mut others = Vec::new();
        for conn in session.open_connections() {
            let key = Key::of(conn, &cc);
            if let (Some(key), Some(sender)) = (key, conn.shareable()) {
                match sender.group().and_then(|id| self.groups.get(&id)) {
                    Some(group) => others.extend_from_slice(&group.members),
                    None => self.join(id, key, sender),
                }
            }
        }
        for sender in session.ended().filter_map(Connection::shareable) {
            others.extend(self.leave(id, sender));
        }
        others
    }

    fn join(&mut self, id: SessionId, key: Key, sender: &mut AckVecSender) {
        let found = self.groups.iter_mut().find(|(_, group)| group.key == key);
        match found {
            Some((_, group)) if group.members.contains(&id) => {}
            Some((number, group)) => {
                sender.join_group(*number, &mut group.control);
                group.members.insert(0, id);
            }
            None => {
                let control = sender.found_group(self.next);
                self.groups.insert(self.next, Group { key, control, members: [id].into(), sent: 0 });
                self.next += 1;
            }
        }
    }

    fn leave(&mut self, id: SessionId, sender: &mut AckVecSender) -> Vec<SessionId> {
        let Some(number) = sender.group() else { return Vec::new() };
        let Some(group) = self.groups.get_mut(&number) else { return Vec::new() };
        sender.leave_group(&mut group.control);
        group.members.retain(|member| *member != id);
        let others = group.members.clone();
        if others.is_empty() {
            self.groups.remove(&number);
        }
        others
    }
}
