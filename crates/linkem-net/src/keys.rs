//! The configuration keys of a link. In scenarios, they describe a path, one of its directions, or the
//! changes that a cell or an event makes. `mpdccp link` takes them as options.

use core::ops::Range;
use core::time::Duration;

use mpdccp_linkem::{LinkConfig, LossModel, QueueConfig, RateModel, Spread, State, Trace};
use mpdccp_units::Rate;
use serde::Deserialize;

pub use crate::model::Modelled;
use crate::parts::queue_kind;
pub use crate::parts::{AggregationSpec, BurstLoss, Discipline, JitterSpec, PolicerSpec, SpreadKind};
use crate::quantity::QueueLimit;

/// An error message and, if known, the position of the error.
pub type Problem = (Option<Range<usize>>, String);

/// Defines a struct that has all keys of a link in addition to its own keys. A key that is not given changes
/// nothing.
#[macro_export]
macro_rules! with_link_keys {
    ($(#[$meta:meta])* pub struct $name:ident { $($own:tt)* }) => {
        $(#[$meta])*
        pub struct $name {
            $($own)*
            /// Link model; see `docs/link-models.md`. The other keys override it.
            #[serde(default)]
            pub model: Option<toml::Spanned<String>>,
            /// The link model, with its state in one direction.
            #[serde(skip)]
            pub modelled: Option<$crate::keys::Modelled>,
            /// Link rate, counted in bytes of outer IP packets.
            #[serde(default, deserialize_with = "linkem_net::quantity::opt_rate")]
            pub rate: Option<$crate::Rate>,
            /// Bytes that may leave at once after a pause, as with a token bucket.
            #[serde(default, deserialize_with = "linkem_net::quantity::opt_bytes")]
            pub burst: Option<u32>,
            /// A file in Mahimahi's format, in the scenario's directory; replaces `rate`.
            #[serde(default)]
            pub rate_trace: Option<toml::Spanned<String>>,
            /// Content of the trace file.
            #[serde(skip)]
            pub trace: Option<$crate::Trace>,
            /// One-way propagation delay.
            #[serde(default, deserialize_with = "linkem_net::quantity::opt_time")]
            pub owd: Option<core::time::Duration>,
            /// Limit of the bottleneck's queue.
            #[serde(default, deserialize_with = "linkem_net::quantity::opt_queue_size")]
            pub queue: Option<$crate::quantity::QueueSize>,
            /// Queue discipline; drop-tail by default.
            #[serde(default)]
            pub discipline: Option<$crate::keys::Discipline>,
            /// Random deviation from `owd`.
            #[serde(default)]
            pub jitter: Option<$crate::keys::JitterSpec>,
            /// Share of packets lost on the wire.
            #[serde(default, deserialize_with = "linkem_net::quantity::opt_share")]
            pub loss: Option<f64>,
            /// Losses in bursts; replaces `loss`.
            #[serde(default)]
            pub burst_loss: Option<$crate::keys::BurstLoss>,
            /// Share of packets that arrive twice.
            #[serde(default, deserialize_with = "linkem_net::quantity::opt_share")]
            pub duplicate: Option<f64>,
            /// Drops packets that exceed a rate.
            #[serde(default)]
            pub policer: Option<$crate::keys::PolicerSpec>,
            /// Packets smaller than this count as acknowledgements. An acknowledgement is dropped if a later
            /// one of the same flow is queued.
            #[serde(default, deserialize_with = "linkem_net::quantity::opt_bytes")]
            pub thin_acks: Option<u32>,
            /// Sends packets in bursts.
            #[serde(default)]
            pub aggregation: Option<$crate::keys::AggregationSpec>,
            /// Whether the link is up.
            #[serde(default)]
            pub up: Option<bool>,
        }

        impl $name {
            /// Returns the struct's link keys.
            pub fn link_keys(&self) -> $crate::keys::LinkKeys {
                $crate::keys::LinkKeys {
                    model: self.model.clone(),
                    modelled: self.modelled.clone(),
                    rate: self.rate,
                    burst: self.burst,
                    rate_trace: self.rate_trace.clone(),
                    trace: self.trace.clone(),
                    owd: self.owd,
                    queue: self.queue,
                    discipline: self.discipline,
                    jitter: self.jitter,
                    loss: self.loss,
                    burst_loss: self.burst_loss,
                    duplicate: self.duplicate,
                    policer: self.policer,
                    thin_acks: self.thin_acks,
                    aggregation: self.aggregation,
                    up: self.up,
                }
            }

            /// Looks up the model and reads the trace file, if the keys name them. `reverse` is true for the
            /// direction from the server.
            ///
            /// # Errors
            /// The error describes the problem and its position.
            pub fn load(
                &mut self,
                reverse: bool,
                read: &mut dyn FnMut(&str) -> Result<String, String>,
            ) -> Result<(), $crate::keys::Problem> {
                if let Some(name) = &self.model {
                    let found = $crate::keys::Modelled::named(name.as_ref(), reverse);
                    self.modelled = Some(found.map_err(|e| (Some(name.span()), e))?);
                }
                let Some(name) = &self.rate_trace else { return Ok(()) };
                let trace = read(name.as_ref());
                let trace = trace.and_then(|text| $crate::Trace::parse(&text).map_err(|e| e.to_string()));
                self.trace = Some(trace.map_err(|e| (Some(name.span()), e))?);
                Ok(())
            }
        }
    };
}

with_link_keys! {
    /// The keys of one direction of a link.
    #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct LinkKeys {}
}

impl LinkKeys {
    /// Returns these keys, with any that are not given taken from `base`.
    pub fn over(&self, base: &LinkKeys) -> LinkKeys {
        let (rate, loss) = (
            if self.rate.is_some() || self.trace.is_some() { self } else { base },
            if self.loss.is_some() || self.burst_loss.is_some() { self } else { base },
        );
        let model = if self.model.is_some() { self } else { base };
        LinkKeys {
            model: model.model.clone(),
            modelled: model.modelled.clone(),
            rate: rate.rate,
            rate_trace: rate.rate_trace.clone(),
            trace: rate.trace.clone(),
            burst: self.burst.or(if self.trace.is_some() { None } else { base.burst }),
            owd: self.owd.or(base.owd),
            queue: self.queue.or(base.queue),
            discipline: self.discipline.or(base.discipline),
            jitter: self.jitter.or(base.jitter),
            loss: loss.loss,
            burst_loss: loss.burst_loss,
            duplicate: self.duplicate.or(base.duplicate),
            policer: self.policer.or(base.policer),
            thin_acks: self.thin_acks.or(base.thin_acks),
            aggregation: self.aggregation.or(base.aggregation),
            up: self.up.or(base.up),
        }
    }

    /// Returns these keys for the direction from server to client. A trace begins half a period later there,
    /// so that the rates of the two directions do not change together.
    pub fn behind(&self) -> LinkKeys {
        LinkKeys {
            modelled: self.modelled.as_ref().map(Modelled::behind),
            trace: self.trace.as_ref().map(|trace| trace.later_by(trace.period() / 2)),
            ..self.clone()
        }
    }

    /// Returns whether no key is given.
    pub fn is_empty(&self) -> bool {
        *self == LinkKeys::default()
    }

    /// Returns whether the link is up.
    pub fn is_up(&self) -> bool {
        self.up.unwrap_or(true)
    }

    /// Returns the link's rate: the mean rate of a trace, the current rate of a model, or zero if no rate is
    /// given.
    pub fn mean_rate(&self) -> Rate {
        let own = self.trace.as_ref().map(Trace::mean_rate).or(self.rate);
        own.or(self.modelled.as_ref().map(|m| m.state.rate)).unwrap_or_default()
    }

    /// Returns the link's delay, or zero if not given.
    pub fn delay(&self) -> Duration {
        self.owd.or(self.modelled.as_ref().map(|m| m.state.delay)).unwrap_or_default()
    }

    /// Returns the limit of the link's queue. If it is not given, returns a limit of 0 packets. A limit in
    /// BDPs is computed from the usual rate and delay of a model, because its current rate can be zero.
    pub fn queue_limit(&self) -> QueueLimit {
        let usual = self.in_state(self.modelled.as_ref().map(Modelled::usual));
        let own = self.queue.map(|size| size.limit(usual.mean_rate(), usual.delay()));
        own.or(self.modelled.as_ref().map(|m| m.config().queue.limit.into())).unwrap_or_default()
    }

    /// Returns the emulator's configuration for these keys.
    pub fn config(&self) -> LinkConfig {
        let base = self.modelled.as_ref().map(Modelled::config).unwrap_or_default();
        let loss = match (self.burst_loss, self.loss) {
            (Some(b), _) => LossModel::GilbertElliott {
                to_bad: b.begin,
                to_good: b.end,
                loss_good: b.good,
                loss_bad: b.bad.unwrap_or(1.0),
            },
            (None, Some(share)) if share > 0.0 => LossModel::Bernoulli(share),
            (None, Some(_)) => LossModel::None,
            (None, None) => base.loss,
        };
        let jitter = self.jitter.map_or(base.jitter, |j| mpdccp_linkem::Jitter {
            spread: match j.spread {
                SpreadKind::Normal => Spread::Normal(j.by),
                SpreadKind::Uniform => Spread::Uniform(j.by),
            },
            memory: j.memory.unwrap_or_default(),
            reorder: j.reorder,
        });
        let rate = match (&self.trace, self.burst) {
            (Some(trace), _) => RateModel::Trace(trace.clone()),
            (None, Some(burst)) => RateModel::TokenBucket { rate: self.mean_rate(), burst },
            (None, None) if self.rate.is_none() && self.modelled.is_none() => RateModel::Unlimited,
            (None, None) => RateModel::Constant(self.mean_rate()),
        };
        let policer = self.policer.map(|p| mpdccp_linkem::Policer { rate: p.rate, burst: p.burst });
        let aggregation =
            self.aggregation.map(|a| mpdccp_linkem::Aggregation { access: a.access, packets: a.packets });
        LinkConfig {
            rate,
            delay: self.delay(),
            jitter,
            queue: QueueConfig { kind: queue_kind(self.discipline), limit: self.queue_limit().limit() },
            loss,
            duplicate: self.duplicate.unwrap_or(base.duplicate),
            policer: policer.or(base.policer),
            thin_below: self.thin_acks.unwrap_or(base.thin_below),
            aggregation: aggregation.or(base.aggregation),
        }
    }

    /// Returns the states of the link's model until `end_s`, each with its time in seconds after t = 0.
    /// Returns no states if the link has no model.
    pub fn states(&self, seed: u64, end_s: f64) -> Vec<(f64, State)> {
        let Some(Modelled { model, reverse, .. }) = &self.modelled else { return Vec::new() };
        let states = model.course(seed).map(|step| (step.at.as_secs_f64(), step.ways[usize::from(*reverse)]));
        states.take_while(|(at, _)| *at < end_s).collect()
    }

    /// Returns these keys with the model in `state`.
    pub fn in_state(&self, state: Option<State>) -> LinkKeys {
        let modelled = self.modelled.clone().map(|m| Modelled { state: state.unwrap_or(m.state), ..m });
        LinkKeys { modelled, ..self.clone() }
    }

    /// Returns whether RED's thresholds and the queue's limit have different units.
    pub fn has_mixed_units(&self) -> bool {
        let in_bytes = |limit| matches!(limit, QueueLimit::Bytes(_));
        let queue = in_bytes(self.queue_limit());
        matches!(self.discipline, Some(Discipline::Red { min, max, .. })
            if in_bytes(min) != queue || in_bytes(max) != queue)
    }

    /// Checks a link with these keys. Returns the first error, with the key that causes it.
    pub fn problem(&self) -> Option<(&'static str, String)> {
        let queue = self.queue_limit();
        let short = self.policer.is_some_and(|p| u64::from(p.burst) < MIN_QUEUE_BYTES);
        let all = [
            (
                self.mean_rate().bps() == 0,
                "rate",
                "a direction without `model` or `rate_trace` needs a rate above 0; for a dead link, use an event with `up = false`",
            ),
            (
                matches!(queue, QueueLimit::Bytes(n) if n < MIN_QUEUE_BYTES),
                "queue",
                "queue too small; a full-size packet needs 1500 B",
            ),
            (
                queue == QueueLimit::Packets(0),
                "queue",
                "queue of 0 packets passes no packets; set `queue` above 0",
            ),
            (self.has_mixed_units(), "discipline", "RED's min and max must have the same unit as `queue`"),
            (
                self.burst_loss.is_some() && self.loss.is_some(),
                "burst_loss",
                "both loss and burst_loss are set; give only one of them",
            ),
            (
                self.rate.is_some() && self.rate_trace.is_some(),
                "rate_trace",
                "both rate and rate_trace are set; give only one of them",
            ),
            (
                self.burst.is_some() && self.rate_trace.is_some(),
                "burst",
                "both burst and rate_trace are set; a trace contains its own bursts, so give only one of them",
            ),
            (
                self.policer.is_some_and(|p| p.rate.bps() == 0),
                "policer",
                "the policer's rate must be above 0; for a dead link, use an event with `up = false`",
            ),
            (short, "policer", "the policer's burst is too small; a full-size packet needs 1500 B"),
        ];
        let own = all.into_iter().find(|(wrong, ..)| *wrong).map(|(_, key, what)| (key, what.to_owned()));
        own.or_else(|| self.config().validate().err().map(|e| (self.key_of(e.field), e.to_string())))
    }

    /// Returns the key that sets a given setting of the emulator.
    fn key_of(&self, field: &'static str) -> &'static str {
        match field {
            "queue" if self.discipline.is_some() => "discipline",
            "loss" if self.burst_loss.is_some() => "burst_loss",
            other => other,
        }
    }
}

/// Minimum size of a queue. A link without room for a full-size packet would carry nothing.
const MIN_QUEUE_BYTES: u64 = 1500;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::QueueSize;
    use mpdccp_linkem::MODELS;

    /// The models of mobile networks have outages, in which the rate is zero and packets wait.
    #[test]
    fn an_outage_of_a_model_stops_the_link() {
        let mut outages = 0;
        for model in MODELS {
            let modelled = Modelled::named(model.name, false).unwrap();
            let link = LinkKeys {
                modelled: Some(modelled),
                queue: Some(QueueSize::Bdp(1.0)),
                ..LinkKeys::default()
            };
            let limit = link.queue_limit();
            for (at, state) in link.states(1, 600.0) {
                let now = link.in_state(Some(state));
                assert_eq!(now.config().rate, RateModel::Constant(state.rate), "{} at {at}", model.name);
                assert_eq!(now.queue_limit(), limit, "{} at {at}", model.name);
                now.config().validate().unwrap();
                outages += u32::from(state.rate == Rate::ZERO);
            }
        }
        assert!(outages > 10, "{outages}");
        assert_eq!(LinkKeys::default().config().rate, RateModel::Unlimited);
    }
}
