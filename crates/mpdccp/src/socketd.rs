//! `mpdccp socketd` and `mpdccp run` let unmodified programs use DCCP sockets as if the kernel supported
//! them.

use crate::descriptors;
use crate::error::Error;
use clap::Args as ClapArgs;
use mpdccp_proto::Ccid;
use mpdccp_socketd::{CONTROL, CONTROL_VARIABLE, Daemon, Settings};
use nix::unistd::User;
use rustix::io::Errno;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const SOCKETD_EXAMPLES: &str = "Examples:
  mpdccp socketd                                           for all users of this host; as root
  mpdccp socketd --socket /tmp/dccp.sock --udp-port 7000   for your own programs only
  mpdccp socketd --raw                                     IP protocol 33 instead of UDP; needs CAP_NET_RAW
Then: mpdccp run -- PROGRAM";
pub(crate) const RUN_EXAMPLES: &str = "Examples:
  mpdccp run -- python3 server.py
  mpdccp run --socket /tmp/dccp.sock -- ITGRecv";

/// The library that `mpdccp run` preloads into programs.
const LIBRARY: &str = "libdccp_preload.so";

/// The flags of `mpdccp socketd`.
#[derive(ClapArgs)]
pub(crate) struct SocketdArgs {
    /// Unix socket through which programs reach the daemon.
    #[arg(long, value_name = "PATH", default_value = CONTROL)]
    socket: PathBuf,
    /// UDP port of this daemon and of its peers (RFC 6773).
    #[arg(long, value_name = "PORT", default_value_t = 6511, value_parser = clap::value_parser!(u16).range(1..))]
    udp_port: u16,
    /// Send IP protocol 33 instead of UDP, as the kernel's DCCP does. Needs CAP_NET_RAW.
    #[arg(long, conflicts_with = "udp_port")]
    raw: bool,
    /// Congestion control of sockets that do not choose one.
    #[arg(long, value_name = "CCID", default_value_t = 2)]
    ccid: u8,
    /// If started as root, run as this user after opening the sockets.
    #[arg(long, value_name = "NAME", default_value = "nobody")]
    user: String,
}

