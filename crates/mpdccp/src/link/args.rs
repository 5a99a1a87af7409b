//! Defines and evaluates the command line of `mpdccp link`.

use crate::error::Error;
use crate::perf::seconds;
use clap::ValueEnum;
use ipnet::IpNet;
use linkem_net::keys::{Discipline, JitterSpec, LinkKeys, Modelled, SpreadKind};
use linkem_net::quantity::{QueueLimit, QueueSize, parse_queue_size, parse_share, parse_time};
use mpdccp_linkem::{LinkConfig, RateModel, Step};
use mpdccp_tunnel::config::rate;
use mpdccp_units::{Duration, Rate};
use std::str::FromStr;

#[derive(clap::Args)]
#[command(after_help = "Examples, after `ip netns add left; ip netns add right`:\n  \
    mpdccp link --a eth0@left --b eth0@right --a-addr 10.0.0.1/24 --b-addr 10.0.0.2/24 --rate 10M --delay 10ms --queue 125000B\n  \
    mpdccp link --a eth0@left --b eth0@right --a-addr 10.0.0.1/24 --b-addr 10.0.0.2/24 --model starlink")]
pub(crate) struct Args {
    /// Interface to create at one end, in this network namespace or in a named one (`ip netns add`).
    #[arg(long, value_name = "NAME[@NETNS]")]
    pub(super) a: Place,
    /// Interface to create at the other end.
    #[arg(long, value_name = "NAME[@NETNS]")]
    pub(super) b: Place,
    /// Address of interface a (repeatable).
    #[arg(long, value_name = "ADDR/PREFIX")]
    pub(super) a_addr: Vec<IpNet>,
    /// Address of interface b (repeatable).
    #[arg(long, value_name = "ADDR/PREFIX")]
    pub(super) b_addr: Vec<IpNet>,
    /// Link model; end a is the customer's end. The model sets rate, delay and queue, and how they change
    /// over time. Other options override the model.
    #[arg(long, value_name = "NAME", value_parser = |name: &str| Modelled::named(name, false))]
    model: Option<Modelled>,
    /// Rate from a to b, such as 10M or "10 Mbit/s", counted in IP bytes. It also applies from b to a unless
    /// --reverse-rate is given. Unlimited by default.
    #[arg(long, value_parser = rate)]
    rate: Option<Rate>,
    /// Rate from b to a.
    #[arg(long, alias = "up-rate", value_name = "RATE", value_parser = rate)]
    reverse_rate: Option<Rate>,
    /// One-way delay in each direction, such as 10ms. None by default.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    delay: Option<Duration>,
    /// Jitter: largest deviation from the delay, uniformly distributed. Packets are not reordered.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    jitter: Option<Duration>,
    /// Share of packets lost in each direction, such as 1%.
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    loss: Option<f64>,
    /// Size of each direction's queue, such as 125000B, 100packets or 1BDP (rate times round-trip time, which
    /// counts as at least 20 ms). 1000packets by default.
    #[arg(long, value_name = "LIMIT", value_parser = parse_queue_size)]
    queue: Option<QueueSize>,
    /// Queue discipline. RED drops packets depending on the average queue length: none below a sixth of the
    /// queue limit, 10 % at half the limit, and all at the limit.
    #[arg(long, value_enum, default_value = "drop-tail")]
    qdisc: Qdisc,
    /// Mark ECN-capable packets instead of dropping them early.
    #[arg(long)]
    ecn: bool,
    /// Set a link key of docs/scenarios.md, such as 'burst = "15 kB"', for both directions (repeatable).
    /// Overrides other options.
    #[arg(long = "key", value_name = "KEY=VALUE")]
    keys: Vec<String>,
    /// Set a link key for the direction from b to a, such as 'owd = "30 ms"' (repeatable).
    #[arg(long = "reverse-key", alias = "up-key", value_name = "KEY=VALUE")]
    reverse_keys: Vec<String>,
    /// Largest IP packet in bytes.
    #[arg(long, default_value_t = 1500, value_parser = clap::value_parser!(u16).range(576..))]
    pub(super) mtu: u16,
    /// Seed of all random choices.
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// Remove the link after this many seconds, or after a time such as 500ms. By default, the link runs
    /// until interrupted.
    #[arg(short = 't', long, value_name = "S", value_parser = seconds)]
    pub(super) time: Option<Duration>,
    /// Print reports as JSON, one object per line.
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Qdisc {
    DropTail,
    Red,
    Codel,
    FqCodel,
    Pie,
    DualPi2,
}

/// An interface and the network namespace in which to create it.
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
        // Allow only names that the kernel accepts for interfaces and `ip netns` accepts for namespaces.
        let bad = |c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control();
        if name.is_empty() || name.len() > 15 || name.starts_with('.') || name.contains(bad) {
            return Err("expected an interface name of 1 to 15 bytes without spaces, `/` and `:`".into());
        }
        if netns.as_ref().is_some_and(|n| n.is_empty() || n.starts_with('.') || n.contains('/')) {
            return Err("expected the name of a namespace; `ip netns list` shows them".into());
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
    /// Returns the configuration of both directions.
    pub(super) fn links(&self) -> Result<Links, Error> {
        if self.a == self.b {
            return Err(Error::usage(format!(
                "--a and --b are both {}; give two different interfaces",
                self.a
            )));
        }
        let jitter = |by| JitterSpec { spread: SpreadKind::Uniform, by, memory: None, reorder: false };
        let default_queue = self.model.is_none().then_some(QueueSize::Limit(QueueLimit::Packets(1_000)));
        let named = LinkKeys {
            modelled: self.model.clone(),
            rate: self.rate,
            owd: self.delay,
            queue: self.queue.or(default_queue),
            jitter: self.jitter.map(jitter),
            loss: self.loss,
            ..LinkKeys::default()
        };
        let both = keys("--key", &self.keys)?.over(&named);
        let reverse_rate = LinkKeys { rate: self.reverse_rate, ..LinkKeys::default() };
        let reverse = keys("--reverse-key", &self.reverse_keys)?;
        if reverse.model.is_some() {
            return Err(Error::usage(
                "--reverse-key model: a link model describes both directions; use --model",
            ));
        }
        let reverse = reverse.over(&reverse_rate).over(&both.behind());
        let course =
            both.modelled.as_ref().map(|modelled| Box::new(modelled.model.course(self.seed)) as Box<_>);
        let mut ways = [both, reverse];
        for way in &mut ways {
            let named = self.discipline(way.queue_limit())?;
            way.discipline.get_or_insert(named);
            if way.has_mixed_units() {
                return Err(Error::usage(format!(
                    "discipline: RED's min and max must have the same unit as the queue, which holds {}",
                    way.queue_limit().text()
                )));
            }
            let config = way.config();
            config.validate().map_err(|e| Error::usage(e.to_string()))?;
            if matches!(config.rate, RateModel::TokenBucket { rate, .. } if rate == Rate::ZERO) {
                return Err(Error::usage("burst: an unlimited link has no bursts; give a rate with --rate"));
            }
        }
        Ok(Links { ways, course })
    }

    /// Returns the queue discipline with this queue limit.
    fn discipline(&self, limit: QueueLimit) -> Result<Discipline, Error> {
        if matches!(limit, QueueLimit::Bytes(n) if n < u64::from(self.mtu)) {
            let (room, mtu) = (limit.number(), self.mtu);
            return Err(Error::usage(format!(
                "--queue {room}: smaller than a packet; expected at least {mtu} B"
            )));
        }
        let share = |part| match limit {
            QueueLimit::Bytes(n) => QueueLimit::Bytes(n / part),
            QueueLimit::Packets(n) => QueueLimit::Packets(n / part),
        };
        let ecn = self.ecn;
        Ok(match self.qdisc {
            Qdisc::DropTail if ecn => {
                return Err(Error::usage(
                    "--ecn: a drop-tail queue cannot mark packets; add --qdisc red, codel, fq-codel or pie",
                ));
            }
            Qdisc::DropTail => Discipline::DropTail {},
            Qdisc::Red => {
                Discipline::Red { min: share(6), max: share(2), probability: None, weight: None, ecn }
            }
            Qdisc::Codel => Discipline::Codel { target: None, interval: None, ecn },
            Qdisc::Pie => Discipline::Pie { ecn },
            // DualPi2 always marks packets, so `--ecn` changes nothing.
            Qdisc::DualPi2 => Discipline::DualPi2 {},
            Qdisc::FqCodel => {
                Discipline::FqCodel { target: None, interval: None, flows: None, ecn: Some(ecn) }
            }
        })
    }
}

/// The configuration of both directions, and the link model that changes it over time.
pub(super) struct Links {
    /// The keys of each direction: a to b first, then b to a.
    ways: [LinkKeys; 2],
    /// The steps of the link model; `None` if the link does not change.
    pub(super) course: Option<Box<dyn Iterator<Item = Step> + Send>>,
}

impl Links {
    /// Returns the initial state of both directions.
    pub(super) fn begin(&self) -> [LinkConfig; 2] {
        self.ways.each_ref().map(LinkKeys::config)
    }

