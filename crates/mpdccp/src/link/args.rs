//! The command line.

use crate::fault::Fault;
use crate::quantity::rate;
use clap::ValueEnum;
use ipnet::IpNet;
use linkem::{
    CoDelConfig, FqCoDelConfig, Jitter, Limit, LinkConfig, LossModel, QueueConfig, QueueKind, RateModel,
    RedConfig, Spread, Trace,
};
use linkem_net::quantity::{QueueLimit, parse_queue, parse_share, parse_time};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use units::{Duration, Rate};

#[derive(clap::Args)]
#[command(after_help = "Example, after `ip netns add left; ip netns add right`:\n  \
    mpdccp link --a eth0@left --b eth0@right --a-addr 10.0.0.1/24 --b-addr 10.0.0.2/24 --rate 10M --delay 10ms --queue 125000B")]
pub(crate) struct Args {
    /// Interface to make at one end, in this network namespace or in one that `ip netns add` made.
    #[arg(long, value_name = "NAME[@NETNS]")]
    pub(super) a: Place,
    /// Interface to make at the other end.
    #[arg(long, value_name = "NAME[@NETNS]")]
    pub(super) b: Place,
    /// Address of interface a; may be given several times.
    #[arg(long, value_name = "ADDR/PREFIX")]
    pub(super) a_addr: Vec<IpNet>,
    /// Address of interface b; may be given several times.
    #[arg(long, value_name = "ADDR/PREFIX")]
    pub(super) b_addr: Vec<IpNet>,
    /// Rate from a to b, and back unless --up-rate is given: bit/s of IP packets, or with k, M, G. Unlimited if absent.
    #[arg(long, value_parser = rate)]
    rate: Option<Rate>,
    /// Rate from b to a.
    #[arg(long, value_name = "RATE", value_parser = rate)]
    up_rate: Option<Rate>,
    /// Rate from a to b, and back unless --up-rate is given, as recorded in this file: each line a time in ms at which 1,500 bytes may
    /// leave (Mahimahi's format).
    #[arg(long, value_name = "FILE", conflicts_with = "rate")]
    trace: Option<PathBuf>,
    /// Delay each way, as in 10ms.
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = parse_time)]
    delay: Duration,
    /// Largest deviation from the delay, uniform, without reordering.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    jitter: Option<Duration>,
    /// Let jitter reorder.
    #[arg(long, requires = "jitter")]
    reorder: bool,
    /// Share of packets lost each way, as in 1%.
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    loss: Option<f64>,
    /// What the queue of each direction holds, as in 125000B or 100packets.
    #[arg(long, value_name = "LIMIT", default_value = "1000packets", value_parser = parse_queue)]
    queue: QueueLimit,
    /// What happens as the queue grows. Red starts at a sixth of it and is in earnest at half of it.
    #[arg(long, value_enum, default_value = "droptail")]
    qdisc: Qdisc,
    /// Mark ECN-capable packets where the queue would drop them early.
    #[arg(long)]
    ecn: bool,
    /// Largest IP packet, bytes.
    #[arg(long, default_value_t = 1500, value_parser = clap::value_parser!(u16).range(576..))]
    pub(super) mtu: u16,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// End after this long, as in 30s. Without this: when interrupted.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(super) time: Option<Duration>,
    /// Report in JSON, one object a line.
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Qdisc {
    Droptail,
    Red,
    Codel,
    FqCodel,
}

/// An interface, and the namespace it is to be in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) name: String,
    pub(super) netns: Option<String>,
}

impl FromStr for Place {
    type Err = String;
    fn from_str(text: &str) -> Result<Place, String> {
        let (name, netns) = match text.split_once('@') {
            Some((name, netns)) => (name, Some(netns.to_owned())),
            None => (text, None),
        };
        // What the kernel takes for an interface's name, and `ip netns` for a namespace's.
        let bad = |c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control();
        if name.is_empty() || name.len() > 15 || name.starts_with('.') || name.contains(bad) {
            return Err("an interface has a name of 1 to 15 bytes without space, / and :".into());
        }
        if netns.as_ref().is_some_and(|n| n.is_empty() || n.starts_with('.') || n.contains('/')) {
            return Err("a namespace is named as in `ip netns list`".into());
        }
        Ok(Place { name: name.to_owned(), netns })
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)?;
        self.netns.iter().try_for_each(|netns| write!(f, "@{netns}"))
    }
}

