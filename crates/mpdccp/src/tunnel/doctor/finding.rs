//! The doctor's findings, in sentences for people and in JSON for programs.

use serde::Serialize;
use std::fmt;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    /// Traffic fails or suffers.
    Fault,
    /// Traffic will fail under certain conditions.
    Warning,
    /// Information only.
    Note,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Fault => "FAULT",
            Severity::Warning => "warning",
            Severity::Note => "note",
        })
    }
}

/// A problem and its fix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    /// Name of the test that found the problem. The names are a stable interface.
    pub(crate) check: &'static str,
    /// Name of the path concerned, if any.
    pub(crate) line: Option<String>,
    pub(crate) message: String,
    pub(crate) advice: String,
}

impl Finding {
    fn new(severity: Severity, check: &'static str, message: String, advice: String) -> Finding {
        Finding { severity, check, line: None, message, advice }
    }

    pub(crate) fn fault(
        check: &'static str,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) -> Finding {
        Finding::new(Severity::Fault, check, message.into(), advice.into())
    }

    pub(crate) fn warning(
        check: &'static str,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) -> Finding {
        Finding::new(Severity::Warning, check, message.into(), advice.into())
    }

    pub(crate) fn note(
        check: &'static str,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) -> Finding {
        Finding::new(Severity::Note, check, message.into(), advice.into())
    }

    /// Returns the finding, labelled with the name of the path that it belongs to.
    pub(crate) fn of(self, line: &str) -> Finding {
        Finding { line: Some(line.into()), ..self }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { severity, check, message, advice, line } = self;
        write!(f, "{severity} ({check}): ")?;
        if let Some(line) = line {
            write!(f, "{line}: ")?;
        }
        write!(f, "{message}.")?;
        if !advice.is_empty() {
            write!(f, "\n    {advice}.")?;
        }
        Ok(())
    }
}