    /// Returns whether each direction is up. A direction that is down drops all packets.
    pub(super) fn are_up(&self) -> [bool; 2] {
        self.ways.each_ref().map(LinkKeys::is_up)
    }

    /// Returns the state of both directions after a step of the link model.
    pub(super) fn at(&self, step: &Step) -> [LinkConfig; 2] {
        [0, 1].map(|way: usize| self.ways[way].in_state(Some(step.ways[way])).config())
    }
}

/// Parses keys in the syntax of scenarios.
fn keys(flag: &str, texts: &[String]) -> Result<LinkKeys, Error> {
    let wrong = |e: String| Error::usage(format!("{flag} {}: {e}", texts.join(", ")));
    let mut keys: LinkKeys = toml::from_str(&texts.join("\n")).map_err(|e| wrong(e.message().to_owned()))?;
    let mut read = |file: &str| std::fs::read_to_string(file).map_err(|e| format!("{file}: {e}"));
    keys.load(false, &mut read).map_err(|(_, e)| wrong(e))?;
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::flags;
    use mpdccp_linkem::{Jitter, Limit, LossModel, PieConfig, Policer, QueueKind, Spread};

    /// Parses a test's command line: options, then keys separated by semicolons. A key that begins with
    /// `reverse ` is for the direction from b to a.
    fn all(more: &str) -> Result<Links, String> {
        let mut parts = more.split(';').map(str::trim);
        let options = parts.next().unwrap_or_default().split_whitespace();
        let keys = parts.flat_map(|key| match key.strip_prefix("reverse ") {
            Some(key) => ["--reverse-key", key],
            None => ["--key", key],
        });
        let words = ["--a", "x0@here", "--b", "x0@there"].into_iter().chain(options).chain(keys);
        flags::<Args>(words).map_err(|e| e.to_string())?.links().map_err(|e| e.to_string())
    }

    fn links(more: &str) -> Result<[LinkConfig; 2], String> {
        all(more).map(|links| links.begin())
    }

    #[test]
    fn directions_and_all_that_a_link_can_do() {
        let [forward, reverse] = links(
            "--rate 10M --delay 10ms --loss 1%; burst = '15 kB'; policer = { rate = '8M', burst = '60 kB' }; \
             jitter = { spread = 'uniform', by = '2 ms', memory = '50 ms' }; thin_acks = '100 B'; \
             aggregation = { access = '1 ms', packets = 32 }; reverse owd = '30 ms'; \
             reverse queue = '20 packets'; reverse loss = '2 %'",
        )
        .unwrap();
        assert_eq!(forward.rate, RateModel::TokenBucket { rate: Rate::from_mbps(10.0), burst: 15_000 });
        assert_eq!(forward.policer, Some(Policer { rate: Rate::from_mbps(8.0), burst: 60_000 }));
        assert_eq!([forward.delay, reverse.delay].map(|d| d.as_millis()), [10, 30]);
        assert_eq!([forward.queue.limit, reverse.queue.limit], [Limit::Packets(1_000), Limit::Packets(20)]);
        assert_eq!([forward.loss, reverse.loss], [0.01, 0.02].map(LossModel::Bernoulli));
        assert_eq!((forward.jitter.memory.as_millis(), forward.thin_below), (50, 100));
        assert_eq!(reverse.aggregation.unwrap().packets, 32);
        let bursts = links("--loss 1%; burst_loss = { begin = '1 %', end = '25 %' }").unwrap()[1].loss;
        assert!(matches!(bursts, LossModel::GilbertElliott { to_bad: 0.01, to_good: 0.25, .. }));
    }

    #[test]
    fn a_model_goes_on_but_for_what_is_named() {
        let mut links = all("--model starlink --reverse-rate 50M --delay 5ms").unwrap();
        assert_eq!(links.begin()[1].rate, RateModel::Constant(Rate::from_mbps(50.0)));
        let steps: Vec<Step> = links.course.take().unwrap().take(100).collect();
        let course: Vec<[LinkConfig; 2]> = steps.iter().map(|step| links.at(step)).collect();
        assert!(course.iter().all(|[_, reverse]| reverse.rate == RateModel::Constant(Rate::from_mbps(50.0))));
        assert!(course.iter().any(|[forward, _]| forward.rate != course[0][0].rate));
        assert!(course.iter().flatten().all(|link| link.delay.as_millis() == 5));
        assert!(all("--rate 1M").unwrap().course.is_none());
        assert_eq!(all("; reverse up = false").unwrap().are_up(), [true, false]);
    }

    #[test]
    fn options_become_links() {
        let [forward, reverse] =
            links("--rate 10M --reverse-rate 500k --delay 10ms --jitter 2ms --loss 1% --queue 125000B")
                .unwrap();
        assert_eq!(forward.rate, RateModel::Constant(Rate::from_bps(10_000_000)));
        assert_eq!(reverse.rate, RateModel::Constant(Rate::from_bps(500_000)));
        assert_eq!(forward.delay, Duration::from_millis(10));
        assert_eq!(
            forward.jitter,
            Jitter { spread: Spread::Uniform(Duration::from_millis(2)), ..Jitter::default() }
        );
        assert_eq!(forward.loss, LossModel::Bernoulli(0.01));
        assert_eq!(reverse.queue.limit, Limit::Bytes(125_000));
        let [forward, reverse] = links("--rate 1M --qdisc red --ecn --queue 60packets").unwrap();
        assert_eq!(forward, reverse);
        let QueueKind::Red(red) = forward.queue.kind else { panic!("{forward:?}") };
        assert_eq!((red.min, red.max, red.ecn), (10, 30, true));
        let [forward, _] = links("--rate 1M --qdisc pie --ecn; duplicate = '0.1 %'").unwrap();
        assert!(matches!(forward.queue.kind, QueueKind::Pie(PieConfig { ecn: true, .. })), "{forward:?}");
        assert_eq!(forward.duplicate, 0.001);
        assert_eq!(links("").unwrap()[0].rate, RateModel::Unlimited);
    }

    #[test]
    fn the_directions_of_a_trace_are_out_of_phase_as_in_scenarios() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "1\n2\n3\n10\n").unwrap();
        let key = format!("rate_trace = '{}'", file.path().display());
        let rates = |keys: &str| links(keys).unwrap().map(|link| link.rate);
        let [forward, reverse] = rates(&format!("; {key}"));
        let RateModel::Trace(trace) = &forward else { panic!("{forward:?}") };
        assert_eq!(reverse, RateModel::Trace(trace.later_by(Duration::from_millis(5))));
        let [same, own] = rates(&format!("; {key}; reverse {key}"));
        assert_eq!([&same, &own], [&forward, &forward]);
        assert_eq!(rates(&format!("--reverse-rate 5M; {key}"))[1], RateModel::Constant(Rate::from_mbps(5.0)));
    }

    #[test]
    fn nonsense_is_named() {
        for (options, word) in [
            ("--ecn", "--qdisc"),
            ("--queue 100B", "at least 1500 B"),
            ("--queue 3packets --qdisc red", "min"),
            (
                "--queue 1BDP --rate 10M; discipline = { kind = 'red', min = '10 packets', max = '30 packets' }",
                "which holds 25000 B",
            ),
            (
                "; reverse discipline = { kind = 'red', min = '15 kB', max = '45 kB' }",
                "which holds 1000 packets",
            ),
            ("--rate fast", "bit/s"),
            ("--delay 10", "ms"),
            ("--loss 200%", "100 %"),
            ("--model 3g", "starlink"),
            ("; rate_trace = '/nonexistent'", "/nonexistent"),
            ("; speed = 1", "aggregation"),
            ("; reverse aggregation = { access = '1 ms', packets = 0 }", "packets"),
            ("; burst = '15 kB'", "--rate"),
            ("--model starlink; reverse model = 'lte'", "both directions"),
            ("; reverse speed = 1", "--reverse-key speed = 1: "),
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
