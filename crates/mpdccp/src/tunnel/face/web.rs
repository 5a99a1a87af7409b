//! A page for a browser that shows the paths as they are now: read-only, without anything from elsewhere.

use crate::error::Error;
use crate::tunnel::face::http::{self, Response};
use crate::tunnel::shards::Shards;
use std::net::TcpListener;

const PAGE: &str = include_str!("web.html");

/// Shows the page, which asks for the status each second.
pub(crate) fn serve(listener: TcpListener, shards: Shards) -> Result<(), Error> {
    http::serve("web", listener, true, move |path| match path {
        "/" => Response::ok("text/html; charset=utf-8", PAGE.into()),
        "/status.json" => {
            let status = shards.status(None);
            let text = status.and_then(|status| serde_json::to_string(&status).ok());
            text.map_or_else(Response::ending, |text| Response::ok("application/json", text))
        }
        _ => Response::not_here("the page is at /"),
    })
}
