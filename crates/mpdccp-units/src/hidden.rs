/// Implements `Debug` for types whose values must not appear in logs.
#[macro_export]
macro_rules! hidden {
    ($($type:ident),+) => { $(
        impl core::fmt::Debug for $type {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(concat!(stringify!($type), "(..)"))
            }
        }
    )+ };
}
