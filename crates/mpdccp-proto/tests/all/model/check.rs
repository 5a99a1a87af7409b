//! Visits all states of the model.

use super::*;
use std::collections::{HashMap, HashSet};

/// All states within the bounds, each with the action that first led to it.
pub(super) struct Graph {
    /// The states as they were reached, with the numbers that they had before [`State::normal`].
    pub(super) states: Vec<State>,
    pub(super) parents: Vec<Option<(usize, Action)>>,
    pub(super) transitions: usize,
}

impl Graph {
    /// Explores all states from `start`, and calls `each` with each transition.
    pub(super) fn of(start: State, each: &mut dyn FnMut(usize, &Action, &State)) -> Graph {
        let mut seen = HashSet::from([start.normal()]);
        let mut graph = Graph { states: vec![start], parents: vec![None], transitions: 0 };
        let mut at = 0;
        while at < graph.states.len() {
            for action in graph.states[at].actions() {
                let next = graph.states[at].after(&action);
                graph.transitions += 1;
                each(at, &action, &next);
                if seen.insert(next.normal()) {
                    graph.states.push(next);
                    graph.parents.push(Some((at, action)));
                }
            }
            at += 1;
        }
        graph
    }

    /// Returns the actions that lead from the start to a state.
    pub(super) fn trace(&self, mut at: usize) -> Vec<Action> {
        let mut trace = Vec::new();
        while let Some((before, action)) = self.parents[at] {
            trace.push(action);
            at = before;
        }
        trace.reverse();
        trace
    }
}

impl Graph {
    fn story(&self, at: usize) -> String {
        self.trace(at).iter().map(|action| format!("\n  {action:?}")).collect()
    }
}

impl State {
    /// Of the rules that must hold in every state, returns one that this state violates, or `None`.
    fn fault(&self) -> Option<&'static str> {
        let uses =
            |c: &usize| matches!(self.conns[*c][CLIENT].state, Conn::Request | Conn::PartOpen | Conn::Open);
        if (1..CONNS).filter(uses).count() > 1 {
            return Some("two subflows use the advertised address");
        }
        let knows =
            |c: usize| matches!(self.known[usize::from(self.conns[c][CLIENT].id) - 1], Some((true, _)));
        if self.user().is_some_and(|c| !knows(c)) {
            return Some("a removed address is used");
        }
        let tells = |end: &usize| self.pending[*end].iter().any(Option::is_some);
        if (0..2).filter(tells).any(|end| self.sessions[end] == Session::Closing) {
            return Some("an option is pending in a session that closes");
        }
        None
    }

    /// Returns why the two ends must not remain in this state, or `None` if they may.
    fn unsettled(&self) -> Option<&'static str> {
        let ends = |c: usize| [CLIENT, SERVER].map(|end| self.is_open(end, c));
        let halves = |end: usize| (0..CONNS).filter(move |c| self.is_live(end, *c));
        if (0..CONNS).any(|c| ends(c)[0] != ends(c)[1])
            || (0..2).any(|end| halves(end).any(|c| !self.is_open(end, c)))
        {
            return Some("a subflow stays half open");
        }
        let is_up = |end: usize| self.sessions[end] == Session::Open && halves(end).next().is_some();
        if is_up(CLIENT) != is_up(SERVER) {
            return Some("a session stays half open");
        }
        if (0..2).any(|end| matches!(self.sessions[end], Session::Connecting | Session::Closing)) {
            return Some("a session neither opens nor closes");
        }
        if !is_up(CLIENT) {
            return None;
        }
        if self
            .pending
            .iter()
            .flatten()
            .flatten()
            .any(|p| self.path_for(SERVER, p).is_some() || matches!(p.told, Told::Prio(_)))
        {
            return Some("an option stays unconfirmed");
        }
        let joined = self.joined();
        if let Some(c) = joined.filter(|c| self.prios > 0 && *c == self.joins)
            && self.conns[c][SERVER].prio.is_some_and(|(value, _)| value != self.prios)
        {
            return Some("the server has an outdated priority");
        }
        for id in 0..IDS {
            if matches!(self.known[id], Some((true, _))) != self.given[id] {
                return Some("the client's addresses differ from the server's");
            }
        }
        let wanted = (0..IDS).any(|id| self.given[id] && !self.shunned[id]);
        if wanted && joined.is_none() && self.joins + 1 < CONNS {
            return Some("an address has no subflow");
        }
        None
    }

    /// Returns the same state, but without permission for further faults and commands.
    fn calm(&self) -> State {
        State { faults: 0, commands: [0; 8], ..self.normal() }
    }

    /// Returns the actions that are possible without faults. Packets arrive before any timer fires.
    fn calmly(&self) -> Vec<Action> {
        if !self.is_mixed() && !self.net.is_empty() {
            let mut packets = self.net.clone();
            packets.dedup();
            return packets.into_iter().map(Action::Deliver).collect();
        }
        if self.is_mixed() {
            return Vec::new();
        }
        let (mut soon, mut late) = self.timers();
        // Leave out a probe to a peer in a good state, because the peer answers it and nothing changes.
        late.retain(|action| !matches!(action, Action::Probe(end, c) if self.is_open(1 - end, *c)));
        for action in &mut soon {
            if let Action::Repeat(end, told, give_up) = action {
                *give_up = late.contains(&Action::Repeat(*end, *told, true));
            }
        }
        match self.unsettled() {
            _ if !soon.is_empty() => soon,
            Some(_) => late,
            None => Vec::new(),
        }
    }
}

