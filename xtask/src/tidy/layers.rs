//! Who may use whom: the invariants of ARCHITECTURE.md, from what cargo knows of the packages.

use super::repo::{File, Repo, ours};
use serde_json::Value;

/// Each package of ours, and those of ours that it may use outside its tests.
const ALLOWED: &[(&str, &[&str])] = &[
    ("busbar-abi", &[]),
    ("busbar-wire", &[]),
    ("busbar-control", &[]),
    ("busbar-transport", &[]),
    ("busbar-policy", &["control"]),
    ("busbar-pool", &["control", "policy"]),
    ("busbar-relay", &[]),
    ("busbar-web", &["control"]),
    ("busbar-codegen", &[]),
    ("busbar-channel", &["transport", "wire"]),
    ("busbar-store", &["control", "transport"]),
    (
        "busbar-client",
        &["abi", "channel", "control", "transport", "wire"],
    ),
    (
        "busbar-worker",
        &["abi", "channel", "control", "store", "transport", "wire"],
    ),
    (
        "busbar",
        &[
            "channel",
            "client",
            "control",
            "policy",
            "pool",
            "relay",
            "store",
            "transport",
            "web",
            "wire",
            "worker",
        ],
    ),
    ("busbar-shim-cuda", &["abi", "client"]),
    ("busbar-shim-opencl", &["abi", "client"]),
    ("busbar-shim-nvml", &["abi", "client"]),
    ("busbar-shim-nccl", &["abi", "client"]),
    // It is preloaded into every program, so it has no client: it asks that of libcuda.so.1.
    ("busbar-shim-cupti", &["abi"]),
    // What is packed has been built: it is files, and no crate.
    ("busbar-packaging", &[]),
    ("xtask", &["codegen"]),
];
/// Only these load a library that is not theirs.
const LOADERS: [&str; 1] = ["busbar-worker"];

pub fn check(repo: &Repo, packages: &[Value]) -> Vec<String> {
    let mut found: Vec<_> = ours(packages).flat_map(package).collect();
    found.extend(sources(repo));
    found
}

fn package(p: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let name = p["name"].as_str().unwrap_or_default();
    let manifest = p["manifest_path"].as_str().unwrap_or_default();
    if manifest.contains("/testing/") || manifest.contains("/fuzz/") {
        return found; // Tests may see everything.
    }
    let Some((_, allowed)) = ALLOWED.iter().find(|(n, _)| *n == name) else {
        return vec![format!(
            "{name}: a new package; xtask/src/tidy/layers.rs says what each may use"
        )];
    };
    for d in p["dependencies"].as_array().into_iter().flatten() {
        if d["kind"] == "dev" {
            continue;
        }
        let used = d["name"].as_str().unwrap_or_default();
        let ours = used.strip_prefix("busbar-");
        if ours.is_some_and(|u| !allowed.contains(&u)) || used == "busbar" {
            found.push(format!(
                "{name}: may not depend on {used} (ARCHITECTURE.md)"
            ));
        }
        if used == "libloading" && !LOADERS.contains(&name) {
            found.push(format!("{name}: only the worker loads a vendor's library"));
        }
    }
    found
}

/// The functions of sockets that a library is to find in a worker.
const SOCKETS: &str = "crates/worker/src/sockets.rs";

/// What cargo cannot know.
fn sources(repo: &Repo) -> Vec<String> {
    let mut found = Vec::new();
    let exports = [concat!("no_", "mangle"), concat!("export_", "name")];
    for f in repo.files.iter().filter(|f| f.is_rust_code()) {
        found.extend(loud_threads(f));
        let library = f.path.starts_with("crates/");
        for (n, line) in f.lines() {
            let code = line.split("//").next().unwrap_or_default();
            if library && !f.path.starts_with("crates/codegen/") {
                let export = exports.iter().any(|e| code.contains(e));
                if export && f.path != SOCKETS {
                    found.push(format!("{}:{n}: only shims export C symbols", f.path));
                }
                let pure = [
                    "crates/wire/",
                    "crates/control/",
                    "crates/policy/",
                    "crates/pool/",
                ]
                .iter()
                .any(|p| f.path.starts_with(p));
                if pure
                    && ["std::net", "Instant::now", "SystemTime::now"]
                        .iter()
                        .any(|w| code.contains(w))
                {
                    found.push(format!("{}:{n}: no socket and no clock here", f.path));
                }
            }
        }
    }
    for pure in ["wire", "control", "policy", "pool"] {
        let path = format!("crates/{pure}/src/lib.rs");
        let lib = repo.files.iter().find(|f| f.path == path);
        if !lib.is_some_and(|f| f.text.contains("#![forbid(unsafe_code)]")) {
            found.push(format!("{path}:1: does not forbid unsafe code"));
        }
    }
    let shim = |p: &str| p.starts_with("shims/") && p.ends_with("/src/lib.rs");
    let inside = |f: &&File| f.path == "crates/client/src/lib.rs" || shim(&f.path);
    for f in repo.files.iter().filter(inside) {
        if !f
            .text
            .contains("#![deny(clippy::print_stdout, clippy::print_stderr, clippy::exit)]")
        {
            found.push(format!("{}:1: does not deny printing and exiting", f.path));
        }
    }
    found
}

/// Threads in a program of somebody else's that would take its signals.
fn loud_threads(f: &File) -> Vec<String> {
    let quiet = f.path.ends_with("/threads.rs") || f.path.contains("/tests/");
    if !(f.path.starts_with("crates/client/") || f.path.starts_with("shims/")) || quiet {
        return Vec::new();
    }
    let loud = |line: &str| {
        let plain = line.contains("thread::spawn(") || line.contains("thread::Builder");
        plain && !line.contains("spawn_scoped")
    };
    let code = f.lines().take_while(|(_, l)| *l != "#[cfg(test)]");
    code.filter(|(_, l)| loud(l))
        .map(|(n, _)| format!("{}:{n}: start it with threads::start", f.path))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn threads_that_take_a_programs_signals_are_found() {
        let file = |path: &str| {
            let text = "fn f() {\n    std::thread::Builder::new().spawn(g);\n}\n".into();
            let path = path.into();
            loud_threads(&File { path, text }).len()
        };
        assert_eq!(file("crates/client/src/a.rs"), 1);
        assert_eq!(file("crates/client/src/threads.rs"), 0);
        assert_eq!(file("crates/worker/src/a.rs"), 0);
    }

    fn found(name: &str, used: &str, kind: Value) -> usize {
        let d = json!([{ "name": used, "kind": kind }]);
        package(&json!({ "name": name, "manifest_path": "/crates/a", "dependencies": d })).len()
    }

    #[test]
    fn forbidden_edges_are_found() {
        assert_eq!(found("busbar-client", "busbar-wire", Value::Null), 0);
        assert_eq!(found("busbar-client", "busbar-worker", Value::Null), 1);
        assert_eq!(found("busbar-client", "busbar-worker", json!("dev")), 0);
        assert_eq!(found("busbar-wire", "busbar-transport", json!("build")), 1);
        assert_eq!(found("busbar", "libloading", Value::Null), 1);
        assert_eq!(found("busbar-worker", "libloading", Value::Null), 0);
        assert_eq!(found("busbar-new", "libc", Value::Null), 1);
    }
}
