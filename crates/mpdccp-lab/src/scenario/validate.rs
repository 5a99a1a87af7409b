//! Checks a parsed scenario for errors of meaning.

use core::ops::Range;
use std::collections::BTreeSet;

use mpdccp_tunnel::config::Config;
use std::path::{Path, PathBuf};
use toml::Spanned;

use super::place::{Places, Problem, is_plain, of_link, value};
use super::short::MAX_SHORT;
use super::tunnel::{SECURITY, TCP};
use super::{
    Baseline, Cell, FlowKind, FlowSpec, LossDetection, Mode, PathSpec, Scenario, SourceSpec, Variant,
};
use crate::Plan;
use crate::metric_names::NAMES;
use crate::sim::Side;
use crate::tunnel_files::TunnelFiles;

const TCP_CCS: &[&str] = &["reno", "cubic", "bbr"];

fn problem<T>(at: &Spanned<T>, message: impl Into<String>) -> Problem {
    (Some(at.span()), message.into())
}

fn general(message: impl Into<String>) -> Problem {
    (None, message.into())
}

/// Fails if a scenario is invalid. The error includes the position in the file, if known.
pub(super) fn validate(s: &Scenario, text: &str) -> Result<(), Problem> {
    let duration = *s.duration_s.as_ref();
    if !(duration > 0.0 && duration <= 86_400.0) {
        return Err(problem(&s.duration_s, "must be above 0 and at most 86400"));
    }
    if s.warm_up.as_secs_f64() >= duration {
        return Err(general(format!("warm_up_s must be below duration_s = {duration}")));
    }
    s.measured.as_ref().map_or(Ok(()), |name| known_flow(s, name))?;
    if s.runs == 0 {
        return Err(general("runs must be at least 1"));
    }
    for (what, count) in
        [("[[path]]", s.paths.len()), ("[[variant]]", s.variants.len()), ("[[flow]]", s.flows.len())]
    {
        if count == 0 {
            return Err(general(format!("{what} is missing; add at least one")));
        }
    }
    if s.mode == Mode::Direct && s.paths.len() != 1 {
        return Err(general("mode \"direct\" takes exactly one [[path]]"));
    }
    unique("path", s.paths.iter().map(|p| &p.name))?;
    unique("variant", s.variants.iter().map(|c| &c.label))?;
    unique("flow", s.flows.iter().map(|f| &f.name))?;
    // The name of an entry with `count` stands for all of the entry's flows.
    let again = |f: &&FlowSpec| {
        let name = f.name.as_ref();
        s.flows.iter().any(|other| other.name.as_ref() != name && other.is(name))
    };
    if let Some(f) = s.flows.iter().find(again) {
        return Err(problem(&f.name, format!("flow `{}` is defined twice", f.name.as_ref())));
    }
    let mut cells = BTreeSet::new();
    if let Some(twice) = s.cells.iter().find(|cell| !cells.insert(&cell.name)) {
        return Err(general(format!("two cells are named `{}`", twice.name)));
    }
    // The series of a variant in a cell are in a directory of this name.
    let mut seen = BTreeSet::new();
    for (cell, label) in s.cells.iter().flat_map(|cell| s.variants.iter().map(move |c| (cell, &c.label))) {
        let both = format!("{}_{}", cell.name, label.as_ref());
        if !seen.insert(both.clone()) {
            return Err(problem(label, format!("two cells and variants are together named `{both}`")));
        }
    }
    if let Some(name) = &s.headline {
        known_cell(s, name)?;
    }
    let places = Places::of(text);
    for (i, cell) in s.cells.iter().enumerate() {
        cell.path.keys().try_for_each(|name| known_path(s, name))?;
        cell.flow.keys().try_for_each(|name| known_flow(s, name))?;
        cell.problem(&s.flows).map_or(Ok(()), Err)?;
        for path in 0..s.paths.len() {
            link(&s.path_in(path, cell), &places, (i, cell), duration)?;
        }
    }
    let outside = s.paths.iter().position(|p| p.outside).unwrap_or(s.paths.len());
    if let Some(wrong) = s.paths.iter().skip(outside).find(|p| outside == 0 || !p.outside) {
        let message = "paths with `outside = true` must come last, after at least one path of the tunnel";
        return Err(problem(&wrong.name, message));
    }
    s.variants.iter().try_for_each(|c| variant(s, c))?;
    s.flows.iter().try_for_each(|f| flow(s, f, &places, duration))?;
    events(s, duration)?;
    sweep(s)?;
    compare(s)
}

