//! The `mpdccp` program.

mod demo;
mod fault;
mod lab;
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
    /// Bond two emulated access networks on this machine, CCID 2 against CCID 5, and report.
    Demo(demo::Demo),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Tunnel(command) => tunnel::main(command),
        Command::Lab(args) => lab::main(&args),
        Command::Demo(args) => demo::main(&args),
    }
}
