//! Starts the flows that a scenario describes.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use super::command::Commands;
use super::direct::Dccp;
use super::flow::Flow;
use super::model::Modelled;
use super::namespaces::Namespace;
use super::short::Short;
use super::tag::PROBE_PORT;
use super::tap::{Count, Whose};
use super::tcp::{Bulk, Over, Paced};
use super::udp::Udp;
use crate::scenario::{Baseline, FlowKind, FlowSpec, LossDetection, Mode, SourceSpec};
use crate::tunnel_files::{CLIENT, path_address};
use crate::{LabError, Plan};

/// Makes TCP in `namespace` request ECN. By default, Linux uses ECN only if the peer requests it.
fn use_ecn(namespace: &Namespace) -> Result<(), LabError> {
    let switch = "/proc/sys/net/ipv4/tcp_ecn";
    namespace.inside(|| {
        std::fs::write(switch, "1").map_err(|e| LabError::failed(format!("cannot write {switch}"), e))
    })
}

/// Returns whether a flow consists of TCP connections of the kernel that go through the transport.
pub(super) fn is_tcp(spec: &FlowSpec) -> bool {
    let kernel = spec.kind == FlowKind::Tcp && spec.loss_detection == LossDetection::Rack;
    (kernel || spec.kind == FlowKind::Short) && spec.via.is_none()
}

/// Returns the client's address in the network in which the server's address is `to`: in the tunnel, or on a
/// path.
fn client_at(to: IpAddr) -> Ipv4Addr {
    let on_path = |i: &u8| IpAddr::from(path_address((*i).into(), 2)) == to;
    (0..=u8::MAX).find(on_path).map_or(CLIENT, |i| path_address(i.into(), 1))
}

/// Starts the receiver of flow `index`, whose destination is `to`.
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
    let seed = plan.flow_seed(spec);
    let multipath = plan.variant.baseline == Some(Baseline::Mptcp {});
    match (plan.scenario.mode, spec.kind, &plan.variant.tcp) {
        (_, FlowKind::Command, _) => {
            let others = plan.flows().len() as u16;
            let port = |flow: u16| to.port() - index + flow;
            let whose = Whose {
                own: to.port(),
                others: (0..others).filter(|i| *i != index).map(port).chain([PROBE_PORT]).collect(),
                only_own: plan.flows().iter().filter(|flow| flow.kind == FlowKind::Command).count() > 1,
            };
            let from = client_at(to.ip());
            Ok(Box::new(Commands::start(spec, (client, server), (from, to), whose, dir)?))
        }
        (_, FlowKind::Short, _) => Ok(Box::new(Short::start((plan, spec, seed), server, to, multipath)?)),
        (Mode::Tunnel, FlowKind::Udp, _) => Ok(Box::new(Udp::start(spec, (index, seed), server, to)?)),
        (_, FlowKind::Tcp, _) if spec.loss_detection == LossDetection::Three => {
            Ok(Box::new(Modelled::start(spec, (index, seed), server, to)?))
        }
        (mode, FlowKind::Tcp, _) => {
            let count = if mode == Mode::Direct { Count::Payload } else { Count::Packets };
            let cc = spec.cc.as_deref().unwrap_or_default();
            let over = match plan.scenario.has_streams(plan.variant) && spec.via.is_none() {
                true => Over::Stream,
                false if multipath => Over::MultipathTcp,
                false => Over::Tcp,
            };
            Ok(Box::new(Bulk::start(spec, cc, (client, server), (to, count), over)?))
        }
        (Mode::Direct, FlowKind::Udp, Some(cc)) if spec.source() == Some(&SourceSpec::Bulk {}) => {
            Ok(Box::new(Bulk::start(spec, cc.as_ref(), (client, server), (to, Count::Payload), Over::Tcp)?))
        }
        (Mode::Direct, FlowKind::Udp, Some(cc)) => {
            Ok(Box::new(Paced::start(spec, (index, seed), cc.as_ref(), server, to)?))
        }
        (Mode::Direct, FlowKind::Udp, None) if plan.variant.udp => {
            Ok(Box::new(Udp::start(spec, (index, seed), server, to)?))
        }
        (Mode::Direct, FlowKind::Udp, None) => {
            Ok(Box::new(Dccp::start(plan, spec, (index, seed), server, to)?))
        }
    }
}