fn events(s: &Scenario, duration: f64) -> Result<(), Problem> {
    let mut last = 0.0;
    for event in &s.events {
        let at = *event.at_s.as_ref();
        let wrong = |message: &str| Err(problem(&event.at_s, message));
        if s.mode != Mode::Tunnel {
            return wrong("[[event]] needs mode = \"tunnel\"");
        }
        if !(at >= last && at < duration) {
            return wrong("events must be in order of time, with at_s between 0 and the scenario's end");
        }
        last = at;
        if event.things() != 1 {
            return wrong(
                "an event needs exactly one of `reload`, `roam`, `restart`, `kill` and `drain = true`",
            );
        }
        if !event.away.is_zero() && event.restart.is_none() && event.kill.is_none() {
            return wrong("`away` needs `restart` or `kill`");
        }
        let names = event.reload.iter().flat_map(|r| r.paths.iter().flatten().chain(r.priority.keys()));
        names.chain(&event.roam).try_for_each(|name| known_path(s, name))?;
        if let Some(roam) = &event.roam {
            let shares = |p: &PathSpec| {
                p.shares
                    .as_ref()
                    .is_some_and(|of| p.name.as_ref() == roam.as_ref() || of.as_ref() == roam.as_ref())
            };
            if s.paths.iter().any(|p| shares(p) || p.outside && p.name.as_ref() == roam.as_ref()) {
                return Err(problem(roam, "only a tunnel path with its own link can roam"));
            }
        }
        if let Some(baseline) = s.variants.iter().find(|c| c.baseline.is_some()) {
            return Err(problem(&baseline.label, "`baseline` cannot be combined with [[event]]"));
        }
    }
    // Also without events, the tunnel's files must be valid at the start.
    let tunnel = |c: &&Variant| s.mode == Mode::Tunnel && c.baseline.is_none();
    s.variants.iter().filter(tunnel).try_for_each(|c| follow(s, c))
}

/// Checks a variant's tunnel files at the start and after each reload.
fn follow(s: &Scenario, variant: &Variant) -> Result<(), Problem> {
    let plan = Plan { scenario: s, variant, cell: s.headline(), repeat: 0, seed: 0 };
    let mut key = 0;
    let random = || {
        key += 1;
        Ok([key; 32])
    };
    let mut files = TunnelFiles::new(&plan, PathBuf::new(), random).map_err(|e| general(e.to_string()))?;
    let read = |files: &TunnelFiles<'_>| {
        let read = |side| Config::parse(Path::new("the tunnel's file"), &files.text(side), 1);
        [Side::Client, Side::Server].into_iter().try_for_each(|side| read(side).map(drop).map_err(|e| e.0))
    };
    read(&files).map_err(|e| problem(&variant.label, e))?;
    for event in &s.events {
        let Some(reload) = &event.reload else { continue };
        if let Some(key) = [SECURITY, TCP].into_iter().find(|key| reload.tunnel.has(key)) {
            return Err(problem(&event.at_s, format!("`{key}` cannot change while the tunnel runs")));
        }
        files.follow(reload);
        s.tunnel_after(variant, &files.changed)?;
        read(&files).map_err(|e| problem(&event.at_s, e))?;
    }
    Ok(())
}

fn sweep(s: &Scenario) -> Result<(), Problem> {
    let Some(sweep) = &s.sweep else { return Ok(()) };
    if sweep.seeds == 0 {
        return Err(general("sweep: `seeds` must be at least 1"));
    }
    let unknown = |name: &&String| !is_metric(name);
    sweep
        .show
        .iter()
        .find(unknown)
        .map_or(Ok(()), |name| Err(general(format!("sweep: show: {}", no_metric(name)))))
}

