//! Satellites in low orbits. Every 15 seconds, each terminal switches to another satellite.

use mpdccp_units::Duration;

use super::kind::{Course, Model, State, config, every, mbps, ms};
use super::walk::Walk;
use crate::random::Random;
use crate::{Jitter, LinkConfig, Spread};

pub(super) static STARLINK: Model = Model {
    name: "starlink",
    about: "Starlink: every 15 s a new satellite with a new delay and rate, and losses at the handover",
    source: "reconfiguration every 15 s: Mohan et al., A Multifaceted Look at Starlink Performance (WWW 2024); round trips of 40 to 60 ms, 100 to 250 Mbit/s down: Michel et al., A First Look at Starlink Performance (IMC 2022); up to half of the packets lost at handovers: Kassem et al., A Browser-side View of Starlink Connectivity (IMC 2022)",
    usual,
    course,
};

/// Number of ticks for which a satellite serves a terminal.
const INTERVAL_TICKS: u32 = 60;
/// Interval of rate changes.
const TICK: Duration = ms(250);
/// Share of packets lost in the first tick after a switch.
const HANDOVER_LOSS: f64 = 0.5;
/// Range of one-way delays in ms, and ranges of the rates up and down in Mbit/s. Each satellite gets random
/// values from these ranges.
const DELAY: [f64; 2] = [20.0, 30.0];
const RATES: [[f64; 2]; 2] = [[8.0, 26.0], [100.0, 250.0]];

fn usual() -> [LinkConfig; 2] {
    // The frames of the radio link cause jitter.
    let jitter = Jitter { spread: Spread::Normal(ms(2)), memory: ms(20), reorder: false };
    let link = |rate, queue| LinkConfig { jitter, ..config(mbps(rate), ms(25), ms(queue)) };
    [link(17.0, 200), link(175.0, 60)]
}

fn course(mut random: Random) -> Course {
    let mut walks = [(); 2].map(|()| Walk::new(0.1, ms(1_000), TICK, &mut random));
    let (mut tick, mut delay, mut rates) = (0, Duration::ZERO, [0.0; 2]);
    every(TICK, move |_| {
        let mut between = |[low, high]: [f64; 2]| low + (high - low) * random.unit();
        let first = tick % INTERVAL_TICKS == 0;
        if first {
            delay = Duration::from_secs_f64(between(DELAY) / 1e3);
            rates = RATES.map(&mut between);
        }
        // No handover precedes the start.
        let loss = if first && tick > 0 { HANDOVER_LOSS } else { 0.0 };
        tick += 1;
        let mut way = |way: usize| {
            let rate = mbps(rates[way] * walks[way].factor(&mut random));
            State { rate, delay, loss }
        };
        [way(0), way(1)]
    })
}
