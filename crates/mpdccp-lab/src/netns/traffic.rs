//! Which flow a scenario asks for.

use std::net::SocketAddr;

use super::direct::Dccp;
use super::flow::Flow;
use super::tap::Count;
use super::tcp::{Bulk, Paced};
use super::udp::Udp;
use super::world::Namespace;
use crate::scenario::{FlowKind, FlowSpec, Mode, SourceSpec};
use crate::{LabError, Plan};

/// Has TCP in `namespace` ask for ECN and grant it; by default Linux only grants it.
fn use_ecn(namespace: &Namespace) -> Result<(), LabError> {
    let switch = "/proc/sys/net/ipv4/tcp_ecn";
    namespace
        .inside(|| std::fs::write(switch, "1").map_err(|e| LabError::failed(format!("writing {switch}"), e)))
}

/// Starts the receiver of flow `index`, which will send to `to`.
pub(super) fn start(
    plan: &Plan<'_>,
    index: u16,
    spec: &FlowSpec,
    client: &Namespace,
    server: &Namespace,
    to: SocketAddr,
) -> Result<Box<dyn Flow>, LabError> {
    if spec.ecn {
        [client, server].into_iter().try_for_each(use_ecn)?;
    }
    match (plan.scenario.mode, spec.kind, &plan.contender.tcp) {
        (Mode::Tunnel, FlowKind::Udp, _) => Ok(Box::new(Udp::start(spec, index, server, to)?)),
        (mode, FlowKind::Tcp, _) => {
            let count = if mode == Mode::Direct { Count::Payload } else { Count::Packets };
            let cc = spec.cc.as_deref().unwrap_or_default();
            Ok(Box::new(Bulk::start(spec, cc, client, server, to, count)?))
        }
        (Mode::Direct, FlowKind::Udp, Some(cc)) if spec.source == Some(SourceSpec::Bulk {}) => {
            Ok(Box::new(Bulk::start(spec, cc.as_ref(), client, server, to, Count::Payload)?))
        }
        (Mode::Direct, FlowKind::Udp, Some(cc)) => {
            Ok(Box::new(Paced::start(spec, index, cc.as_ref(), server, to)?))
        }
        (Mode::Direct, FlowKind::Udp, None) if plan.contender.udp => {
            Ok(Box::new(Udp::start(spec, index, server, to)?))
        }
        (Mode::Direct, FlowKind::Udp, None) => Ok(Box::new(Dccp::start(plan, spec, index, server, to)?)),
    }
}
