//! Headers that a program's source includes lie on the client: those that can be found travel with
//! the build, under the paths that they have here, and the include options are left for the worker
//! to set below the folder that it puts them in. So are macros whose values are folders of headers
//! that are included by their whole paths.

use super::macros::Macros;
use busbar_wire::{FOLDER, Writer};
use std::collections::{BTreeMap, BTreeSet};
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
    let here = std::env::current_dir().unwrap_or_default();
    let mut scan = Scan::new(options);
    scan.file(source, &here);
    let files = scan.files;
    // Compilers look where the program is, too.
    let mut options = options.to_string();
    if scan.here {
        options.push_str(" -I .");
    }
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
        options: absolute(&movable(&options, &scan.whole), &here),
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

/// What an option as `-I` at `i` says, and how many words say so.
fn option_at<'a>(words: &'a [String], i: usize, option: &str) -> Option<(&'a str, usize)> {
    match words[i].strip_prefix(option)? {
        "" => Some((words.get(i + 1)?, 2)),
        value => Some((value, 1)),
    }
}

/// The folder that `-I` at `i` names, and how many words say so.
fn dir_at(words: &[String], i: usize) -> Option<(&str, usize)> {
    option_at(words, i, "-I").map(|(dir, n)| (dir.trim_matches('"'), n))
}

/// What `-D` defines, each time.
fn definitions(words: &[String]) -> impl Iterator<Item = &str> {
    (0..words.len()).filter_map(|i| Some(option_at(words, i, "-D")?.0))
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

/// The options, with a mark before the value of each macro that is a folder of one of these files.
fn movable(options: &str, whole: &BTreeSet<PathBuf>) -> String {
    let words = words(options);
    let mut out = options.to_string();
    for text in definitions(&words) {
        let Some((name, value)) = text.split_once('=') else {
            continue;
        };
        let value = value.trim_matches(['"', '\\']);
        let folder = Path::new(value);
        if folder.is_absolute() && whole.iter().any(|file| file.starts_with(folder)) {
            let before = text.find(value).unwrap_or(name.len() + 1);
            let marked = format!("{}{FOLDER}{}", &text[..before], &text[before..]);
            out = out.replacen(text, &marked, 1);
        }
    }
    out
}

/// A search for headers.
struct Scan {
    dirs: Vec<PathBuf>,
    macros: Macros,
    files: BTreeMap<String, Vec<u8>>,
    /// Those of them that were included by their whole path, put together by a macro.
    whole: BTreeSet<PathBuf>,
    /// Whether some were found where the program is.
    here: bool,
    total: usize,
}

/// The file that a directive names, as `"name"` or `<name>`; and whether it may be near.
fn named(text: &str) -> Option<(&str, bool)> {
    let close = match text.chars().next()? {
        '"' => '"',
        '<' => '>',
        _ => return None,
    };
    let name = text[1..].split_once(close)?.0;
    Some((name, close == '"'))
}

impl Scan {
    fn new(options: &str) -> Self {
        let words = words(options);
        let mut macros = Macros::default();
        for text in definitions(&words) {
            // The whole may be in quotes, or what stands for the name.
            let bare = text.strip_prefix('"').map(|t| t.trim_end_matches('"'));
            macros.option(bare.unwrap_or(text));
        }
        Self {
            dirs: include_dirs(options),
            macros,
            files: BTreeMap::new(),
            whole: BTreeSet::new(),
            here: false,
            total: 0,
        }
    }

    /// Looks through a file that lies in this folder.
    fn file(&mut self, source: &[u8], folder: &Path) {
        for line in source.split(|b| *b == b'\n') {
            let Some(line) = line.trim_ascii().strip_prefix(b"#") else {
                continue;
            };
            // What stands behind a name, in whatever encoding, is none of its business.
            let line = String::from_utf8_lossy(line.trim_ascii_start());
            if let Some(text) = line.strip_prefix("define") {
                self.macros.define(text);
            } else if let Some(text) = line.strip_prefix("include") {
                let text = text.trim();
                if let Some((name, near)) = named(text) {
                    self.include(name, near.then_some(folder), false);
                    continue;
                }
                for text in self.macros.expand(text) {
                    if let Some((name, near)) = named(&text) {
                        self.include(name, near.then_some(folder), true);
                    }
                }
            }
        }
    }

    /// Takes a header, and what it includes.
    fn include(&mut self, name: &str, near: Option<&Path>, made: bool) {
        let here = self.dirs.last().cloned().unwrap_or_default();
        let folders = near
            .into_iter()
            .chain(self.dirs.iter().map(PathBuf::as_path));
        let places: Vec<_> = folders.map(|d| (d == here, d.join(name))).collect();
        for (is_here, path) in places {
            let key = path.to_string_lossy().into_owned();
            let known = self.files.contains_key(&key);
            // Many files include the same ones.
            let contents = if known {
                Ok(Vec::new())
            } else {
                std::fs::read(&path)
            };
            let Ok(contents) = contents else {
                continue;
            };
            self.here |= is_here && Path::new(name).is_relative();
            if made && Path::new(name).is_absolute() {
                self.whole.insert(path.clone());
            }
            if known {
                return;
            }
            self.total += contents.len();
            if self.total > MOST {
                return;
            }
            self.files.insert(key, contents.clone());
            let folder = path.parent().unwrap_or(Path::new("/"));
            self.file(&contents, folder);
            return;
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
    fn headers_that_macros_name_are_found_and_their_folder_can_be_another() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().display().to_string();
        let latin = b"#include S(DIR/b.h) // caf\xe9\n";
        std::fs::write(dir.path().join("a.h"), latin).unwrap();
        std::fs::write(dir.path().join("b.h"), "int b;\n").unwrap();
        let source = b"#define QUOTED(x) #x\n#include S(DIR/a.h)\n#include S(DIR/none.h)\n";
        let macros = "-D S(x)=QUOTED(x) -DOTHER=/usr -DNAME";
        for given in [format!("-D DIR={folder}"), format!("-DDIR={folder}/")] {
            let found = collect(source, &format!("{given} {macros}"));
            let marked = given.replace("=/", &format!("={FOLDER}/"));
            assert_eq!(found.options, format!("{marked} {macros}"));
            let mut r = busbar_wire::Reader::new(&found.packed);
            assert_eq!(r.u32().unwrap(), 2);
            assert!(r.str().unwrap().ends_with("/a.h"));
        }
    }

    #[test]
    fn options_without_folders_stay_as_they_are() {
        let odd = "-D A=\"x y\"  -cl-fast-relaxed-math ";
        assert_eq!(collect(b"kernel void k() {}", odd).options, odd);
        assert!(collect(b"kernel void k() {}", odd).packed.is_empty());
    }
}