fn is_metric(name: &str) -> bool {
    NAMES.iter().any(|(known, _)| *known == name)
}

fn no_metric(name: &str) -> String {
    let known: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
    format!("unknown metric `{name}`; expected one of: {}", known.join(", "))
}

fn unique<'a>(what: &str, names: impl Iterator<Item = &'a Spanned<String>>) -> Result<(), Problem> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !is_plain(name.as_ref()) {
            return Err(problem(name, "use letters, digits, `-`, `_` and `.` only"));
        }
        if !seen.insert(name.as_ref()) {
            return Err(problem(name, format!("{what} `{}` is defined twice", name.as_ref())));
        }
    }
    Ok(())
}

/// Checks a path in a cell.
fn link(
    path: &PathSpec,
    places: &Places<'_>,
    (nth, cell): (usize, &Cell),
    duration: f64,
) -> Result<(), Problem> {
    let name = path.name.as_ref();
    let own = places.table(&path.name.span());
    let bad = |at: Option<Range<usize>>, what: &str| {
        Err((Some(at.unwrap_or(path.name.span())), format!("path `{name}`: {what}")))
    };
    for (way, keys) in path.ways.iter().enumerate() {
        let Some((key, what)) = keys.problem() else { continue };
        let change = cell.path.keys().find(|changed| changed.as_ref() == name);
        let tables = [change.and_then(|c| places.table(&c.span())), places.nth("cell", nth), own];
        return bad(tables.into_iter().flatten().find_map(|table| of_link(table, way, key)), &what);
    }
    if path.priority.is_some_and(|p| p > 15) {
        return bad(own.and_then(|t| value(t, "priority")), "priority must be from 0 to 15");
    }
    let mut last = 0.0;
    for event in &path.events {
        let at = *event.at_s.as_ref();
        if !(at >= 0.0 && at < duration) {
            return Err(problem(
                &event.at_s,
                format!("events must be between 0 and the scenario's end, {duration} s"),
            ));
        }
        if at < last {
            return Err(problem(
                &event.at_s,
                format!("events must be in order of time: {at} s comes after {last} s"),
            ));
        }
        last = at;
        let own =
            [Some(&event.link_keys()), event.forward.as_ref(), event.reverse.as_ref()].map(|k| k.cloned());
        if own.into_iter().flatten().all(|keys| keys.is_empty()) {
            let message =
                "an event needs at least one key of a link (rate, owd, loss, jitter, queue, up, ...)";
            return Err(problem(&event.at_s, message));
        }
    }
    for (event, (_, ways)) in path.events.iter().zip(path.course()) {
        for (way, keys) in ways.iter().enumerate() {
            let Some((key, what)) = keys.problem() else { continue };
            let at = places.table(&event.at_s.span()).and_then(|table| of_link(table, way, key));
            return Err((Some(at.unwrap_or(event.at_s.span())), what));
        }
    }
    Ok(())
}

