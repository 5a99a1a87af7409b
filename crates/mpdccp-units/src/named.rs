/// Declares an enum whose variants have names for programs, with a list of the variants. A variant after
/// `with` holds a value of another such enum, which has the name.
///
/// ```
/// mpdccp_units::named! {
///     /// A direction.
///     #[derive(Clone, Copy, Debug, PartialEq)]
///     pub enum Direction {
///         /// Towards the peer.
///         Out = "out",
///         /// From the peer.
///         In = "in",
///     }
/// }
/// assert_eq!(Direction::ALL.map(Direction::name), ["out", "in"]);
/// ```
#[macro_export]
macro_rules! named {
    (
        $(#[$meta:meta])*
        pub enum $type:ident $(with $(#[$note:meta])* $last:ident($inner:ty))? {
            $($(#[$doc:meta])* $variant:ident = $name:literal,)*
        }
    ) => {
        $(#[$meta])*
        pub enum $type {
            $($(#[$doc])* $variant,)*
            $($(#[$note])* $last($inner),)?
        }

        impl $type {
            /// All variants without a value, in order.
            #[allow(dead_code, reason = "not all enums need the list")]
            pub const ALL: [$type; [$($name),*].len()] = [$($type::$variant),*];

            /// Returns the stable name for programs.
            pub const fn name(self) -> &'static str {
                match self {
                    $($type::$variant => $name,)*
                    $($type::$last(inner) => inner.name(),)?
                }
            }
        }
    };
}
