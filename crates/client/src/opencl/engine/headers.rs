//! Headers that a program's source includes lie on the client: those that can be found travel with
//! the build, under the paths that they have here, and the include options are left for the worker
//! to set below the folder that it puts them in.

use busbar_wire::Writer;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Most bytes of headers that travel.
const MOST: usize = 64 << 20;

/// Headers and the options that go with them.
pub struct Found {
    /// The options; `-I` names a folder of the client's by its absolute path.
    pub options: String,
    /// Count (u32), then path and contents of each; empty when there are none.
    pub packed: Vec<u8>,
}

/// Finds the headers of a source.
pub fn collect(source: &[u8], options: &str) -> Found {
    let dirs = include_dirs(options);
    let mut files = BTreeMap::new();
    let mut total = 0;
    let here = std::env::current_dir().unwrap_or_default();
    scan(source, &here, &dirs, &mut files, &mut total);
    let mut packed = Vec::new();
    if !files.is_empty() {
        let mut w = Writer::new(&mut packed);
        w.u32(files.len() as u32);
        for (path, contents) in &files {
            w.str(path);
            w.bytes(contents);
        }
    }
    Found {
        options: absolute(options, &here),
        packed,
    }
}

/// Splits options at blanks outside of quotes.
fn words(options: &str) -> Vec<String> {
    let mut list = Vec::new();
    let (mut word, mut quoted) = (String::new(), false);
    for c in options.chars() {
        match c {
            '"' => {
                quoted = !quoted;
                word.push(c);
            }
            c if c.is_whitespace() && !quoted => {
                if !word.is_empty() {
                    list.push(std::mem::take(&mut word));
                }
            }
            c => word.push(c),
        }
    }
    if !word.is_empty() {
        list.push(word);
    }
    list
}

/// The folder that `-I` at `i` names, and how many words say so.
fn dir_at(words: &[String], i: usize) -> Option<(String, usize)> {
    let rest = words[i].strip_prefix("-I")?;
    let (dir, n) = match rest {
        "" => (words.get(i + 1)?.as_str(), 2),
        dir => (dir, 1),
    };
    Some((dir.trim_matches('"').to_string(), n))
}

fn include_dirs(options: &str) -> Vec<PathBuf> {
    let words = words(options);
    let mut dirs: Vec<_> = (0..words.len())
        .filter_map(|i| dir_at(&words, i))
        .filter_map(|(d, _)| std::path::absolute(d).ok())
        .collect();
    dirs.extend(std::env::current_dir());
    dirs
}

/// The options with every include folder made absolute; unchanged when there are none.
fn absolute(options: &str, here: &Path) -> String {
    let words = words(options);
    if !(0..words.len()).any(|i| dir_at(&words, i).is_some()) {
        return options.to_string();
    }
    let mut out = Vec::new();
    let mut i = 0;
    while i < words.len() {
        match dir_at(&words, i) {
            Some((dir, n)) => {
                let dir = here.join(dir);
                out.push(format!("-I\"{}\"", dir.display()));
                i += n;
            }
            None => {
                out.push(words[i].clone());
                i += 1;
            }
        }
    }
    out.join(" ")
}

fn scan(
    source: &[u8],
    folder: &Path,
    dirs: &[PathBuf],
    files: &mut BTreeMap<String, Vec<u8>>,
    total: &mut usize,
) {
    for line in source.split(|b| *b == b'\n') {
        let line = line.trim_ascii();
        let Some(rest) = line.strip_prefix(b"#") else {
            continue;
        };
        let Some(rest) = rest.trim_ascii_start().strip_prefix(b"include") else {
            continue;
        };
        let rest = rest.trim_ascii();
        let close = match rest.first() {
            Some(b'"') => b'"',
            Some(b'<') => b'>',
            _ => continue,
        };
        let Some(end) = rest[1..].iter().position(|b| *b == close) else {
            continue;
        };
        let Ok(name) = std::str::from_utf8(&rest[1..=end]) else {
            continue;
        };
        let near = (close == b'"').then(|| folder.join(name));
        let places = near.into_iter().chain(dirs.iter().map(|d| d.join(name)));
        for path in places {
            let Ok(contents) = std::fs::read(&path) else {
                continue;
            };
            let key = path.to_string_lossy().into_owned();
            if files.contains_key(&key) {
                break;
            }
            *total += contents.len();
            if *total > MOST {
                return;
            }
            files.insert(key, contents.clone());
            let folder = path.parent().unwrap_or(Path::new("/"));
            scan(&contents, folder, dirs, files, total);
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_headers_are_found_and_folders_made_absolute() {
        let dir = std::env::temp_dir().join(format!("busbar-headers-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("sub")).unwrap();
        std::fs::write(dir.join("a.h"), "#include \"sub/b.h\"\n").unwrap();
        std::fs::write(dir.join("sub/b.h"), "  #  include <a.h>\nint b;\n").unwrap();
        let options = format!("-DX=1 -I {} -w", dir.display());
        let found = collect(b"#include <a.h>\n#include MACRO\n", &options);
        assert_eq!(found.options, format!("-DX=1 -I\"{}\" -w", dir.display()));
        let mut r = busbar_wire::Reader::new(&found.packed);
        assert_eq!(r.u32().unwrap(), 2);
        assert!(r.str().unwrap().ends_with("/a.h"));
        r.bytes().unwrap();
        assert!(r.str().unwrap().ends_with("sub/b.h"));
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn options_without_folders_stay_as_they_are() {
        let odd = "-D A=\"x y\"  -cl-fast-relaxed-math ";
        assert_eq!(collect(b"kernel void k() {}", odd).options, odd);
        assert!(collect(b"kernel void k() {}", odd).packed.is_empty());
    }
}