fn variant(s: &Scenario, c: &Variant) -> Result<(), Problem> {
    let unknown = |ccid: &&Spanned<u8>| !dccp_proto::ccid::is_known(*ccid.as_ref());
    if let Some(ccid) = [&c.ccid, &c.reverse_ccid].into_iter().flatten().find(unknown) {
        let known: Vec<u8> = (0..=u8::MAX).filter(|n| dccp_proto::ccid::is_known(*n)).collect();
        return Err(problem(ccid, format!("unknown CCID {}; expected one of {known:?}", ccid.as_ref())));
    }
    match (&c.ccid, &c.tcp) {
        (None, None) if c.udp && s.mode == Mode::Direct => Ok(()),
        _ if c.baseline.is_some() => baseline(s, c),
        _ if c.udp => Err(problem(&c.label, "`udp` needs mode = \"direct\", and excludes other transports")),
        _ if c.reverse_ccid.is_some() && (s.mode != Mode::Direct || c.ccid.is_none()) => {
            Err(problem(&c.label, "`reverse_ccid` needs `ccid` and mode = \"direct\""))
        }
        (None, Some(tcp)) if s.mode != Mode::Direct => {
            Err(problem(tcp, "a variant with `tcp` needs mode = \"direct\""))
        }
        (None, Some(tcp)) if !TCP_CCS.contains(&tcp.as_ref().as_str()) => Err(problem(
            tcp,
            format!("unknown congestion control `{}`; expected one of: {}", tcp.as_ref(), TCP_CCS.join(", ")),
        )),
        (Some(_), None) | (None, Some(_)) => Ok(()),
        // If neither key is present, the program's default CCID applies.
        (None, None) if s.mode == Mode::Tunnel => Ok(()),
        _ => Err(problem(&c.label, "a variant needs exactly one of `ccid`, `tcp` and `udp = true`")),
    }?;
    let (paths, flows) = (c.paths.as_deref(), c.flows.as_deref());
    paths.into_iter().flatten().try_for_each(|name| known_path(s, name))?;
    flows.into_iter().flatten().try_for_each(|name| known_flow(s, name))?;
    if paths.is_some_and(|all| s.mode == Mode::Direct || all.is_empty()) {
        return Err(problem(&c.label, "`paths` needs mode = \"tunnel\" and at least one path"));
    }
    if flows.is_some_and(<[_]>::is_empty) {
        return Err(problem(&c.label, "`flows` is empty; give at least one flow"));
    }
    s.tunnel_of(c)?;
    let needs_tunnel = [(SECURITY, s.is_sealed(c)), (TCP, s.has_streams(c))];
    if let Some((key, _)) = needs_tunnel.into_iter().find(|(_, set)| s.mode == Mode::Direct && *set) {
        return Err(problem(&c.label, format!("`{key}` needs mode = \"tunnel\"")));
    }
    Ok(())
}

fn baseline(s: &Scenario, c: &Variant) -> Result<(), Problem> {
    if s.mode != Mode::Tunnel || c.ccid.is_some() || c.tcp.is_some() || c.udp {
        return Err(problem(&c.label, "`baseline` needs mode = \"tunnel\", and excludes other transports"));
    }
    let flows = s.flows_of(c, s.headline());
    if c.baseline == Some(Baseline::Mptcp {})
        && flows.iter().any(|f| !matches!(f.kind, FlowKind::Tcp | FlowKind::Short))
    {
        return Err(problem(
            &c.label,
            "Multipath TCP carries only bulk or short TCP flows; list these in `flows`",
        ));
    }
    Ok(())
}