impl Args {
    /// How packets travel from a to b and from b to a.
    pub(super) fn links(&self) -> Result<[LinkConfig; 2], Fault> {
        if self.a == self.b {
            return Err(Fault::usage(format!("--a and --b are both {}: two interfaces are joined", self.a)));
        }
        let down = match (&self.trace, self.rate) {
            (Some(file), _) => RateModel::Trace(read_trace(file)?),
            (None, Some(rate)) => RateModel::Constant(rate),
            (None, None) => RateModel::Unlimited,
        };
        let up = self.up_rate.map_or_else(|| down.clone(), RateModel::Constant);
        let queue = self.queue()?;
        let config = |rate| LinkConfig {
            rate,
            delay: self.delay,
            jitter: Jitter {
                spread: self.jitter.map_or(Spread::None, Spread::Uniform),
                reorder: self.reorder,
                ..Jitter::default()
            },
            queue: queue.clone(),
            loss: self.loss.map_or(LossModel::None, LossModel::Bernoulli),
            ..LinkConfig::default()
        };
        let links = [config(down), config(up)];
        for link in &links {
            link.validate().map_err(|e| Fault::usage(e.to_string()))?;
        }
        Ok(links)
    }

    fn queue(&self) -> Result<QueueConfig, Fault> {
        let limit = self.queue.limit();
        let (Limit::Bytes(room) | Limit::Packets(room)) = limit;
        if matches!(limit, Limit::Bytes(n) if n < u64::from(self.mtu)) {
            return Err(Fault::usage(format!("--queue {}: a packet of {} B must fit", room, self.mtu)));
        }
        let codel = CoDelConfig { ecn: self.ecn, ..CoDelConfig::default() };
        let kind = match self.qdisc {
            Qdisc::Droptail if self.ecn => {
                return Err(Fault::usage(
                    "--ecn: a droptail queue marks nothing; add --qdisc red, codel or fq-codel",
                ));
            }
            Qdisc::Droptail => QueueKind::DropTail,
            Qdisc::Red => QueueKind::Red(RedConfig { ecn: self.ecn, ..RedConfig::new(room / 6, room / 2) }),
            Qdisc::Codel => QueueKind::CoDel(codel),
            Qdisc::FqCodel => QueueKind::FqCoDel(FqCoDelConfig { codel, ..FqCoDelConfig::default() }),
        };
        Ok(QueueConfig { kind, limit })
    }
}

fn read_trace(file: &Path) -> Result<Trace, Fault> {
    let text = std::fs::read_to_string(file)
        .map_err(|e| Fault::usage(format!("--trace {}: {e}", file.display())))?;
    Trace::parse(&text).map_err(|e| Fault::usage(format!("--trace {}: {e}", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn links(more: &str) -> Result<[LinkConfig; 2], String> {
        let words = ["link", "--a", "x0@here", "--b", "x0@there"].into_iter().chain(more.split_whitespace());
        Cli::try_parse_from(words).map_err(|e| e.to_string())?.args.links().map_err(|e| e.to_string())
    }

    #[test]
    fn options_become_links() {
        let [down, up] =
            links("--rate 10M --up-rate 500k --delay 10ms --jitter 2ms --loss 1% --queue 125000B").unwrap();
        assert_eq!(down.rate, RateModel::Constant(Rate::from_bps(10_000_000)));
        assert_eq!(up.rate, RateModel::Constant(Rate::from_bps(500_000)));
        assert_eq!(down.delay, Duration::from_millis(10));
        assert_eq!(
            down.jitter,
            Jitter { spread: Spread::Uniform(Duration::from_millis(2)), ..Jitter::default() }
        );
        assert_eq!(down.loss, LossModel::Bernoulli(0.01));
        assert_eq!(up.queue.limit, Limit::Bytes(125_000));
        let [down, up] = links("--rate 1M --qdisc red --ecn --queue 60packets").unwrap();
        assert_eq!(down, up);
        let QueueKind::Red(red) = down.queue.kind else { panic!("{down:?}") };
        assert_eq!((red.min, red.max, red.ecn), (10, 30, true));
        assert_eq!(links("").unwrap()[0].rate, RateModel::Unlimited);
    }

    #[test]
    fn nonsense_is_named() {
        for (options, word) in [
            ("--ecn", "--qdisc"),
            ("--queue 100B", "1500 B must fit"),
            ("--queue 3packets --qdisc red", "min"),
            ("--rate fast", "bit/s"),
            ("--delay 10", "ms"),
            ("--loss 200%", "100 %"),
            ("--reorder", "--jitter"),
            ("--trace /nonexistent", "/nonexistent"),
            ("--rate 1M --trace x", "--trace"),
        ] {
            let message = links(options).unwrap_err();
            assert!(message.contains(word), "{options}: {message}");
        }
    }

    #[test]
    fn places() {
        let place: Place = "eth1@left".parse().unwrap();
        assert_eq!((place.name.as_str(), place.netns.as_deref()), ("eth1", Some("left")));
        assert_eq!(place.to_string(), "eth1@left");
        for wrong in ["", "@left", "a b", "a@", "a@../x", "sixteen-bytes-xx"] {
            assert!(wrong.parse::<Place>().is_err(), "{wrong}");
        }
    }
}
