use crate::config::{ConfigError, probability};
use crate::random::Random;

/// Loss on the wire, decided for each packet as it leaves the transmitter.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub enum LossModel {
    /// Nothing is lost.
    #[default]
    None,
    /// Each packet is lost with this probability, 0 to 1, independently.
    Bernoulli(f64),
}

impl LossModel {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        match *self {
            LossModel::None => Ok(()),
            LossModel::Bernoulli(p) => probability("loss", p),
        }
    }
}

/// A loss model and where it is.
#[derive(Clone, Debug)]
pub(crate) struct Loss {
    model: LossModel,
    random: Random,
}

impl Loss {
    pub(crate) fn new(model: LossModel, random: Random) -> Loss {
        Loss { model, random }
    }

    pub(crate) fn set_model(&mut self, model: LossModel) {
        self.model = model;
    }

    /// Whether the next packet is lost.
    pub(crate) fn next(&mut self) -> bool {
        match self.model {
            LossModel::None => false,
            LossModel::Bernoulli(p) => self.random.chance(p),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bernoulli_loses_its_share() {
        let mut loss = Loss::new(LossModel::Bernoulli(0.02), Random::new(1, 0));
        let lost = (0..100_000).filter(|_| loss.next()).count();
        // Five standard deviations of a binomial.
        assert!((1_780..2_220).contains(&lost), "{lost}");
    }

    #[test]
    fn certain_outcomes() {
        let all = |p| {
            let mut loss = Loss::new(LossModel::Bernoulli(p), Random::new(1, 0));
            (0..1_000).filter(|_| loss.next()).count()
        };
        assert_eq!((all(0.0), all(1.0)), (0, 1_000));
    }
}
