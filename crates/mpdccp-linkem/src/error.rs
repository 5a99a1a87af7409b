use core::fmt;

/// An invalid setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Name of the invalid field.
    pub field: &'static str,
    /// Description of the error.
    pub problem: &'static str,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.problem)
    }
}

impl core::error::Error for ConfigError {}

/// Returns an error with `problem` if `ok` is false.
pub(crate) fn ensure(ok: bool, field: &'static str, problem: &'static str) -> Result<(), ConfigError> {
    if ok { Ok(()) } else { Err(ConfigError { field, problem }) }
}

pub(crate) fn probability(field: &'static str, p: f64) -> Result<(), ConfigError> {
    ensure((0.0..=1.0).contains(&p), field, "the probability must be from 0 to 1")
}
