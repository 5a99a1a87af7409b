use crate::error::{ConfigError, probability};
use crate::random::Random;

/// Loss on the wire, decided for each packet as it leaves the transmitter.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub enum LossModel {
    /// No loss.
    #[default]
    None,
    /// Each packet is lost with this probability, 0 to 1, independently of the others.
    Bernoulli(f64),
    /// Loss in bursts. The link has two states, each with a loss probability, and starts in the good state.
    /// After each packet, the link changes its state with the given probability. All values are from 0 to 1.
    GilbertElliott {
        /// Probability of changing from good to bad.
        to_bad: f64,
        /// Probability of changing from bad to good. The inverse is the mean number of packets for which the
        /// bad state lasts.
        to_good: f64,
        /// Loss probability in the good state, often zero.
        loss_good: f64,
        /// Loss probability in the bad state, often one.
        loss_bad: f64,
    },
}

impl LossModel {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        match *self {
            LossModel::None => Ok(()),
            LossModel::Bernoulli(p) => probability("loss", p),
            LossModel::GilbertElliott { to_bad, to_good, loss_good, loss_bad } => {
                [to_bad, to_good, loss_good, loss_bad].into_iter().try_for_each(|p| probability("loss", p))
            }
        }
    }
}

/// A loss model and its state.
#[derive(Clone, Debug)]
pub(crate) struct Loss {
    model: LossModel,
    /// Whether the Gilbert-Elliott chain is in the bad state.
    bad: bool,
    random: Random,
}

impl Loss {
    pub(crate) fn new(model: LossModel, random: Random) -> Loss {
        Loss { model, bad: false, random }
    }

    pub(crate) fn set_model(&mut self, model: LossModel) {
        self.model = model;
        self.bad = false;
    }

    /// Returns whether the next packet is lost.
    pub(crate) fn next(&mut self) -> bool {
        match self.model {
            LossModel::None => false,
            LossModel::Bernoulli(p) => self.random.chance(p),
            LossModel::GilbertElliott { to_bad, to_good, loss_good, loss_bad } => {
                let lost = self.random.chance(if self.bad { loss_bad } else { loss_good });
                self.bad ^= self.random.chance(if self.bad { to_good } else { to_bad });
                lost
            }
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
        // The result must be within five standard deviations of a binomial distribution's mean.
        assert!((1_780..2_220).contains(&lost), "{lost}");
    }

    /// Returns the share of lost packets, and the mean length of a run of losses.
    fn gilbert_elliott(to_bad: f64, to_good: f64, loss_good: f64, loss_bad: f64) -> (f64, f64) {
        const N: u32 = 500_000;
        let model = LossModel::GilbertElliott { to_bad, to_good, loss_good, loss_bad };
        let mut loss = Loss::new(model, Random::new(1, 0));
        let (mut lost, mut runs, mut last) = (0, 0, false);
        for _ in 0..N {
            let now = loss.next();
            lost += u32::from(now);
            runs += u32::from(now && !last);
            last = now;
        }
        (f64::from(lost) / f64::from(N), f64::from(lost) / f64::from(runs))
    }

    #[test]
    fn bursts_have_the_published_share_and_length() {
        // The fraction of packets in the bad state is to_bad / (to_bad + to_good), and the bad state lasts
        // for 1 / to_good packets on average.
        let (share, run) = gilbert_elliott(0.01, 0.25, 0.0, 1.0);
        assert!((share / (0.01 / 0.26) - 1.0).abs() < 0.05, "{share}");
        assert!((run / 4.0 - 1.0).abs() < 0.05, "{run}");
    }

    #[test]
    fn both_states_lose_their_share() {
        let (share, _) = gilbert_elliott(0.1, 0.3, 0.02, 0.5);
        assert!((share / (0.75 * 0.02 + 0.25 * 0.5) - 1.0).abs() < 0.05, "{share}");
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
