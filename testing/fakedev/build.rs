//! Names the library `libcuda.so.1`, and generates a refusal for each exported name not simulated.
//!
//! `symbols.txt` lists what the real driver exports. A name that some `api!` block in `src/`
//! defines is simulated; each other one becomes a stub that answers `CUDA_ERROR_NOT_SUPPORTED`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=symbols.txt");
    println!("cargo:rerun-if-changed=src");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    // Streams' threads outlive a dlclose, and so must their code.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // Our own references to driver names must reach our own functions, even in a process whose
    // global scope has another library of these names: Busbar's own shim.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");

    let defined = simulated(Path::new("src"));
    let table = fs::read_to_string("symbols.txt").expect("symbols.txt is part of the crate");
    let mut stubs = String::new();
    let mut externs = String::new();
    let mut bases: BTreeMap<&str, Vec<(u32, bool, &str)>> = BTreeMap::new();
    let mut known = BTreeSet::new();
    for line in table
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let mut words = line.split_whitespace();
        let symbol = words.next().expect("a line that is not empty has a word");
        known.insert(symbol.to_owned());
        if !defined.contains(symbol) {
            writeln!(stubs, "stub!({symbol});").expect("writing to a string");
        }
        if let (Some(base), Some(version), Some(flavour)) =
            (words.next(), words.next(), words.next())
        {
            writeln!(externs, "    pub fn {symbol}();").expect("writing to a string");
            let version = version.parse().expect("an API version is a number");
            bases
                .entry(base)
                .or_default()
                .push((version, flavour == "thread", symbol));
        }
    }
    if let Some(unknown) = defined.iter().find(|name| !known.contains(*name)) {
        panic!("{unknown} is simulated, but symbols.txt does not list it");
    }
    let mut symbols = format!("mod c {{ unsafe extern \"C\" {{\n{externs}}} }}\n");
    symbols.push_str("static BASES: &[(&str, &[Entry])] = &[\n");
    for (base, mut entries) in bases {
        entries.sort();
        write!(symbols, "    (\"{base}\", &[").expect("writing to a string");
        for (version, thread, symbol) in entries {
            write!(
                symbols,
                "Entry {{ version: {version}, thread: {thread}, f: c::{symbol} }},"
            )
            .expect("writing to a string");
        }
        symbols.push_str("]),\n");
    }
    symbols.push_str("];\n");
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    fs::write(Path::new(&out).join("stubs.rs"), stubs).expect("OUT_DIR is writable");
    fs::write(Path::new(&out).join("symbols.rs"), symbols).expect("OUT_DIR is writable");
}

/// The names between the brackets of `fn [...]` in the sources.
fn simulated(folder: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder).expect("src is part of the crate") {
        let path = entry.expect("src can be listed").path();
        if path.is_dir() {
            names.extend(simulated(&path));
            continue;
        }
        let text = fs::read_to_string(&path).expect("a source file is text");
        for part in text.split("fn [").skip(1) {
            let list = part.split(']').next().unwrap_or_default();
            for name in list.split([' ', ';', '\n']) {
                if name.starts_with("cu") {
                    names.insert(name.to_owned());
                }
            }
        }
    }
    names
}
