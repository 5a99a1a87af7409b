//! Which flow a scenario asks for.

use std::net::SocketAddr;
use std::path::Path;

use super::command::Commands;
use super::direct::Dccp;
use super::flow::Flow;
use super::model::Modelled;
use super::short::Short;
use super::tap::Count;
use super::tcp::{Bulk, Paced};
use super::tunnel::CLIENT;
use super::udp::Udp;
use super::world::Namespace;
use crate::backend::flow_seed;
use crate::scenario::{Baseline, FlowKind, FlowSpec, LossDetection, Mode, SourceSpec};
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
    (index, spec): (u16, &FlowSpec),
    (client, server): (&Namespace, &Namespace),
    to: SocketAddr,
    dir: &Path,
) -> Result<Box<dyn Flow>, LabError> {
    if spec.ecn {
        [client, server].into_iter().try_for_each(use_ecn)?;
    }
    let multipath = plan.variant.baseline == Some(Baseline::Mptcp {});
    match (plan.scenario.mode, spec.kind, &plan.variant.tcp) {
        (_, FlowKind::Command, _) => {
            Ok(Box::new(Commands::start(spec, (client, server), (CLIENT, to), dir)?))
        }
        (_, FlowKind::Short, _) => {
            Ok(Box::new(Short::start((plan, spec, flow_seed(plan, index)), server, to, multipath)?))
        }
        (Mode::Tunnel, FlowKind::Udp, _) => Ok(Box::new(Udp::start(spec, (index, plan.seed), server, to)?)),
        (_, FlowKind::Tcp, _) if spec.loss_detection == LossDetection::Three => {
            Ok(Box::new(Modelled::start(spec, (index, flow_seed(plan, index)), server, to)?))
        }
        (mode, FlowKind::Tcp, _) => {
            let count = if mode == Mode::Direct { Count::Payload } else { Count::Packets };
            let cc = spec.cc.as_deref().unwrap_or_default();
            Ok(Box::new(Bulk::start(spec, cc, (client, server), (to, count), multipath)?))
        }
        (Mode::Direct, FlowKind::Udp, Some(cc)) if spec.source() == Some(&SourceSpec::Bulk {}) => {
            Ok(Box::new(Bulk::start(spec, cc.as_ref(), (client, server), (to, Count::Payload), false)?))
        }
        (Mode::Direct, FlowKind::Udp, Some(cc)) => {
            Ok(Box::new(Paced::start(spec, index, cc.as_ref(), server, to)?))
        }
        (Mode::Direct, FlowKind::Udp, None) if plan.variant.udp => {
            Ok(Box::new(Udp::start(spec, (index, plan.seed), server, to)?))
        }
        (Mode::Direct, FlowKind::Udp, None) => Ok(Box::new(Dccp::start(plan, spec, index, server, to)?)),
    }
}
