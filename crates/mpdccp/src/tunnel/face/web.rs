//! A read-only web page that shows the current state of the paths. It loads nothing from other servers.

use crate::error::Error;
use crate::tunnel::face::events::Events;
use crate::tunnel::face::http::{self, Response};
use crate::tunnel::shards::Shards;
use std::net::TcpListener;

const PAGE: &str = include_str!("web.html");

/// Number of events that the page shows.
const SHOWN: usize = 10;

/// Serves the page and the status, which the page requests every second.
pub(crate) fn serve(listener: TcpListener, shards: Shards, events: Events) -> Result<(), Error> {
    http::serve("web", listener, move |path| match path {
        "/" => Response::ok("text/html; charset=utf-8", PAGE.into()),
        "/status.json" => {
            let status = shards.status(None);
            let text = status.and_then(|status| serde_json::to_string(&status).ok());
            text.map_or_else(Response::ending, |text| Response::ok("application/json", text))
        }
        "/events.json" => match serde_json::to_string(&events.newest(SHOWN)) {
            Ok(text) => Response::ok("application/json", text),
            Err(_) => Response::ending(),
        },
        _ => Response::not_here("the page is at /"),
    })
}