/// The flags of `mpdccp run`.
#[derive(ClapArgs)]
pub(crate) struct RunArgs {
    /// Unix socket of the daemon; defaults to that of `mpdccp socketd`.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// Serves programs until a signal ends the daemon.
pub(crate) fn serve(args: &SocketdArgs) -> Result<(), Error> {
    if !Ccid::known().any(|ccid| ccid == args.ccid) {
        let known: Vec<String> = Ccid::known().map(|ccid| ccid.to_string()).collect();
        return Err(Error::usage(format!(
            "--ccid {}: unknown; expected one of {}",
            args.ccid,
            known.join(", ")
        )));
    }
    let socket = std::path::absolute(&args.socket)?;
    let settings =
        Settings { control: socket.clone(), udp_port: (!args.raw).then_some(args.udp_port), ccid: args.ccid };
    let becomes = unprivileged(&args.user)?;
    // Raise the limit on descriptors: one user may open many sockets, and at the usual limit this would shut
    // out other users.
    descriptors::raise();
    let directory = socket.parent().filter(|dir| !dir.exists()).map(Path::to_owned);
    let driver = Daemon::driver(settings).map_err(|e| {
        // A daemon gives only a directory that it has created to its unprivileged user, so leave none behind.
        directory.iter().for_each(|dir| drop(std::fs::remove_dir(dir)));
        Error::usage(e.to_string())
    })?;
    if let Some(user) = becomes {
        // The unprivileged user must be able to remove the socket when the daemon ends.
        let own = |path: &Path| nix::unistd::chown(path, Some(user.uid), Some(user.gid));
        directory.iter().try_for_each(|dir| own(dir)).and_then(|()| own(&socket)).map_err(io_error)?;
        become_user(&user)?;
    }
    let handle = driver.handle();
    ctrlc::set_handler(move || {
        handle.run(|core, _| core.stop());
    })
    .map_err(|e| Error::runtime(format!("cannot handle signals: {e}")))?;
    let at = socket.display();
    let other = if socket == Path::new(CONTROL) { String::new() } else { format!("--socket {at} ") };
    println!("ready at {at}; start programs with: mpdccp run {other}-- PROGRAM");
    driver.run()?;
    Ok(())
}

fn io_error(e: nix::Error) -> Error {
    Error::runtime(format!("cannot give up privileges: {e}"))
}

/// Returns the user that the daemon switches to; `None` unless it runs as root.
fn unprivileged(name: &str) -> Result<Option<User>, Error> {
    if !nix::unistd::geteuid().is_root() {
        return Ok(None);
    }
    let user = User::from_name(name).map_err(io_error)?;
    let user = user.ok_or_else(|| Error::usage(format!("--user {name}: this host has no such user")))?;
    if user.uid.is_root() {
        return Err(Error::usage(format!("--user {name}: this is root; give an unprivileged user")));
    }
    Ok(Some(user))
}

/// Switches to this user. The process loses all capabilities, and programs that it starts later cannot get
/// any.
fn become_user(user: &User) -> Result<(), Error> {
    nix::unistd::setgroups(&[]).map_err(io_error)?;
    nix::unistd::setresgid(user.gid, user.gid, user.gid).map_err(io_error)?;
    nix::unistd::setresuid(user.uid, user.uid, user.uid).map_err(io_error)?;
    Ok(rustix::thread::set_no_new_privs(true).map_err(std::io::Error::from)?)
}

/// Replaces this process with the program, preloading the library.
pub(crate) fn run(args: RunArgs) -> Result<(), Error> {
    let socket = args.socket.or_else(|| std::env::var_os(CONTROL_VARIABLE).map(PathBuf::from));
    let socket = std::path::absolute(socket.as_deref().unwrap_or(Path::new(CONTROL)))?;
    let program = std::env::current_exe()?;
    let here = program.parent().unwrap_or(Path::new("/"));
    let places = [here.join(LIBRARY), here.join("../lib/mpdccp").join(LIBRARY)];
    let library = places.iter().find(|place| place.exists()).ok_or_else(|| {
        Error::usage(format!(
            "{LIBRARY} is missing; expected at {}. Build it with: cargo build --release -p mpdccp-preload",
            places.each_ref().map(|place| place.display().to_string()).join(" or ")
        ))
    })?;
    let mut preload = library.clone().into_os_string();
    if preload.as_encoded_bytes().iter().any(|byte| b" :".contains(byte)) {
        return Err(Error::usage(format!(
            "the system cannot preload {}, because spaces and colons separate paths in LD_PRELOAD; move the \
             program and {LIBRARY} to a directory without them",
            library.display()
        )));
    }
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(" ");
        preload.push(others);
    }
    let (name, rest) = args
        .program
        .split_first()
        .ok_or_else(|| Error::usage("no program given; usage: mpdccp run -- PROGRAM"))?;
    check(&socket)?;
    let failed =
        Command::new(name).args(rest).env("LD_PRELOAD", preload).env(CONTROL_VARIABLE, socket).exec();
    Err(Error::usage(format!("cannot start {}: {failed}", name.display())))
}

/// Returns an error unless a daemon serves programs that use this socket. Without a daemon, a program would
/// only learn that the kernel has no DCCP.
fn check(socket: &Path) -> Result<(), Error> {
    let path = socket.display();
    Err(Error::usage(match mpdccp_socketd::try_daemon(socket) {
        Err(Errno::NOENT | Errno::CONNREFUSED) => {
            format!("no daemon answers at {path}; start it with: mpdccp socketd --socket {path}")
        }
        Err(Errno::PROTO) => {
            format!("the daemon at {path} is of another version than this program; restart it")
        }
        Err(Errno::CONNRESET | Errno::PIPE) => format!(
            "the daemon at {path} does not serve this program: it runs in another network namespace, or is of another \
             version"
        ),
        _ => return Ok(()),
    }))
}
