//! Maps the flow identifiers of each tunnel end to the scenario's connections.

use std::collections::BTreeMap;

use mpdccp_proxy::{Command, Flow};

use super::side::Side;
use super::tcp::segment::flow_of;

/// The connection number for each flow identifier, at the client's and at the server's end of the tunnel.
#[derive(Debug, Default)]
pub(super) struct Sockets([BTreeMap<Flow, u16>; 2]);

impl Sockets {
    /// Returns the connections that a command of the tunnel at `side` concerns, as pairs of connection number
    /// and command.
    pub(super) fn addressees(&mut self, side: Side, command: Command) -> Vec<(u16, Command)> {
        let numbers = &mut self.0[side.index()];
        let flow = match &command {
            Command::Accept { flow, tuple, .. } => {
                numbers.insert(*flow, flow_of(tuple.from.port()));
                *flow
            }
            Command::Connect { flow, request } => {
                numbers.insert(*flow, flow_of(request.tuple.from.port()));
                *flow
            }
            Command::Data(flow, _)
            | Command::Credit(flow, _)
            | Command::Finish(flow)
            | Command::Reset(flow)
            | Command::Probe(flow, _) => *flow,
            // The program ends, and all its sockets with it.
            Command::Stop => {
                let all = std::mem::take(numbers).into_iter();
                return all.map(|(flow, number)| (number, Command::Reset(flow))).collect();
            }
        };
        let number = numbers.get(&flow).copied();
        number.map(|number| (number, command)).into_iter().collect()
    }
}
