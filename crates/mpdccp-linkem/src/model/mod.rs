//! Links that users have: rates, delays, queues and how they change, after published measurements. `docs/link-models.md` tells which
//! figure is whose.

mod cellular;
mod drive;
mod fixed;
mod kind;
mod starlink;
mod walk;
mod wifi;

pub use kind::{Model, State, Step};

/// All there are.
pub const MODELS: [&Model; 8] = [
    &cellular::LTE,
    &cellular::FIVE_G,
    &starlink::STARLINK,
    &fixed::GEO,
    &wifi::WIFI,
    &fixed::DSL,
    &fixed::CABLE,
    &drive::DRIVE,
];

impl Model {
    /// By name.
    pub fn named(name: &str) -> Option<&'static Model> {
        MODELS.into_iter().find(|model| model.name == name)
    }
}
