//! The `mpdccp` program.

mod demo;
mod fault;
mod lab;
mod perf;
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
    /// Bond two emulated access networks on this machine, CCID 2 against CCID 5, and report.
    Demo(demo::Demo),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Tunnel(command) => tunnel::main(command),
        Command::Lab(args) => lab::main(&args),
        Command::Perf(command) => perf::main(command),
        Command::Demo(args) => demo::main(&args),
    }
}
