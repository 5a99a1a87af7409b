//! The tables `[[reference]]` and `[[aim]]` of a scenario.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use crate::bounds::Bounds;

/// Published figures of another source. They cover the time from the last event to the end.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// Name of the source.
    pub source: String,
    /// How the measurement differs from the scenario, for example in the bytes that it counts, in timers, or
    /// in the use of a tunnel.
    #[serde(default)]
    pub conditions: Option<String>,
    /// Label of the variant that the figures are compared with.
    pub label: Spanned<String>,
    /// The cell; every cell if absent.
    #[serde(default)]
    pub cell: Option<Spanned<String>>,
    /// Values by the name of the metric (`docs/summary.md` lists the names).
    pub values: BTreeMap<Spanned<String>, f64>,
}

/// An aim: bounds for a variant's value of a metric.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Aim {
    /// Label of the variant.
    pub label: Spanned<String>,
    /// The cell. If absent, the headline cell; if `all`, every cell.
    #[serde(default)]
    pub cell: Option<Spanned<String>>,
    /// Name of the metric.
    pub metric: Spanned<String>,
    /// Smallest acceptable value.
    #[serde(default)]
    pub min: Option<f64>,
    /// Largest acceptable value.
    #[serde(default)]
    pub max: Option<f64>,
    /// Label of another variant, whose value in the same cell must not be exceeded.
    #[serde(default)]
    pub not_above: Option<Spanned<String>>,
}

impl Aim {
    /// Returns the bounds of the aim.
    pub fn bounds(&self) -> Bounds {
        Bounds { min: self.min, max: self.max }
    }

    /// Returns the aim in words.
    pub fn text(&self) -> String {
        let bounds = [
            self.bounds().any().then(|| self.bounds().text()),
            self.not_above.as_ref().map(|label| format!("≤ {}", label.as_ref())),
        ];
        bounds.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}
