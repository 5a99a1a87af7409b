//! The `mpdccp` program.

mod demo;
mod fault;
mod lab;
mod link;
mod perf;
mod quantity;
mod tunnel;
mod watch;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Multipath DCCP in user space: bond several access networks, and measure how well it goes.
#[derive(Parser)]
#[command(name = "mpdccp", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// A virtual interface whose IP packets take several paths at once. Not encrypted.
    #[command(subcommand)]
    Tunnel(tunnel::Command),
    /// Run experiments over emulated links.
    #[command(subcommand)]
    Lab(lab::Lab),
    /// Send datagrams over one DCCP connection or a multipath session, and measure them.
    #[command(subcommand)]
    Perf(perf::Command),
    /// Join two interfaces by an emulated link: rate, delay, queue, loss. No netem is needed.
    Link(link::Args),
    /// Bond two emulated access networks on this machine, CCID 2 against CCID 5, and report.
    Demo(demo::Demo),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Tunnel(command) => tunnel::main(command),
        Command::Lab(args) => lab::main(&args),
        Command::Perf(command) => perf::main(command),
        Command::Link(args) => link::main(args),
        Command::Demo(args) => demo::main(&args),
    }
}
