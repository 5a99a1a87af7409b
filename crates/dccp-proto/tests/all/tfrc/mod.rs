//! CCIDs 3 and 4 in whole connections, over emulated links in virtual time.

mod behaviour;
mod bulk;
pub(crate) mod line;
mod linux;

use dccp_proto::Config;
use mpdccp_linkem::{DrdConfig, Limit, LinkConfig, QueueConfig, QueueKind, RateModel};
use mpdccp_units::{Duration, Rate, Time};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// Returns one CCID for each direction.
fn ccids(tx: u8, rx: u8) -> Config {
    Config { tx_ccids: vec![tx], rx_ccids: vec![rx], ..Config::default() }
}

fn link(mbps: f64, delay: Duration, kind: QueueKind, packets: u64) -> LinkConfig {
    LinkConfig {
        rate: RateModel::Constant(Rate::from_mbps(mbps)),
        delay,
        queue: QueueConfig { kind, limit: Limit::Packets(packets) },
        ..LinkConfig::default()
    }
}

/// Returns the queue of the published CCID 3 experiments: derivative random drop (DRD).
fn drd() -> QueueKind {
    QueueKind::Drd(DrdConfig { min: 60, max: 125 })
}

fn both(config: &LinkConfig) -> [LinkConfig; 2] {
    [config.clone(), config.clone()]
}

fn seconds(since: Time, s: u64) -> Time {
    since + Duration::from_secs(s)
}
