//! Models of common access links, with the rates, delays, queues and changes found by published measurements.
//! `docs/link-models.md` lists the sources.

mod cellular;
mod drive;
mod fixed;
mod kind;
mod starlink;
mod walk;
mod wifi;

pub use kind::{Model, State, Step};

/// All models.
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
    /// Returns the model with this name.
    pub fn named(name: &str) -> Option<&'static Model> {
        MODELS.into_iter().find(|model| model.name == name)
    }
}
