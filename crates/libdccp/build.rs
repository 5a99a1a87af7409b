//! Names the library's ABI: programs linked against another ABI number refuse to start with it.

fn main() {
    // cargo-c sets the name itself.
    if std::env::var_os("CARGO_FEATURE_CAPI").is_none() {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libdccp.so.0");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
