//! Gives the library a name of its own, and keeps it loaded.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Not NVIDIA's: lib.rs says why.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libbusbar_cupti.so.1");
    // Profilers keep the addresses of its functions.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
