//! Wi-Fi with a station that moves around in a room.

use super::kind::{Course, Model, State, config, every, mbps, ms};
use crate::random::Random;
use crate::{Aggregation, LinkConfig};
use mpdccp_units::Duration;

pub(super) static WIFI: Model = Model {
    name: "wifi",
    about: "802.11n, one stream, 20 MHz, shared channel: frame aggregation and the standard's rates",
    source: "rates of one stream at 20 MHz and 800 ns: IEEE Std 802.11-2012, table 20-30; aggregation and a first-in-first-out queue of 1,000 packets: Høiland-Jørgensen et al., Ending the Anomaly (USENIX ATC 2017)",
    usual,
    course,
};

/// Rates of modulation and coding schemes 0 to 7, in Mbit/s.
const RATES: [f64; 8] = [6.5, 13.0, 19.5, 26.0, 39.0, 52.0, 58.5, 65.0];
/// Interval at which rate control tries a different rate.
const TICK: Duration = ms(500);
/// Fraction of the attempts of rate control that change the rate.
const MOVES: f64 = 0.4;

fn usual() -> [LinkConfig; 2] {
    let aggregation = Some(Aggregation { access: ms(1), packets: 32 });
    let link = LinkConfig { aggregation, ..config(mbps(52.0), ms(1), Duration::ZERO) };
    let queue = crate::QueueConfig { limit: crate::Limit::Packets(1_000), ..Default::default() };
    [(); 2].map(|()| LinkConfig { queue: queue.clone(), ..link.clone() })
}

fn course(mut random: Random) -> Course {
    // A station in the same home gets one of the five highest rates.
    let mut places = [5usize, 5];
    every(TICK, move |_| {
        let states = places.map(|place| State { rate: mbps(RATES[place]), delay: ms(1), loss: 0.0 });
        for place in &mut places {
            if random.chance(MOVES) {
                let up = random.chance(0.5);
                *place = if up { *place + 1 } else { *place - 1 }.clamp(3, RATES.len() - 1);
            }
        }
        states
    })
}
