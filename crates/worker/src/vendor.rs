//! Libraries of a vendor's beside its driver: where a machine has them.

use busbar_control::text::host_name;
use std::path::{Path, PathBuf};

/// What to call this machine: of several servers it has to be said which one lacks something.
pub(crate) fn here() -> String {
    match host_name().as_str() {
        "" => "the server".into(),
        host => format!("the server {host}"),
    }
}

/// A library of a Python installation's, by its place among the packages.
pub(crate) fn of_python(place: &str) -> Option<PathBuf> {
    let all = std::env::var_os("PATH").unwrap_or_default();
    let of_path = std::env::split_paths(&all).filter(|p| p.join("python3").exists());
    let of_path = of_path.filter_map(|p| p.parent().map(Path::to_path_buf));
    let here = std::env::var_os("VIRTUAL_ENV").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(|h| PathBuf::from(h).join(".local"));
    let mut prefixes = here
        .into_iter()
        .chain(of_path)
        .chain(home)
        .chain(["/usr/local".into(), "/usr".into()]);
    prefixes.find_map(|prefix| in_python(&prefix.join("lib"), place))
}

/// A library that the loader knows.
pub(crate) fn of_loader(name: &str) -> Option<PathBuf> {
    known_to_loader(&std::fs::read("/etc/ld.so.cache").ok()?, name)
}

/// The library's path in the loader's cache, which ends in a list of strings.
fn known_to_loader(cache: &[u8], name: &str) -> Option<PathBuf> {
    let strings = cache
        .split(|b| *b == 0)
        .filter_map(|s| std::str::from_utf8(s).ok());
    let mut paths = strings.filter(|s| s.starts_with('/')).map(Path::new);
    let found = paths.find(|p| p.file_name().is_some_and(|n| n == name) && p.exists());
    found.map(Path::to_path_buf)
}

fn in_python(lib: &Path, place: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(lib).ok()?.flatten().map(|e| e.path());
    let is_python = |p: &PathBuf| p.to_string_lossy().contains("/python3");
    let mut pythons: Vec<_> = entries.filter(is_python).collect();
    let version = |p: &PathBuf| {
        let name = p.to_string_lossy().into_owned();
        let minor = name
            .rsplit_once("python3.")
            .and_then(|(_, n)| n.parse::<u32>().ok());
        std::cmp::Reverse(minor)
    };
    pythons.sort_by_key(version);
    let packages = ["site-packages", "dist-packages"];
    let mut places = pythons.iter().flat_map(|p| packages.map(|d| p.join(d)));
    places.find_map(|p| Some(p.join(place)).filter(|l| l.exists()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "libvendor.so.2";

    #[test]
    fn the_loaders_cache_names_the_library() {
        let folder = crate::scratch::Scratch::new().expect("a folder");
        let there = folder.path().join(NAME);
        std::fs::write(&there, "").expect("a file");
        let cache = |path: &str| format!("head\x01\0{NAME}\0{path}\0libz.so.1\0/lib/libz.so.1\0");
        let found = |path: &str| known_to_loader(cache(path).as_bytes(), NAME);
        assert_eq!(found(there.to_str().expect("text")), Some(there.clone()));
        assert_eq!(found("/nowhere/libvendor.so.2"), None);
        assert_eq!(known_to_loader(b"", NAME), None);
    }

    #[test]
    fn the_newest_python_that_has_it_is_found() {
        let lib = crate::scratch::Scratch::new().expect("a folder");
        for version in ["python3.9", "python3.12"] {
            let folder = lib
                .path()
                .join(version)
                .join("site-packages/nvidia/vendor/lib");
            std::fs::create_dir_all(&folder).expect("a folder");
            std::fs::write(folder.join(NAME), "").expect("a file");
        }
        std::fs::create_dir_all(lib.path().join("python3.13")).expect("a folder");
        let place = format!("nvidia/vendor/lib/{NAME}");
        let found = in_python(lib.path(), &place).expect("one is there");
        assert!(found.to_string_lossy().contains("python3.12"), "{found:?}");
    }
}
