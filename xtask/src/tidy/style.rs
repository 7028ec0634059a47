//! What a line and a file may look like.

use super::repo::{File, Repo};

const LINE: usize = 100;
const FILE: usize = 800;
/// Tables of facts, which only get harder to read in pieces.
const LONG_FILES: [&str; 1] = ["spec/cuda/abi/structs.rs"];
/// What is left in a file when it is not done.
const UNFINISHED: [&str; 6] = [
    concat!("to", "do!("),
    concat!("unimpl", "emented!("),
    concat!("db", "g!("),
    concat!("FIX", "ME"),
    concat!("XX", "X:"),
    concat!("TO", "DO"),
];
/// The beginnings of paths that exist on one machine only.
const PLACES: [&str; 4] = [
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/wo", "rk/"),
    concat!("/Us", "ers/"),
];

pub fn check(repo: &Repo) -> Vec<String> {
    repo.files.iter().flat_map(file).collect()
}

fn file(f: &File) -> Vec<String> {
    let mut found = Vec::new();
    if f.path == "LICENSE" || f.path == "Cargo.lock" || f.has_extension(&["json", "svg", "txt"]) {
        return found;
    }
    let mut say = |line: usize, what: &str| found.push(format!("{}:{line}: {what}", f.path));
    let wide = may_be_wide(f);
    let mut fenced = false;
    for (n, line) in f.lines() {
        fenced ^= line.trim_start().starts_with("```");
        let table = f.has_extension(&["md"]) && line.starts_with('|');
        let address = line.contains("http") && !line.trim().contains(' ');
        if !wide && !table && !address && line.chars().count() > LINE {
            say(
                n,
                &format!("{} columns; {LINE} is the most", line.chars().count()),
            );
        }
        if line.ends_with([' ', '\t']) {
            say(n, "white space at the end");
        }
        if line.contains('\r') {
            say(n, "a carriage return");
        }
        if UNFINISHED.iter().any(|w| line.contains(w)) {
            say(n, "something is left to do here");
        }
        if PLACES.iter().any(|w| names_place(line, w)) {
            say(n, "a path of somebody's machine");
        }
    }
    let lines = f.text.lines().count();
    if fenced && f.has_extension(&["md"]) {
        say(lines, "a code block does not end");
    }
    if !f.text.is_empty() && !f.text.ends_with('\n') {
        say(lines, "no newline at the end");
    }
    let code = f.has_extension(&["rs", "py", "c", "cu", "sh"]);
    if code && !f.is_generated() && lines > FILE && !LONG_FILES.contains(&f.path.as_str()) {
        say(
            lines,
            &format!("{lines} lines; {FILE} is the most: split it"),
        );
    }
    if f.is_rust_code() && !f.is_generated() && !f.text.starts_with("//!") {
        say(1, "no `//!` on line 1 that says what this is for");
    }
    if f.has_extension(&["py"]) && f.path.starts_with("testing/") && !has_docstring(&f.text) {
        say(1, "no docstring at the top that says what this is for");
    }
    found
}

/// Generated text, and the lines of the spec: one function each, however long.
fn may_be_wide(f: &File) -> bool {
    let spec = f.path.starts_with("spec/") && f.has_extension(&["rs"]);
    f.is_generated() || spec || f.path.contains("/toy/")
}

/// Whether `line` names a path that begins with `place`, and does not only have it in a longer one.
fn names_place(line: &str, place: &str) -> bool {
    line.match_indices(place).any(|(i, _)| {
        let before = line[..i].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-/}".contains(c))
    })
}

fn has_docstring(text: &str) -> bool {
    let first = text
        .lines()
        .find(|l| !l.starts_with('#') && !l.trim().is_empty());
    first.is_some_and(|l| l.starts_with("\"\"\"") || l.starts_with("r\"\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        file(&File {
            path: path.into(),
            text: text.into(),
        })
        .len()
    }

    #[test]
    fn each_habit_is_checked() {
        let long = "x".repeat(LINE + 1);
        assert_eq!(found("a.md", "fine\n"), 0);
        assert_eq!(found("a.md", &format!("{long}\n")), 1);
        assert_eq!(found("a.md", &format!("|{long}\n")), 0);
        assert_eq!(found("a.md", "space \n"), 1);
        assert_eq!(found("a.md", "no end"), 1);
        assert_eq!(found("a.md", "```\nopen\n"), 1);
        assert_eq!(found("a.rs", "fn a() {}\n"), 1);
        assert_eq!(found("a.rs", &format!("//! A.\n{}\n", UNFINISHED[0])), 1);
        assert_eq!(found("a.rs", &format!("//! A.\n// {}me\n", PLACES[0])), 1);
        assert_eq!(found("a.rs", &format!("//! A.\n// $x{}me\n", PLACES[0])), 0);
        assert_eq!(found("a.rs", &format!("//! A.\n{}", "\n".repeat(FILE))), 1);
        assert_eq!(found("spec/a.rs", &format!("// {long}\n")), 0);
    }
}