/// Follows all fault-free continuations from all states, and checks that each state on the way leads to a
/// settled one. Repeated timers therefore settle everything in the end.
fn settle(graph: &Graph) {
    let mut ids: HashMap<State, usize> = HashMap::new();
    // For each calm state: the state of the graph that it came from, and the calm states before it.
    let (mut calm, mut before): (Vec<(State, usize)>, Vec<Vec<usize>>) = Default::default();
    let mut settled = Vec::new();
    let mut id_of = |state: State, from, calm: &mut Vec<(State, usize)>, before: &mut Vec<Vec<usize>>| {
        *ids.entry(state).or_insert_with_key(|state| {
            calm.push((state.clone(), from));
            before.push(Vec::new());
            calm.len() - 1
        })
    };
    for (i, state) in graph.states.iter().enumerate() {
        id_of(state.calm(), i, &mut calm, &mut before);
    }
    let mut at = 0;
    while at < calm.len() {
        let (state, from) = calm[at].clone();
        let actions = state.calmly();
        if actions.is_empty() {
            let fault = state.unsettled().filter(|_| !state.is_mixed());
            assert_eq!(fault, None, "{}\nends in {state:?}", graph.story(from));
            settled.push(at);
        }
        for action in actions {
            let next = id_of(state.after(&action).calm(), from, &mut calm, &mut before);
            before[next].push(at);
        }
        at += 1;
    }
    let mut fine = vec![false; calm.len()];
    while let Some(id) = settled.pop() {
        if !std::mem::replace(&mut fine[id], true) {
            settled.append(&mut before[id]);
        }
    }
    if let Some(id) = fine.iter().position(|fine| !fine) {
        panic!("never stops sending:{}\nin {:?}", graph.story(calm[id].1), calm[id].0);
    }
}

/// Returns the start states, each with the actions that lead to it, and its faults and commands.
pub(super) fn bounds() -> Vec<(&'static str, Vec<Action>, State)> {
    use Command::*;
    let mut all = Vec::new();
    let mut add = |name, before: Option<&[Command]>, faults, commands: &[Command]| {
        let (start, trace) = before.map_or((State::new(), Vec::new()), |before| State::new().then(before));
        all.push((name, trace, start.with(faults, commands)));
    };
    add("handshake", None, 2, &[]);
    add("handshake, close", None, 1, &[Close(CLIENT), Close(SERVER)]);
    add("handshake, abort", None, 1, &[Abort(CLIENT), Abort(SERVER)]);
    let one = Some(&[][..]);
    add("join", one, 2, &[Advertise]);
    add("join, leave", one, 1, &[Advertise, Leave]);
    add("join, withdraw", one, 1, &[Advertise, Withdraw]);
    add("join, close", one, 1, &[Advertise, Close(CLIENT)]);
    add("join, server closes", one, 1, &[Advertise, Close(SERVER)]);
    add("join, server aborts", one, 1, &[Advertise, Abort(SERVER)]);
    let two = Some(&[Advertise][..]);
    add("priorities", two, 1, &[Prio, Prio, Prio]);
    add("withdraw", two, 2, &[Withdraw]);
    add("withdraw, advertise", two, 1, &[Withdraw, Advertise]);
    add("withdraw, priority", two, 1, &[Withdraw, Prio]);
    add("close", two, 2, &[Close(CLIENT)]);
    add("server closes", two, 2, &[Close(SERVER)]);
    add("both close", two, 1, &[Close(CLIENT), Close(SERVER)]);
    add("abort", two, 1, &[Abort(CLIENT), Abort(SERVER)]);
    add("close, abort", two, 1, &[Close(CLIENT), Abort(SERVER)]);
    all
}

#[test]
fn every_state_settles() {
    let (mut states, mut transitions, mut left_out) = (0, 0, 0);
    for (name, _, start) in bounds() {
        let graph = Graph::of(start, &mut |_, _, _| {});
        for (i, state) in graph.states.iter().enumerate() {
            assert_eq!(state.fault(), None, "{name}:{}\n{state:?}", graph.story(i));
        }
        settle(&graph);
        let mixed = graph.states.iter().filter(|s| s.is_mixed()).count();
        println!("{name}: {} states, {} transitions", graph.states.len(), graph.transitions);
        states += graph.states.len();
        transitions += graph.transitions;
        left_out += mixed;
    }
    println!("{states} states, {transitions} transitions; {left_out} states with two incarnations");
}
