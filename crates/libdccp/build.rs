//! Sets the library's ABI number in its soname. The dynamic linker refuses to start a program with a library
//! whose ABI number differs from the one that the program was linked with.

fn main() {
    // If cargo-c builds the library, cargo-c sets the soname.
    if std::env::var_os("CARGO_FEATURE_CAPI").is_none() {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libdccp.so.0");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
