//! Tables of things that users choose by name, and what to say of a name that is in none.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Display;

/// A choice that files make by name.
pub trait Named: Copy + 'static {
    /// What it is a choice of, such as "scheduler".
    const WHAT: &'static str;
    /// All there are.
    fn all() -> impl Iterator<Item = Self>;
    /// Its name.
    fn name(self) -> &'static str;
    /// What it is for, in one line.
    fn about(self) -> &'static str;

    /// The one of this name.
    ///
    /// # Errors
    /// The names there are.
    fn named(name: &str) -> Result<Self, String> {
        Self::all()
            .find(|one| one.name() == name)
            .ok_or_else(|| unknown(Self::WHAT, name, Self::all().map(Self::name)))
    }
}

/// What is wrong with a name, and which there are.
pub(crate) fn unknown<T: Display>(what: &str, name: impl Display, all: impl Iterator<Item = T>) -> String {
    let all: Vec<String> = all.map(|one| one.to_string()).collect();
    alloc::format!("unknown {what} `{name}`, expected one of: {}", all.join(", "))
}

/// Reads a choice from a file.
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