fn flow(s: &Scenario, f: &FlowSpec, places: &Places<'_>, duration: f64) -> Result<(), Problem> {
    // Returns the error, with the position of `key`'s value if the key is present.
    let at = |key: &str, message: String| -> Problem {
        let place = places.table(&f.name.span()).and_then(|table| value(table, key));
        (Some(place.unwrap_or(f.name.span())), message)
    };
    if let Some(via) = &f.via
        && !(s.mode == Mode::Tunnel && s.paths.iter().any(|p| p.name.as_ref() == via.as_ref()))
    {
        return Err(problem(via, "`via` needs mode = \"tunnel\" and the name of a path"));
    }
    if let Some(mirror) = &f.mirror {
        let outside = |p: &PathSpec| p.outside && p.name.as_ref() == mirror.as_ref();
        if !s.paths.iter().any(outside) || f.kind != FlowKind::Udp || f.via.is_some() {
            return Err(problem(
                mirror,
                "`mirror` needs a udp flow through the tunnel, and the name of a path that has `outside = true`",
            ));
        }
    }
    if !f.owd.is_zero() && s.mode != Mode::Direct && f.via.is_none() {
        let message = "`owd` of a flow needs mode = \"direct\" or `via`; flows in the tunnel have the delay of its paths";
        return Err(at("owd", message.to_owned()));
    }
    let sends_udp = s.mode == Mode::Direct && f.kind == FlowKind::Udp && !f.reverse;
    for (key, set) in [("share_congestion", f.share_congestion), ("echo", f.echo)] {
        if set && !sends_udp {
            return Err(at(key, format!("`{key}` needs mode = \"direct\" and a udp flow from the client")));
        }
    }
    if let Some(stop) = &f.stop_s
        && !(*stop.as_ref() > f.start_s && *stop.as_ref() <= duration)
    {
        return Err(problem(stop, format!("must be above start_s and at most duration_s = {duration}")));
    }
    if !(f.start_s >= 0.0 && f.start_s < duration) {
        return Err(at("start_s", format!("start_s must be between 0 and the scenario's end, {duration} s")));
    }
    if f.reverse {
        let bulk = matches!(f.source(), Some(SourceSpec::Bulk {}));
        let first = s.flows.first().is_some_and(|first| first.name == f.name);
        let tcp = s.variants.iter().any(|c| c.tcp.is_some());
        let message = match f.kind {
            FlowKind::Command => None,
            _ if s.mode != Mode::Direct => Some("`reverse` needs mode = \"direct\""),
            _ if first => Some("the first flow cannot have `reverse`; list another flow before it"),
            FlowKind::Tcp => None,
            FlowKind::Udp if !bulk && !tcp => None,
            FlowKind::Udp => {
                Some("`reverse` of a udp flow needs a source other than bulk, and no variant with `tcp`")
            }
            _ => Some("`reverse` needs kind = \"tcp\" or \"udp\""),
        };
        if let Some(message) = message {
            return Err(at("reverse", message.to_owned()));
        }
    }
    if f.kind != FlowKind::Tcp && (f.ecn || f.loss_detection != LossDetection::Rack) {
        let key = if f.ecn { "ecn" } else { "loss_detection" };
        return Err(at(key, format!("`{key}` belongs to kind = \"tcp\"")));
    }
    if (f.kind == FlowKind::Command) != (f.server.is_some() || f.client.is_some()) {
        return Err(problem(
            &f.name,
            "`server` and `client` belong to kind = \"command\", which needs `client`",
        ));
    }
    if (f.kind == FlowKind::Short) != (f.sizes.is_some() || f.every.is_some()) {
        return Err(problem(&f.name, "`sizes` and `every` belong to kind = \"short\", which needs both"));
    }
    match f.kind {
        FlowKind::Short => short(f, duration, &at)?,
        FlowKind::Command => {
            let other = f.payload.is_some() || f.rate.is_some() || f.source.is_some() || f.cc.is_some();
            if f.client.is_none() || other || s.mode != Mode::Tunnel {
                let message = "a command flow needs mode = \"tunnel\" and `client`, may have `server`, and has no `payload`, `rate`, `source` or `cc`";
                return Err(problem(&f.name, message));
            }
        }
        FlowKind::Udp => {
            let source = f.source().cloned().unwrap_or_default();
            let (Some(payload), None) = (&f.payload, &f.cc) else {
                return Err(problem(&f.name, "a udp flow needs `payload` and `rate`, and cannot have `cc`"));
            };
            if f.rate.is_some() != source.has_rate() {
                let message = "a udp flow needs `rate` if its source is constant, on-off or poisson, and cannot have `rate` otherwise";
                let at = f.source.as_ref().map_or(f.name.span(), Spanned::span);
                return Err((Some(at), message.to_owned()));
            }
            if let Some(what) = source.problem() {
                return Err((f.source.as_ref().map(Spanned::span), what.to_owned()));
            }
            if !(32..=1400).contains(payload.as_ref()) {
                return Err(problem(payload, "must be from 32 to 1400 bytes"));
            }
            if f.rate.is_some_and(|rate| rate.bps() == 0) {
                return Err(at("rate", "rate must be above 0".to_owned()));
            }
        }
        FlowKind::Tcp => {
            let (None, None, None, Some(cc)) = (&f.payload, f.rate, &f.source, &f.cc) else {
                return Err(problem(
                    &f.name,
                    "a tcp flow needs `cc`, and cannot have `payload`, `rate` or `source`",
                ));
            };
            if !TCP_CCS.contains(&cc.as_str()) {
                return Err(at("cc", format!("unknown cc `{cc}`; expected one of: {}", TCP_CCS.join(", "))));
            }
        }
    }
    Ok(())
}

