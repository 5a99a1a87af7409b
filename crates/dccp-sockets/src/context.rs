//! System errors that name the operation that failed.

use std::error::Error;
use std::{fmt, io};

/// A system error and the operation that failed. The source is the original error, which has the errno value.
#[derive(Debug)]
struct About {
    what: String,
    source: io::Error,
}

impl fmt::Display for About {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.source)
    }
}

impl Error for About {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.source)
    }
}

pub(crate) fn about(what: &str, source: io::Error) -> io::Error {
    io::Error::new(source.kind(), About { what: what.to_owned(), source })
}

/// Returns an error with the same operation and errno value.
pub(crate) fn again(error: &io::Error) -> io::Error {
    let context = error.get_ref().and_then(|inner| inner.downcast_ref::<About>());
    match (context, error.raw_os_error()) {
        (Some(About { what, source }), _) => about(what, again(source)),
        (None, Some(errno)) => io::Error::from_raw_os_error(errno),
        (None, None) => io::Error::new(error.kind(), error.to_string()),
    }
}
