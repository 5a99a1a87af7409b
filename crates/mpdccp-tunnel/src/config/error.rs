//! What is wrong with a configuration, and where.

use std::path::Path;

/// What is wrong with a configuration: where, what, and how to fix it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError(pub String);

impl std::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

/// Where in a file a complaint belongs.
pub(super) struct Place<'a> {
    pub(super) file: &'a Path,
    pub(super) text: &'a str,
}

impl Place<'_> {
    pub(super) fn error(&self, span: std::ops::Range<usize>, message: impl std::fmt::Display) -> ConfigError {
        let line = self.text[..span.start.min(self.text.len())].matches('\n').count() + 1;
        ConfigError(format!("{}: line {line}: {message}", self.file.display()))
    }

    pub(super) fn whole(&self, message: impl std::fmt::Display) -> ConfigError {
        ConfigError(format!("{}: {message}", self.file.display()))
    }
}
