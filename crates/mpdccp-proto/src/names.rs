//! Choices that users make by name, and the error for an unknown name.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Display;

/// A choice that users make by name in configuration files.
pub trait Named: Copy + 'static {
    /// Noun for the choice in error messages, such as "scheduler".
    const WHAT: &'static str;
    /// Returns all choices.
    fn all() -> impl Iterator<Item = Self>;
    /// Returns the name of the choice.
    fn name(self) -> &'static str;
    /// Returns the description in one line.
    fn about(self) -> &'static str;

    /// Returns the choice with this name.
    ///
    /// # Errors
    /// Fails if the name is unknown. The error lists the known names.
    fn named(name: &str) -> Result<Self, String> {
        Self::all()
            .find(|one| one.name() == name)
            .ok_or_else(|| unknown(Self::WHAT, name, Self::all().map(Self::name)))
    }
}

/// Returns the error text for an unknown name, with the known names.
pub(crate) fn unknown<T: Display>(what: &str, name: impl Display, all: impl Iterator<Item = T>) -> String {
    let all: Vec<String> = all.map(|one| one.to_string()).collect();
    alloc::format!("unknown {what} `{name}`, expected one of: {}", all.join(", "))
}

/// Deserializes a choice from its name.
#[cfg(feature = "serde")]
macro_rules! by_name {
    ($type:ty) => {
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<$type, D::Error> {
                let name = <alloc::string::String as serde::Deserialize>::deserialize(d)?;
                crate::names::Named::named(&name).map_err(serde::de::Error::custom)
            }
        }
    };
}
#[cfg(feature = "serde")]
pub(crate) use by_name;
