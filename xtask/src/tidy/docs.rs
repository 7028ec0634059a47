//! What the documents say of the tree: links, variables, flags, records.

use super::repo::{File, Repo};
use std::collections::BTreeSet;

/// The page that explains every flag and variable.
const REFERENCE: &str = "docs/reference.md";

pub fn check(repo: &Repo) -> Vec<String> {
    let mut found = Vec::new();
    for f in repo.files.iter().filter(|f| f.has_extension(&["md"])) {
        found.extend(links(repo, f));
    }
    found.extend(variables(repo));
    found.extend(records(repo));
    found
}

/// Links to files and headings that are not there.
fn links(repo: &Repo, f: &File) -> Vec<String> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (n, line) in f.lines() {
        fenced ^= line.trim_start().starts_with("```");
        if fenced {
            continue;
        }
        for rest in line.split("](").skip(1) {
            let target = rest.split(')').next().unwrap_or_default();
            if target.contains("://") || target.contains(' ') {
                continue;
            }
            let (path, heading) = target.split_once('#').unwrap_or((target, ""));
            let folder = f.path.rfind('/').map_or("", |i| &f.path[..i]);
            let file = match path {
                "" => repo.root.join(&f.path),
                _ => repo.root.join(folder).join(path),
            };
            let text = std::fs::read_to_string(&file);
            let missing = text
                .as_ref()
                .is_ok_and(|t| !heading.is_empty() && !has(t, heading));
            if !file.exists() || missing {
                found.push(format!("{}:{n}: nothing is at {target}", f.path));
            }
        }
    }
    found
}

/// Whether a page has this heading, written as links write it.
fn has(page: &str, heading: &str) -> bool {
    let as_link = |title: &str| -> String {
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        let lower = title.trim_start_matches('#').trim().to_lowercase();
        lower
            .chars()
            .filter(kept)
            .collect::<String>()
            .replace(' ', "-")
    };
    page.lines()
        .any(|l| l.starts_with('#') && as_link(l) == heading)
}

/// Environment variables that the code reads and the reference does not explain, and the reverse.
fn variables(repo: &Repo) -> Vec<String> {
    let names = |f: &File| -> BTreeSet<String> {
        let name = |c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
        let words = f.text.split(name);
        words
            .filter(|w| w.len() > 7 && w.starts_with("BUSBAR_"))
            .map(Into::into)
            .collect()
    };
    let Some(page) = repo.files.iter().find(|f| f.path == REFERENCE) else {
        return vec![format!("{REFERENCE}:1: is missing")];
    };
    let explained = names(page);
    let mut used = BTreeSet::new();
    let mut found = Vec::new();
    for f in &repo.files {
        if f.is_rust_code() || f.has_extension(&["py", "sh"]) || f.path == "test" {
            for name in names(f) {
                if !explained.contains(&name) && used.insert(name.clone()) {
                    found.push(format!("{}:1: {REFERENCE} does not explain {name}", f.path));
                }
                used.insert(name);
            }
        }
    }
    let unused = explained.difference(&used);
    found.extend(unused.map(|name| format!("{REFERENCE}:1: nothing reads {name}")));
    found
}

/// Records of decisions: numbered without a gap, each with what a record has.
fn records(repo: &Repo) -> Vec<String> {
    let mut found = Vec::new();
    let records = repo
        .files
        .iter()
        .filter(|f| f.path.starts_with("docs/adr/"));
    for (i, f) in records.enumerate() {
        let number = format!("{:04}-", i + 1);
        if !f.path["docs/adr/".len()..].starts_with(&number) {
            found.push(format!("{}:1: its number should be {number}", f.path));
        }
        if !f.text.contains("Status:") {
            found.push(format!("{}:1: a record has a line `Status:`", f.path));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::has;

    #[test]
    fn headings_are_found_as_links_name_them() {
        assert!(has("# The link's end\n", "the-links-end"));
        assert!(!has("text\n", "text"));
    }
}
