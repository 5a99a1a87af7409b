//! Traffic sources, one kind per file.

mod bulk;
mod constant;
mod interface;
mod on_off;
mod poisson;
mod trace;
mod video;

pub(crate) use interface::Source;
use mpdccp_units::{Rate, Time};
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

use crate::scenario::{FlowSpec, SourceSpec};

/// Returns the source of `flow`, which sends from `start` to `stop`.
pub(crate) fn source(flow: &FlowSpec, start: Time, stop: Time, seed: u64) -> Box<dyn Source> {
    let size = flow.payload.as_ref().map_or(1300, |p| *p.as_ref()) as usize;
    let gap = flow.rate.unwrap_or(Rate::from_mbps(1.0)).time_for(size as u64);
    let constant = constant::Constant { size, gap, next: start, stop };
    match flow.source().cloned().unwrap_or_default() {
        SourceSpec::Constant {} => Box::new(constant),
        SourceSpec::Bulk {} => Box::new(bulk::Bulk { size, start, stop, begun: false }),
        SourceSpec::OnOff { on, off } => Box::new(on_off::OnOff::new(constant, on, off)),
        SourceSpec::Poisson {} => Box::new(poisson::Poisson::new(constant, ChaCha8Rng::seed_from_u64(seed))),
        SourceSpec::Video { frames_per_s, ladder } => {
            Box::new(video::Video::new(size, frames_per_s, ladder.0, start, stop))
        }
        SourceSpec::Trace { packets, .. } => Box::new(trace::Trace::new(packets, size, start, stop)),
    }
}

#[cfg(test)]
mod tests;