fn short(f: &FlowSpec, duration: f64, at: &dyn Fn(&str, String) -> Problem) -> Result<(), Problem> {
    let other = f.payload.is_some() || f.rate.is_some() || f.source.is_some();
    let (Some(sizes), Some(every), Some(cc), false) = (&f.sizes, f.every, &f.cc, other) else {
        let message =
            "a short flow needs `cc`, `sizes` and `every`, and cannot have `payload`, `rate` or `source`";
        return Err(problem(&f.name, message));
    };
    if !TCP_CCS.contains(&cc.as_str()) {
        return Err(at("cc", format!("unknown cc `{cc}`; expected one of: {}", TCP_CCS.join(", "))));
    }
    if sizes.0.is_empty() || sizes.0.iter().any(|size| !(12..=1 << 30).contains(size)) {
        return Err(at("sizes", "`sizes` needs at least one size, each from 12 B to 1 GiB".to_owned()));
    }
    if every.is_zero() || duration / every.as_secs_f64() > MAX_SHORT as f64 {
        let message = format!("`every` is too short: more than {MAX_SHORT} connections");
        return Err(at("every", message));
    }
    Ok(())
}

fn known_cell(s: &Scenario, name: &Spanned<String>) -> Result<(), Problem> {
    if s.cell(name.as_ref()).is_some() {
        return Ok(());
    }
    let known: Vec<&str> = s.cells.iter().map(|cell| cell.name.as_str()).collect();
    Err(problem(name, format!("unknown cell `{}`; expected one of: {}", name.as_ref(), known.join(", "))))
}

fn known_path(s: &Scenario, name: &Spanned<String>) -> Result<(), Problem> {
    let known: Vec<&str> = s.paths.iter().map(|p| p.name.as_ref().as_str()).collect();
    let found = known.contains(&name.as_ref().as_str());
    let message = || format!("unknown path `{}`; expected one of: {}", name.as_ref(), known.join(", "));
    if found { Ok(()) } else { Err(problem(name, message())) }
}

fn known_flow(s: &Scenario, name: &Spanned<String>) -> Result<(), Problem> {
    let known: Vec<&str> = s.flows.iter().map(|f| f.name.as_ref().as_str()).collect();
    let found = s.flows.iter().any(|f| f.is(name.as_ref()));
    let message = || format!("unknown flow `{}`; expected one of: {}", name.as_ref(), known.join(", "));
    if found { Ok(()) } else { Err(problem(name, message())) }
}

fn known_label(s: &Scenario, name: &Spanned<String>) -> Result<(), Problem> {
    if s.variant(name.as_ref()).is_some() {
        return Ok(());
    }
    let known: Vec<&str> = s.variants.iter().map(|c| c.label.as_ref().as_str()).collect();
    Err(problem(name, format!("unknown variant `{}`; expected one of: {}", name.as_ref(), known.join(", "))))
}

fn known_metric(name: &Spanned<String>) -> Result<(), Problem> {
    if is_metric(name.as_ref()) { Ok(()) } else { Err(problem(name, no_metric(name.as_ref()))) }
}

fn compare(s: &Scenario) -> Result<(), Problem> {
    for r in &s.references {
        known_label(s, &r.label)?;
        r.cell.as_ref().map_or(Ok(()), |cell| known_cell(s, cell))?;
        r.values.keys().try_for_each(known_metric)?;
    }
    for a in &s.aims {
        known_label(s, &a.label)?;
        a.cell.as_ref().filter(|cell| cell.as_ref() != "all").map_or(Ok(()), |cell| known_cell(s, cell))?;
        known_metric(&a.metric)?;
        a.not_above.as_ref().map_or(Ok(()), |label| known_label(s, label))?;
        if a.min.is_none() && a.max.is_none() && a.not_above.is_none() {
            return Err(problem(&a.metric, "an aim needs `min`, `max` or `not_above`"));
        }
    }
    Ok(())
}
