//! Reference figures and aims of a scenario.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use crate::bounds::Bounds;

/// Published figures of another source, from the last event to the end.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// Source.
    pub source: String,
    /// How they were measured, as far as it differs: bytes counted, timers, with or without a tunnel.
    #[serde(default)]
    pub conditions: Option<String>,
    /// The variant it compares with.
    pub label: Spanned<String>,
    /// The cell; every cell if absent.
    #[serde(default)]
    pub cell: Option<Spanned<String>>,
    /// Values by metric name (`docs/scenarios.md` lists them).
    pub values: BTreeMap<Spanned<String>, f64>,
}

/// An aim.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Aim {
    /// Variant.
    pub label: Spanned<String>,
    /// The cell; the headline cell if absent, every cell if `all`.
    #[serde(default)]
    pub cell: Option<Spanned<String>>,
    /// Name of the metric.
    pub metric: Spanned<String>,
    /// At least.
    #[serde(default)]
    pub min: Option<f64>,
    /// At most.
    #[serde(default)]
    pub max: Option<f64>,
    /// At most the value of this variant in the same cell.
    #[serde(default)]
    pub not_above: Option<Spanned<String>>,
}

impl Aim {
    /// Its bounds.
    pub fn bounds(&self) -> Bounds {
        Bounds { min: self.min, max: self.max }
    }

    /// The aim in words.
    pub fn text(&self) -> String {
        let bounds = [
            self.bounds().any().then(|| self.bounds().text()),
            self.not_above.as_ref().map(|label| format!("≤ {}", label.as_ref())),
        ];
        bounds.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}
