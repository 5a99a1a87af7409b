//! DCCP sockets for Python. This crate is the native part of the package `mpdccp`. The Python part, with
//! support for asyncio, is in `python/mpdccp`. docs/python.md is the guide.

mod connection;
mod data;
mod error;
mod listener;
mod observe;
mod options;
mod stream;
mod wait;

use pyo3::prelude::*;

/// The module that Python loads.
#[pymodule]
fn _mpdccp(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<connection::Connection>()?;
    module.add_class::<connection::Connector>()?;
    module.add_class::<listener::Listener>()?;
    module.add_class::<observe::Event>()?;
    module.add_class::<observe::PathStats>()?;
    module.add_class::<observe::Stats>()?;
    module.add_class::<stream::Stream>()?;
    module.add_class::<options::Path>()
}
