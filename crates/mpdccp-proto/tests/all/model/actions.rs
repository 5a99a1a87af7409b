//! The actions that are possible in a state, and their effects.

use super::*;

impl State {
    /// Returns the state after an action.
    pub(super) fn after(&self, action: &Action) -> State {
        let mut next = self.clone();
        let mut take = |packet: &Packet| {
            let at = next.net.iter().position(|p| p == packet);
            next.net.remove(at.unwrap_or_else(|| panic!("{packet:?} is not in the network")));
        };
        match action {
            Action::Deliver(packet) => {
                take(packet);
                next.receive(packet);
            }
            Action::Lose(packet) => take(packet),
            Action::Duplicate(packet) => next.launch(*packet),
            Action::Timer(end, c, give_up) => next.timer(*end, *c, *give_up),
            Action::Repeat(end, told, false) => next.tell(*end, place(*told)),
            Action::Repeat(end, told, true) => {
                next.pending[*end][place(*told)] = None;
                next.release(*told);
            }
            Action::Probe(end, c) => next.send_acking(*end, *c, Sync(false)),
            Action::Command(command) => next.command(*command),
        }
        if self.is_fault(action) {
            next.faults = next.faults.saturating_sub(1);
        }
        next.net.sort_unstable();
        next
    }

    /// Returns whether an action is a fault: a loss, a duplication, a probe, a timer that gives up, or a
    /// timer that fires while packets are in flight.
    fn is_fault(&self, action: &Action) -> bool {
        match action {
            Action::Deliver(_) | Action::Command(_) => false,
            Action::Lose(_) | Action::Duplicate(_) | Action::Probe(..) => true,
            Action::Timer(_, _, true) | Action::Repeat(_, _, true) => true,
            Action::Timer(_, c, false) => self.net.iter().any(|p| p.conn == *c),
            Action::Repeat(..) => !self.net.is_empty(),
        }
    }

    /// Returns the running timers in two lists: those that fire soon, and those that fire only if nothing
    /// else can happen, such as timers that give up.
    pub(super) fn timers(&self) -> (Vec<Action>, Vec<Action>) {
        let (mut soon, mut late) = (Vec::new(), Vec::new());
        for (end, c) in (0..2).flat_map(|end| (0..CONNS).map(move |c| (end, c))) {
            let closing = self.sessions[end] == Session::Closing;
            match self.conns[c][end].state {
                Conn::Request | Conn::PartOpen | Conn::Closing => {
                    soon.push(Action::Timer(end, c, false));
                    late.push(Action::Timer(end, c, true));
                }
                Conn::Respond => late.push(Action::Timer(end, c, true)),
                Conn::Open if closing => late.push(Action::Timer(end, c, true)),
                Conn::Open => late.push(Action::Probe(end, c)),
                Conn::Closed | Conn::TimeWait => {}
            }
        }
        for (end, pending) in (0..2).flat_map(|end| self.pending[end].iter().flatten().map(move |p| (end, p)))
        {
            if self.path_for(end, pending).is_some() {
                // RFC 9897 section 3.2.9: a peer that does not know the address never confirms its removal,
                // so this end may give up.
                soon.push(Action::Repeat(end, pending.told, false));
                if matches!(pending.told, Told::Remove(_)) && pending.tries == TRIES {
                    late.push(Action::Repeat(end, pending.told, true));
                }
            }
        }
        (soon, late)
    }

    /// Returns whether both ends have the subflow, but the server has accepted it again because of an old
    /// Request. What follows depends on the initial sequence numbers, which are not part of the model.
    pub(super) fn is_mixed(&self) -> bool {
        let mixed = |[client, server]: &[Half; 2]| {
            let alive = |half: &Half| !matches!(half.state, Conn::Closed | Conn::TimeWait | Conn::Request);
            alive(client) && alive(server) && client.inc != server.inc
        };
        self.conns.iter().any(mixed)
    }

    /// Returns all possible actions.
    pub(super) fn actions(&self) -> Vec<Action> {
        if self.is_mixed() {
            return Vec::new();
        }
        let mut packets = self.net.clone();
        packets.dedup();
        let mut all: Vec<Action> = packets.iter().map(|p| Action::Deliver(*p)).collect();
        all.extend(
            COMMANDS
                .iter()
                .filter(|c| self.commands[slot(**c)] > 0 && self.may(**c))
                .map(|c| Action::Command(*c)),
        );
        all.extend(packets.iter().map(|p| Action::Lose(*p)));
        let once = packets.iter().filter(|p| self.net.iter().filter(|q| q == p).count() == 1);
        all.extend(once.map(|p| Action::Duplicate(*p)));
        let (soon, late) = self.timers();
        all.extend(soon.into_iter().chain(late));
        // An end gives up only after its packets have left the network.
        let early = |action: &Action| matches!(action, Action::Timer(_, c, true) if self.net.iter().any(|p| p.conn == *c));
        all.retain(|action| (self.faults > 0 || !self.is_fault(action)) && !early(action));
        all
    }
}
