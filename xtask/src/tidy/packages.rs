//! Packages of others: their licences, in how many versions they are here, and where they come
//! from. `deny.toml` says what may be; `cargo deny` reads it, too.

use super::repo::Repo;
use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const TABLE: &str = "deny.toml";

/// Of `deny.toml` what is checked here.
#[derive(Deserialize)]
struct Table {
    licenses: Licences,
    bans: Bans,
}

#[derive(Deserialize)]
struct Licences {
    allow: Vec<String>,
}

#[derive(Deserialize)]
struct Bans {
    skip: Vec<Skipped>,
}

#[derive(Deserialize)]
struct Skipped {
    #[serde(rename = "crate")]
    package: String,
    reason: String,
}

pub fn check(repo: &Repo, packages: &[Value]) -> Result<Vec<String>> {
    let file = repo.files.iter().find(|f| f.path == TABLE);
    let text = &file.with_context(|| format!("{TABLE} is missing"))?.text;
    let table: Table = toml::from_str(text).with_context(|| TABLE.to_string())?;
    Ok(found(&table, packages))
}

fn found(table: &Table, packages: &[Value]) -> Vec<String> {
    let mut found = Vec::new();
    let mut used = BTreeSet::new();
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for p in packages.iter().filter(|p| !p["source"].is_null()) {
        let text = |field: &str| p[field].as_str().unwrap_or_default();
        let (name, version) = (text("name"), text("version"));
        versions.entry(name).or_default().push(version);
        let allowed = &table.licenses.allow;
        if !permits(text("license"), allowed, &mut used) {
            let licence = text("license");
            found.push(format!("{TABLE}:1: {name} {version} is under {licence:?}"));
        }
        if !text("source").starts_with("registry+") {
            found.push(format!(
                "Cargo.toml:1: {name} comes from {}",
                text("source")
            ));
        }
    }
    for licence in table.licenses.allow.iter().filter(|l| !used.contains(*l)) {
        found.push(format!("{TABLE}:1: nothing here needs {licence}"));
    }
    let mut skip = Vec::new();
    for s in &table.bans.skip {
        let (name, version) = s.package.split_once('@').unwrap_or((&s.package, ""));
        let there = versions
            .get(name)
            .is_some_and(|v| v.len() > 1 && v.contains(&version));
        if !there || s.reason.is_empty() {
            let wrong = if there {
                "has no reason"
            } else {
                "is not one of several versions"
            };
            found.push(format!("{TABLE}:1: {} {wrong}", s.package));
        }
        skip.push((name, version));
    }
    for (name, mut versions) in versions {
        versions.retain(|v| !skip.contains(&(name, v)));
        if versions.len() > 1 {
            found.push(format!(
                "Cargo.lock:1: {name} is here as {}",
                versions.join(" and ")
            ));
        }
    }
    found
}

/// Whether an expression of licences can be met with those that are allowed; notes which of them
/// that takes.
fn permits(expression: &str, allowed: &[String], used: &mut BTreeSet<String>) -> bool {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let words: Vec<_> = spaced.split_whitespace().collect();
    let mut at = 0;
    let needed = either(&words, &mut at, allowed);
    let needed = needed.filter(|_| at == words.len() && at > 0);
    used.extend(needed.iter().flatten().cloned());
    needed.is_some()
}

/// `A OR B`: the licences that the first alternative takes that can be met.
fn either(words: &[&str], at: &mut usize, allowed: &[String]) -> Option<Vec<String>> {
    let mut best = both(words, at, allowed);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        let next = both(words, at, allowed);
        best = best.or(next);
    }
    best
}

/// `A AND B`.
fn both(words: &[&str], at: &mut usize, allowed: &[String]) -> Option<Vec<String>> {
    let mut all = one(words, at, allowed);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        let next = one(words, at, allowed);
        all = all.zip(next).map(|(a, b)| [a, b].concat());
    }
    all
}

/// A licence, with its exception where it has one, or an expression in parentheses.
fn one(words: &[&str], at: &mut usize, allowed: &[String]) -> Option<Vec<String>> {
    let word = *words.get(*at)?;
    *at += 1;
    if word == "(" {
        let inner = either(words, at, allowed);
        *at += 1;
        return inner;
    }
    let mut name = word.to_string();
    if words.get(*at) == Some(&"WITH") {
        name += &format!(" WITH {}", words.get(*at + 1)?);
        *at += 2;
    }
    allowed.contains(&name).then(|| vec![name])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn expressions_are_met_or_not() {
        let allowed = ["MIT", "Apache-2.0", "Unicode-3.0"].map(String::from);
        let met = |e| permits(e, &allowed, &mut BTreeSet::new());
        for e in [
            "MIT",
            "GPL-3.0 OR MIT",
            "MIT/GPL-3.0",
            "(MIT OR A) AND Unicode-3.0",
        ] {
            assert!(met(e), "{e}");
        }
        for e in [
            "",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "MIT WITH X",
            "(MIT",
            "A OR (MIT AND B)",
        ] {
            assert!(!met(e), "{e}");
        }
    }

    #[test]
    fn packages_that_may_not_be_here_are_found() {
        let package = |name: &str, version: &str, licence: &str, source: &str| -> Value {
            let source = format!("{source}+x");
            json!({
                "name": name,
                "version": version,
                "license": licence,
                "source": source,
            })
        };
        let found = |skip: &str, more: &[Value]| {
            let table = format!("licenses.allow = [\"MIT\"]\nbans.skip = [{skip}]");
            let all = [&[package("a", "1.0.0", "MIT", "registry")], more].concat();
            found(&toml::from_str(&table).unwrap(), &all)
        };
        let ours = json!({ "name": "b", "version": "1.0.0", "source": null });
        assert_eq!(found("", &[ours]), Vec::<String>::new());
        assert_eq!(
            found("", &[package("b", "1.0.0", "GPL-3.0", "registry")]).len(),
            1
        );
        assert_eq!(found("", &[package("b", "1.0.0", "MIT", "git")]).len(), 1);
        let twice = [package("a", "2.0.0", "MIT", "registry")];
        assert_eq!(
            found("", &twice),
            ["Cargo.lock:1: a is here as 1.0.0 and 2.0.0"]
        );
        let skip = "{ crate = \"a@1.0.0\", reason = \"b uses it\" }";
        assert_eq!(found(skip, &twice), Vec::<String>::new());
        assert_eq!(found(skip, &[]).len(), 1);
        assert_eq!(found(&skip.replace("b uses it", ""), &twice).len(), 1);
    }
}
