use std::fmt;
use std::process::ExitCode;

/// Why the program ends: one message that says what, where, and how to mend it.
#[derive(Debug)]
pub(crate) struct Fault {
    message: String,
    /// What the process returns.
    pub(crate) code: ExitCode,
}

impl Fault {
    /// Wrong input or surroundings, to be mended by whoever called the program: exit code 2.
    pub(crate) fn usage(message: impl Into<String>) -> Fault {
        Fault { message: message.into(), code: ExitCode::from(2) }
    }

    /// Something broke on the way: exit code 1.
    pub(crate) fn runtime(message: impl Into<String>) -> Fault {
        Fault { message: message.into(), code: ExitCode::from(1) }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<std::io::Error> for Fault {
    fn from(e: std::io::Error) -> Fault {
        Fault::runtime(e.to_string())
    }
}
