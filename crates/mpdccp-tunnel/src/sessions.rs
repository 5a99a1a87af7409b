//! Handles the events of sessions.

use crate::Cx;
use crate::action::{Action, HookEvent};
use crate::capacities::Capacities;
use crate::client::assigned::Assigned;
use crate::message::Message;
use crate::path_history;
use crate::peers::Peers;
use mpdccp_proto::{Reason, SessionEvent, SessionId};

/// What the caller must do next after an event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Nothing,
    /// Update the packet sizes of this peer, which may have changed.
    Resize(usize),
    /// Clean up after the session of this peer, which has ended.
    Over(usize),
}

/// Handles an event of a session. `interface_mtu` is the size of the largest packet from the interface.
pub(crate) fn on_event(
    cx: &mut Cx<'_>,
    peers: &mut Peers,
    assigned: &mut Assigned,
    capacities: &mut Capacities,
    interface_mtu: u16,
    session: SessionId,
    event: SessionEvent,
) -> Next {
    if let SessionEvent::Accepted { peer } = event {
        accept(cx, peers, capacities, session, peer as usize);
        return Next::Nothing;
    }
    let Some(number) = peers.of(session) else { return Next::Nothing };
    let peer = &mut peers[number];
    let name = peer.cfg.name.clone();
    match event {
        SessionEvent::Opened { multipath } => {
            let away = peer.on_opened(cx.now);
            assigned.ask(cx, peer, true);
            for ip in &cx.cfg.advertise {
                cx.endpoint.advertise(cx.now, session, *ip, None);
            }
            cx.endpoint.cap(cx.now, session, peer.cfg.rate.map(|rate| rate.0));
            let plain = if multipath { "" } else { ", without multipath" };
            let away =
                away.map_or_else(String::new, |time| format!(" again after {}", path_history::length(time)));
            cx.out.info(format!("peer {name}: session open{away}{plain}"));
            cx.hook(HookEvent::SessionUp, &name, None, "");
        }
        SessionEvent::PathUp(id) => {
            peer.limit_path(cx, id);
            if cx.cfg.is_client() {
                let names = peer.paths.iter().map(|path| path.spec.name.clone()).collect();
                peer.tell(cx, &Message::Names(names));
            }
            capacities.resume(cx, peer);
            let (path, label) = peer.label(cx, id);
            let away = peer.histories.recover(cx.now, &path);
            let away =
                away.map_or_else(String::new, |time| format!(" again after {}", path_history::length(time)));
            cx.out.info(format!("peer {name}: {label} is up{away}"));
            cx.hook(HookEvent::PathUp, &name, Some(&path), "");
            peer.look(cx, Some(id));
            return Next::Resize(number);
        }
        SessionEvent::PathMtu { path: id, before, now } => {
            let (_, label) = peer.label(cx, id);
            let line = format!("peer {name}: {label} changed its MTU from {before} to {now} bytes");
            let status = peer.status(cx);
            let inner = status.iter().flat_map(|s| &s.paths).find(|p| p.id == id).map(|p| p.max_payload);
            match inner.filter(|inner| now < before && *inner < interface_mtu.into()) {
                Some(inner) => cx.out.warn(format!(
                    "{line}; packets of {} over {inner} bytes take other paths, or get an ICMP error",
                    cx.cfg.interface
                )),
                None => cx.out.info(line),
            }
            return Next::Resize(number);
        }
        SessionEvent::PathSuspect(id) => {
            capacities.observe(cx, peer);
            peer.suspect(cx, id);
            peer.note_silence(cx);
        }
        SessionEvent::PathDown(id, why) => match why {
            // The client will soon try the next path, so do not log this failure.
            Reason::NextTried => {}
            Reason::Closed | Reason::ClosedByPeer | Reason::Removed | Reason::Replaced | Reason::Plain => {
                let (path, label) = peer.label(cx, id);
                peer.histories.forget(&path);
                cx.out.info(format!("peer {name}: {label} is closed: {why}"));
                cx.hook(HookEvent::PathDown, &name, Some(&path), &why.to_string());
                // The closed path may have been the narrowest one.
                return Next::Resize(number);
            }
            _ => {
                peer.fails(cx, id, &why.to_string());
                peer.note_silence(cx);
            }
        },
        SessionEvent::Closed(why) => {
            cx.out.info(format!("peer {name}: session closed: {why}"));
            cx.hook(HookEvent::SessionDown, &name, None, &why.to_string());
            if let (Some(brief), true) = (peer.on_ended(cx.now), !cx.closing) {
                cx.out.warn(format!(
                    "peer {name}: {brief} sessions in a row ended soon after opening; \
                     check that no other client has the same key"
                ));
            }
            // The other end may have restarted and lost its keys, so start with a new handshake.
            if !peer.paths.is_empty() {
                cx.out.push(Action::StartOver(number as u32));
            }
            peer.on_closed(cx);
            peers.forget(session);
            return Next::Over(number);
        }
        // All other events concern features that the tunnel does not use.
        _ => {}
    }
    Next::Nothing
}

/// Stores a peer's new session. If the peer has another session, ends it: a peer uses only one session at a
/// time, so it must have lost the other one.
fn accept(
    cx: &mut Cx<'_>,
    peers: &mut Peers,
    capacities: &mut Capacities,
    session: SessionId,
    number: usize,
) {
    if peers.get(number).is_none() {
        return cx.endpoint.abort(cx.now, session);
    }
    capacities.observe(cx, &peers[number]);
    if let Some(old) = peers.accept(number, session) {
        let peer = &mut peers[number];
        let why = "a new session replaces the old one";
        cx.out.info(format!("peer {}: {why}", peer.name()));
        // The events of the old session are ignored from now on. The new one numbers its paths anew.
        peer.labels.clear();
        if peer.opened.is_some() {
            cx.hook(HookEvent::SessionDown, peer.name(), None, why);
        }
        if let Some(brief) = peer.on_ended(cx.now) {
            cx.out.warn(format!(
                "peer {}: {brief} sessions in a row were replaced soon after opening; check that only one client has this key",
                peer.name()
            ));
        }
        cx.endpoint.abort(cx.now, old);
    }
    // A reload may have changed these since the handshake began.
    cx.endpoint.set_scheduler(cx.now, session, cx.cfg.settings.scheduler);
    cx.endpoint.set_policy(cx.now, session, &cx.cfg.settings.policy_rule);
}
