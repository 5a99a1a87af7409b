//! The `mpdccp` program.

mod choice;
mod conform;
#[cfg(feature = "lab")]
mod demo;
mod descriptors;
mod error;
mod generate;
mod keys;
#[cfg(feature = "lab")]
mod lab;
mod link;
mod perf;
mod socketd;
mod tunnel;
#[cfg(feature = "lab")]
mod watch;

use std::any::Any;
use std::io::{self, Write as _};
use std::panic;
use std::process::ExitCode;
use std::sync::OnceLock;

use clap::{CommandFactory, Parser, Subcommand};
use error::finish;

/// Multipath DCCP in user space: bond several access networks, and measure the result.
#[derive(Parser)]
#[command(name = "mpdccp", version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[cfg(not(feature = "lab"))]
const EXAMPLES: &str = "Examples (this program was built without the lab):
  mpdccp tunnel up --config client.toml              bond lines (docs/guides/home.md)
  mpdccp perf -s                                     measure a path: the server
  mpdccp perf -c 127.0.0.1 -t 5                      measure a path: the client, for 5 s";
#[cfg(feature = "lab")]
const EXAMPLES: &str = "Examples:
  mpdccp demo                                        bond two emulated lines, as root (a minute)
  mpdccp tunnel up --config client.toml              bond lines (docs/guides/home.md)
  mpdccp lab run paper/single-path --backend sim     an experiment in virtual time
  mpdccp perf -s                                     measure a path: the server
  mpdccp perf -c 127.0.0.1 -t 5                      measure a path: the client, for 5 s";

const PERF_EXAMPLES: &str = "Examples:
  mpdccp perf -s                                          a server, for all clients
  mpdccp perf -c 203.0.113.1 --ccid 2                     send for 10 s with CCID 2
  mpdccp perf -c host.example -R -t 30                    the server sends, with its own --ccid
  mpdccp perf -c host.example --bidir -P 4 -O 2 -J        both send, four connections, JSON
  mpdccp perf -c host.example -b 500k -l 160 --echo       round trips of a flow like a call
  mpdccp perf -c 203.0.113.1 --path 192.0.2.33 --path 198.51.100.7   two paths";

#[derive(Subcommand)]
enum Command {
    /// Run an encrypted tunnel over several paths at once.
    #[command(subcommand, after_help = tunnel::EXAMPLES)]
    Tunnel(tunnel::Command),
    #[cfg(feature = "lab")]
    /// Run experiments on emulated links.
    #[command(subcommand, after_help = lab::EXAMPLES)]
    Lab(lab::Lab),
    /// Send datagrams over one DCCP connection or a multipath session, and measure them.
    #[command(after_help = PERF_EXAMPLES)]
    Perf(Box<perf::PerfArgs>),
    /// Test an implementation of DCCP or Multipath DCCP against the rules of the RFCs.
    #[command(after_help = conform::EXAMPLES)]
    Conform(Box<conform::Args>),
    /// Join two interfaces by an emulated link (rate, delay, queue, loss), without netem.
    Link(Box<link::Args>),
    /// Serve DCCP sockets to programs written for the kernel's DCCP sockets.
    #[command(after_help = socketd::SOCKETD_EXAMPLES)]
    Socketd(socketd::SocketdArgs),
    /// Run a program and let `mpdccp socketd` serve its DCCP sockets.
    #[command(after_help = socketd::RUN_EXAMPLES)]
    Run(socketd::RunArgs),
    /// Write manual pages and shell completions, for packages.
    #[command(hide = true)]
    Generate(generate::Args),
    /// Print a new private key for `private_key_file`.
    #[command(after_help = keys::EXAMPLES)]
    Genkey,
    /// Print the public key of the private key on standard input.
    #[command(after_help = keys::EXAMPLES)]
    Pubkey,
    /// Print a new preshared key for both ends' `preshared_key_file`.
    #[command(after_help = keys::EXAMPLES)]
    Genpsk,
    #[cfg(feature = "lab")]
    /// Bond two emulated access networks on this machine, and compare CCID 2 with CCID 5.
    Demo(demo::Demo),
}

/// The first failure to write output, in any thread.
static UNWRITTEN: OnceLock<String> = OnceLock::new();

fn main() -> ExitCode {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |info| match unwritten(info.payload()) {
        Some(text) => drop(UNWRITTEN.set(text.to_owned())),
        // The thread that waits for the one that could not write panics, too.
        None if UNWRITTEN.get().is_some() => {}
        None => usual(info),
    }));
    let done = panic::catch_unwind(run);
    match (UNWRITTEN.get(), done) {
        // The reader of the output has closed the pipe, as `| head` does. Exit like a program killed by
        // SIGPIPE. Unwinding after the panic has already removed namespaces and interfaces.
        (Some(text), _) if text.contains("Broken pipe") => ExitCode::from(141),
        (Some(text), _) => {
            let _ = writeln!(io::stderr(), "mpdccp: {text}");
            ExitCode::FAILURE
        }
        (None, Ok(code)) => code,
        (None, Err(why)) => panic::resume_unwind(why),
    }
}

/// Returns the text of a panic if the panic was caused by a failure to write output.
fn unwritten(why: &(dyn Any + Send)) -> Option<&str> {
    why.downcast_ref::<String>().map(String::as_str).filter(|text| text.starts_with("failed printing to"))
}

fn run() -> ExitCode {
    match Cli::parse().command {
        Command::Tunnel(command) => tunnel::main(command),
        #[cfg(feature = "lab")]
        Command::Lab(args) => lab::main(&args),
        Command::Perf(command) => perf::main(*command),
        Command::Conform(args) => finish(conform::run(&args)),
        Command::Link(args) => finish(link::run(&args)),
        Command::Socketd(args) => finish(socketd::serve(&args)),
        Command::Run(args) => finish(socketd::run(args)),
        Command::Generate(args) => generate::main(&args, Cli::command()),
        Command::Genkey => finish(keys::genkey()),
        Command::Pubkey => finish(keys::pubkey()),
        Command::Genpsk => finish(keys::genpsk()),
        #[cfg(feature = "lab")]
        Command::Demo(args) => demo::main(&args),
    }
}
