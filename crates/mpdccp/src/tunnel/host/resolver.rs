//! Looks up host names on a separate thread, because the system's resolver may be slow.

use mpdccp_tunnel::HostEvent;
use std::net::ToSocketAddrs;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Channel to the resolver thread.
pub(crate) struct Resolver {
    ask: Sender<String>,
    questions: Option<Receiver<String>>,
}

impl Resolver {
    pub(crate) fn new() -> Resolver {
        let (ask, questions) = channel();
        Resolver { ask, questions: Some(questions) }
    }

    /// Starts the thread, which ends when the tunnel does. It first looks up the names that have already been
    /// requested. `tell` returns false once the tunnel has ended.
    pub(crate) fn serve(&mut self, tell: impl Fn(HostEvent) -> bool + Send + 'static) -> std::io::Result<()> {
        let Some(questions) = self.questions.take() else { return Ok(()) };
        let serve = move || {
            for name in questions {
                let answer = match (name.as_str(), 0).to_socket_addrs() {
                    Ok(found) => Ok(found.map(|a| a.ip()).collect()),
                    Err(e) => Err(e.to_string()),
                };
                if !tell(HostEvent::Resolved { name, answer }) {
                    break;
                }
            }
        };
        std::thread::Builder::new().name("names".into()).spawn(serve).map(drop)
    }

    pub(crate) fn ask(&self, name: String) {
        // Ignore the error: if the thread could not be started, that has already been logged.
        let _ = self.ask.send(name);
    }
}
