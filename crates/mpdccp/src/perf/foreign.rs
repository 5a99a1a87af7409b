//! iperf3 flags that perf does not have. Each of them causes an error that names the alternative.

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

struct Flag {
    short: Option<char>,
    long: &'static str,
    /// Whether the flag takes a value.
    value: bool,
    instead: &'static str,
}

const fn flag(short: Option<char>, long: &'static str, value: bool, instead: &'static str) -> Flag {
    Flag { short, long, value, instead }
}

const NO_LOGIN: &str =
    "perf has no login; --private-key-file and --public-key authenticate both ends and encrypt the traffic";
const AS_IT_IS: &str = "perf always does this; remove the flag";
const NO_CHOICE: &str = "perf has no such option; remove the flag";

const FLAGS: &[Flag] = &[
    flag(
        Some('w'),
        "window",
        true,
        "congestion control sets the window; --queue PACKETS limits the send queue",
    ),
    flag(
        Some('M'),
        "set-mss",
        true,
        "--mtu BYTES limits the size of IP packets; --size BYTES sets the size of messages",
    ),
    flag(Some('N'), "no-delay", false, AS_IT_IS),
    flag(Some('Z'), "zerocopy", false, NO_CHOICE),
    flag(Some('A'), "affinity", true, "use `taskset -c CPU mpdccp perf ...`"),
    flag(Some('X'), "xbind", true, "use --path LOCAL once for each local address"),
    flag(Some('m'), "mptcp", false, "use --path LOCAL once for each path"),
    flag(Some('L'), "flowlabel", true, "the system chooses IPv6 flow labels; remove the flag"),
    flag(Some('d'), "debug", false, "--qlog FILE and --pcap FILE record each packet"),
    flag(Some('v'), "version", false, "`mpdccp --version` prints the version"),
    flag(None, "sctp", false, "perf uses DCCP only; remove the flag"),
    flag(None, "nstreams", true, "-P N opens N connections"),
    flag(None, "extra-data", true, "use --title TEXT; each JSON object contains it"),
    flag(
        None,
        "fq-rate",
        true,
        "use -b RATE to limit the rate; congestion control already paces the packets",
    ),
    flag(None, "pacing-timer", true, "pacing needs no setting; remove the flag"),
    flag(None, "dont-fragment", false, AS_IT_IS),
    flag(None, "repeating-payload", false, NO_CHOICE),
    flag(None, "udp-counters-64bit", false, NO_CHOICE),
    flag(None, "username", true, NO_LOGIN),
    flag(None, "rsa-public-key-path", true, NO_LOGIN),
    flag(None, "rsa-private-key-path", true, NO_LOGIN),
    flag(None, "authorized-users-path", true, NO_LOGIN),
    flag(None, "time-skew-threshold", true, NO_LOGIN),
    flag(None, "use-pkcs1-padding", false, NO_LOGIN),
];

/// Makes clap accept these flags, so that perf can reject them with its own error.
pub(crate) struct Foreign;

impl Args for Foreign {
    fn augment_args(command: Command) -> Command {
        command.args(FLAGS.iter().map(|flag| {
            let arg = Arg::new(flag.long).long(flag.long).hide(true);
            let arg = arg.action(if flag.value { ArgAction::Append } else { ArgAction::SetTrue });
            flag.short.into_iter().fold(arg, Arg::short)
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Foreign::augment_args(command)
    }
}

impl FromArgMatches for Foreign {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Foreign, clap::Error> {
        let given = |flag: &&Flag| matches.value_source(flag.long) == Some(ValueSource::CommandLine);
        match FLAGS.iter().find(given) {
            None => Ok(Foreign),
            Some(Flag { short, long, instead, .. }) => {
                let short = short.map(|short| format!("-{short}, ")).unwrap_or_default();
                Err(clap::Error::raw(ErrorKind::UnknownArgument, format!("{short}--{long}: {instead}\n")))
            }
        }
    }

    fn update_from_arg_matches(&mut self, _: &ArgMatches) -> Result<(), clap::Error> {
        Ok(())
    }
}
