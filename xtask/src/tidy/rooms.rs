//! Who may use whom inside a crate: no circles of modules, the layers that `layers.toml` declares,
//! and as many `static` items as it says.
//!
//! A module is a file, or a module written inside another; the tests and `generated/` are left
//! out. A module uses another if a path in it leads to an item of that one: through re-exports, to
//! where the item is defined; also if the path stands in a macro, and if a method is called that
//! only that module gives to the type of another. The rule holds for parents as for all others: a
//! child that uses an item of its parent's file uses the parent, and if the parent uses the child,
//! they are a circle. A file that only declares modules and hands names on is left out.

use super::modules::Crate;
use super::paths::Paths;
use super::repo::{Repo, ours};
use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const TABLE: &str = "xtask/layers.toml";

/// `layers.toml`, which explains itself.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Table {
    #[serde(default)]
    layers: Vec<Layers>,
    #[serde(default)]
    circles: Vec<Known>,
    #[serde(default)]
    statics: Vec<Statics>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Layers {
    tree: String,
    order: Vec<Vec<String>>,
    why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Known {
    tree: String,
    modules: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Statics {
    tree: String,
    #[serde(default)]
    state: usize,
    #[serde(default)]
    tables: usize,
    why: String,
}

/// Checks every crate that cargo knows.
pub fn check(repo: &Repo, packages: &[Value]) -> Result<Vec<String>> {
    check_crates(repo, &table(repo)?, &crates(repo, packages)?)
}

/// Each circle with what makes it one: for each pair of its modules what the one uses of the
/// other. Only of the modules whose path begins with `tree`.
pub fn circles(repo: &Repo, packages: &[Value], tree: &str) -> Result<Vec<String>> {
    let mut said = Vec::new();
    for krate in crates(repo, packages)? {
        let paths = Paths::of(&krate);
        let path = |m: usize| &krate.modules[m].path;
        for circle in circles_of(&paths) {
            if !circle.iter().any(|m| is_in(path(*m), tree)) {
                continue;
            }
            said.push(format!("circle of {} modules", circle.len()));
            for ((from, to), names) in &paths.edges {
                if circle.contains(from) && circle.contains(to) {
                    let names: Vec<_> = names.iter().map(|(n, l)| format!("{n}:{l}")).collect();
                    said.push(format!(
                        "{} -> {}: {}",
                        path(*from),
                        path(*to),
                        names.join(" ")
                    ));
                }
            }
        }
    }
    Ok(said)
}

fn table(repo: &Repo) -> Result<Table> {
    let file = repo.files.iter().find(|f| f.path == TABLE);
    let text = &file.with_context(|| format!("{TABLE} is missing"))?.text;
    toml::from_str(text).with_context(|| TABLE.to_string())
}

/// What of each package is linked into something that is not a test.
fn crates(repo: &Repo, packages: &[Value]) -> Result<Vec<Crate>> {
    let root = format!("{}/", repo.root.display());
    let mut crates = Vec::new();
    for target in ours(packages)
        .flat_map(|p| p["targets"].as_array())
        .flatten()
    {
        let kinds = target["kind"].as_array().into_iter().flatten();
        let mut kinds = kinds.filter_map(Value::as_str);
        if kinds.any(|k| ["lib", "rlib", "cdylib", "bin"].contains(&k)) {
            let path = target["src_path"].as_str().unwrap_or_default();
            let path = path.strip_prefix(&root).context("a package is elsewhere")?;
            crates.push(Crate::read(repo, path)?);
        }
    }
    Ok(crates)
}

fn check_crates(repo: &Repo, table: &Table, crates: &[Crate]) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut say = |what: String| found.push(format!("{TABLE}:1: {what}"));
    for (tree, why) in table.layers.iter().map(|l| (&l.tree, &l.why)) {
        if why.is_empty() {
            say(format!("the layers of {tree} have no reason"));
        }
    }
    let trees = table.layers.iter().map(|l| &l.tree);
    let trees = trees.chain(table.circles.iter().map(|k| &k.tree));
    for tree in trees.chain(table.statics.iter().map(|s| &s.tree)) {
        if !repo.code().any(|f| is_in(&f.path, tree)) {
            say(format!("nothing is at {tree}"));
        }
    }
    let mut in_circles = Vec::new();
    let mut statics = Vec::new();
    for krate in crates {
        let paths = Paths::of(krate);
        let path = |m: usize| krate.modules[m].path.as_str();
        for circle in circles_of(&paths) {
            let members: Vec<_> = circle.into_iter().map(path).map(String::from).collect();
            in_circles.push(members);
        }
        for layers in &table.layers {
            found.extend(upwards(krate, &paths, layers));
        }
        for (kind, of) in [&paths.state, &paths.tables].into_iter().enumerate() {
            for (module, lines) in of {
                statics.extend(lines.iter().map(|l| (kind, path(*module).to_string(), *l)));
            }
        }
    }
    found.extend(compare_circles(&table.circles, &in_circles));
    found.extend(compare_statics(&table.statics, &statics));
    Ok(found)
}

/// Uses of a higher layer by a lower one, and modules that are in none.
fn upwards(krate: &Crate, paths: &Paths, layers: &Layers) -> Vec<String> {
    let tree = &layers.tree;
    // The name under the tree, whatever is below that name.
    let room = |module: usize| {
        let path = &krate.modules[module].path;
        let name = path.strip_prefix(tree.as_str())?.strip_prefix('/')?;
        let end = name.find(['/', '.', ':']).unwrap_or(name.len());
        Some(&name[..end])
    };
    let layer = |room: &str| {
        layers
            .order
            .iter()
            .position(|l| l.iter().any(|n| n == room))
    };
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for (module, m) in krate.modules.iter().enumerate() {
        let Some(room) = room(module).filter(|_| krate.has_items(module)) else {
            continue;
        };
        if seen.insert(room) && layer(room).is_none() {
            found.push(format!(
                "{}:1: {TABLE} says no layer of {tree} for {room}",
                m.path
            ));
        }
    }
    let is_of_this = krate.modules.first().is_some_and(|m| is_in(&m.path, tree))
        || (0..krate.modules.len()).any(|m| room(m).is_some());
    for name in layers.order.iter().flatten() {
        if is_of_this && !(0..krate.modules.len()).any(|m| room(m) == Some(name)) {
            found.push(format!("{TABLE}:1: {tree} has no module {name}"));
        }
    }
    for ((from, to), names) in &paths.edges {
        let (Some(user), Some(used)) = (room(*from), room(*to)) else {
            continue;
        };
        if let (Some(above), Some(below)) = (layer(user), layer(used))
            && above > below
        {
            for (name, line) in names {
                let path = &krate.modules[*from].path;
                found.push(format!(
                    "{path}:{line}: {user} is below {used} but uses its {name}"
                ));
            }
        }
    }
    found
}

/// Circles that nobody knows of, and known ones that became smaller.
fn compare_circles(known: &[Known], circles: &[Vec<String>]) -> Vec<String> {
    let mut found = Vec::new();
    let mut counted: BTreeMap<&str, usize> = BTreeMap::new();
    for circle in circles {
        let tree = innermost(known.iter().map(|k| k.tree.as_str()), &circle[0]);
        if let Some(tree) = tree {
            *counted.entry(tree).or_default() += circle.len();
        } else {
            found.push(format!(
                "{}:1: a circle of {} modules: {}; `cargo xtask circles {}` says what makes it one",
                circle[0],
                circle.len(),
                circle.join(", "),
                circle[0],
            ));
        }
    }
    for Known { tree, modules } in known {
        let now = counted.get(tree.as_str()).copied().unwrap_or(0);
        let wrong = match now {
            0 => format!("no circles are left in {tree}: remove the line"),
            n if n < *modules => format!("{n} modules of {tree} are in circles: lower the number"),
            n if n > *modules => format!(
                "{n} modules of {tree} are in circles, {modules} were: `cargo xtask circles {tree}`"
            ),
            _ => continue,
        };
        found.push(format!("{TABLE}:1: {wrong}"));
    }
    found
}

/// Trees that have more `static` items than the table says, or fewer.
fn compare_statics(bounds: &[Statics], statics: &[(usize, String, usize)]) -> Vec<String> {
    let mut found = Vec::new();
    let mut counted: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    for (kind, path, line) in statics {
        match innermost(bounds.iter().map(|b| b.tree.as_str()), path) {
            Some(tree) => counted.entry(tree).or_default()[*kind] += 1,
            None => found.push(format!(
                "{path}:{line}: a `static` where {TABLE} says nothing of any"
            )),
        }
    }
    for bound in bounds {
        let tree = &bound.tree;
        let now = counted.get(tree.as_str()).copied().unwrap_or_default();
        for (now, most, name) in [
            (now[0], bound.state, "static items that change"),
            (now[1], bound.tables, "constant tables"),
        ] {
            if now > most {
                found.push(format!(
                    "{TABLE}:1: {tree} has {now} {name}; {most} is the most"
                ));
            } else if now < most {
                found.push(format!(
                    "{TABLE}:1: {tree} has {now} {name}: lower the number"
                ));
            }
        }
        if bound.why.is_empty() {
            found.push(format!(
                "{TABLE}:1: the static items of {tree} have no reason"
            ));
        }
    }
    found
}

fn innermost<'a>(trees: impl Iterator<Item = &'a str>, path: &str) -> Option<&'a str> {
    trees.filter(|t| is_in(path, t)).max_by_key(|t| t.len())
}

/// Whether a module's path is `tree`, the file `tree.rs`, or below one of them.
fn is_in(path: &str, tree: &str) -> bool {
    let rest = path.strip_prefix(tree);
    rest.is_some_and(|r| r.is_empty() || r.starts_with(['/', ':']) || r.starts_with(".rs"))
}

/// The sets of modules of which each uses each other one, if only through others.
fn circles_of(paths: &Paths) -> Vec<BTreeSet<usize>> {
    let mut uses: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut used_by = uses.clone();
    for (from, to) in paths.edges.keys() {
        uses.entry(*from).or_default().push(*to);
        used_by.entry(*to).or_default().push(*from);
    }
    let reach = |edges: &BTreeMap<usize, Vec<usize>>, from| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(at) = next.pop() {
            for to in edges.get(&at).into_iter().flatten() {
                if seen.insert(*to) {
                    next.push(*to);
                }
            }
        }
        seen
    };
    let mut circles = Vec::new();
    let mut done: BTreeSet<usize> = BTreeSet::new();
    for &module in uses.keys() {
        if !done.contains(&module) {
            let circle = &reach(&uses, module) & &reach(&used_by, module);
            done.extend(&circle);
            if !circle.is_empty() {
                circles.push(circle);
            }
        }
    }
    circles
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::repo::File;

    /// A crate whose root declares each of `files` and has `root` beside.
    fn repo(root: &str, files: &[(&str, &str)]) -> Repo {
        let names = files.iter().filter(|(name, _)| !name.contains('/'));
        let declared: String = names.map(|(name, _)| format!("mod {name};\n")).collect();
        let file = |path: &str, text: String| File {
            path: format!("a/src/{path}.rs"),
            text,
        };
        let mut made = vec![file("lib", declared + root)];
        made.extend(files.iter().map(|(name, text)| file(name, (*text).into())));
        Repo {
            root: "/".into(),
            files: made,
        }
    }

    fn check(repo: &Repo, table: &str) -> Vec<String> {
        let table = toml::from_str(table).unwrap();
        let krate = Crate::read(repo, "a/src/lib.rs").unwrap();
        check_crates(repo, &table, &[krate]).unwrap()
    }

    /// The circles of a crate, each module by its name.
    fn circles(root: &str, files: &[(&str, &str)]) -> Vec<String> {
        let krate = Crate::read(&repo(root, files), "a/src/lib.rs").unwrap();
        let name = |m: &usize| {
            let path = krate.modules[*m].path.trim_start_matches("a/src/");
            path.replace(".rs", "")
        };
        let circles = circles_of(&Paths::of(&krate));
        let said = circles
            .iter()
            .map(|c| c.iter().map(name).collect::<Vec<_>>().join(" "));
        said.collect()
    }

    #[test]
    fn whatever_names_an_item_is_a_use() {
        let uses = [
            "use crate::b::B;",
            "use super::b::{self as c, B};",
            "use crate::*; fn a() { b::b() }",
            "use crate::b; fn a() { b::b() }",
            "use crate::b::*; fn a() { b() }",
            "fn a(_: &[Option<super::b::B>]) {}",
            "fn a() -> impl Fn(crate::b::B) { |_| {} }",
            "fn a() { use crate::b as c; c::b() }",
            "fn a() { if let crate::b::B = x {} }",
            "fn a() { print!(\"{}\", crate::b::b()) }",
            "use crate::b; fn a() { print!(\"{}\", [b::b()]) }",
            "macro_rules! m { () => { $crate::b::b() } }",
            "use crate::facade; fn a() { facade::b() }",
            "impl crate::b::T for u8 {}",
            "pub use super::b::*;",
            "pub use super::b::B;",
            "fn a(x: crate::ground::G) { x.of_b() }",
            "pub(super) fn a() { made!() }",
        ];
        let b = "use crate::a::of_a; pub struct B; pub fn b() {} pub trait T {}
            impl crate::ground::G { fn of_b(&self) {} } macro_rules! made { () => {} }";
        for a in uses {
            let a = format!("{a} fn of_a() {{}}");
            let files = [
                ("a", a.as_str()),
                ("b", b),
                ("facade", "pub use crate::b::b;"),
                ("ground", "pub struct G;"),
            ];
            assert_eq!(circles("", &files), ["a b"], "{a}");
        }
    }

    #[test]
    fn what_only_looks_like_a_use_is_none() {
        let none = [
            "#[cfg(test)] mod tests { use crate::b::B; }",
            "#[cfg(all(test, unix))] fn a() { crate::b::b() }",
            "#[test] fn a() { crate::b::b() }",
            "#[doc = \"crate::b::b()\"] fn a() { \"crate::b::b()\"; }",
            "use crate::b::*; fn a(b: u8) -> u8 { b }",
            "fn a() { x.b() }",
            "fn a() { x.of_b() }",
            "fn a(_: super::c::C) { x.push() }",
            "use crate::b::generated::b;",
            "use other::b::B;",
            "pub(in crate::b) fn a() {}",
            "use super::c::b; fn a() { b() }",
        ];
        for a in none {
            let a = format!("{a} fn of_a() {{}}");
            let files = [
                ("a", a.as_str()),
                (
                    "b",
                    "use crate::a::of_a; impl super::c::C { fn of_b(&self) {} fn push(&self) {} }
                    pub fn b() {} mod generated;",
                ),
                ("b/generated/mod", "pub fn b() {}"),
                ("c", "pub fn b() {} pub struct C;"),
            ];
            assert!(circles("", &files).is_empty(), "{a}");
        }
    }

    #[test]
    fn a_parent_with_items_is_a_module_like_any_other() {
        let child = ("a", "use super::R; pub fn a() {}");
        assert_eq!(circles("struct R; fn r() { a::a() }", &[child]), ["lib a"]);
        assert!(circles("struct R;", &[child]).is_empty());
        assert!(circles("struct R; pub use a::a;", &[child]).is_empty());
        assert!(circles("fn r() { a::a() }", &[("a", "pub fn a() {}")]).is_empty());
        let inside = "struct R; fn r() { i::f() } mod i { use super::R; pub fn f() {} }";
        assert_eq!(circles(inside, &[]), ["lib lib::i"]);
        let folder = [
            ("a/mod", "pub mod b; pub mod c;"),
            ("a/b", "use crate::R; pub fn a() {}"),
            ("a/c", ""),
        ];
        assert!(circles("mod a; struct R;", &folder).is_empty());
        assert_eq!(
            circles("mod a; const R: u8 = a::b::a();", &folder),
            ["lib a/b"]
        );
    }

    #[test]
    fn circles_may_only_become_smaller() {
        let made = repo(
            "",
            &[
                ("a", "use crate::b::B; fn a() {}"),
                ("b", "use crate::a::a; struct B;"),
            ],
        );
        let known = |n: usize| format!("[[circles]]\ntree = \"a/src\"\nmodules = {n}\n");
        let found = |table: &str| check(&made, table).join("; ");
        assert!(
            found("").starts_with("a/src/a.rs:1: a circle of 2 modules: a/src/a.rs, a/src/b.rs;")
        );
        assert_eq!(found(&known(2)), "");
        assert!(found(&known(1)).contains("2 modules of a/src are in circles, 1 were"));
        assert!(found(&known(3)).contains("lower the number"));
        let gone = check(&repo("", &[("a", "")]), &known(2));
        assert!(gone[0].contains("no circles are left in a/src"));
        let elsewhere = "[[circles]]\ntree = \"b\"\nmodules = 2";
        assert!(found(elsewhere).contains("nothing is at b"));
    }

    #[test]
    fn a_lower_layer_does_not_use_a_higher_one() {
        let files = [
            ("entry", "use crate::state::State; pub fn entry() {}"),
            ("state", "pub struct State;"),
            ("state/deep", "fn deep() { crate::entry::entry() }"),
        ];
        let table = |order: &str| format!("[[layers]]\ntree=\"a/src\"\norder={order}\nwhy=\"x\"");
        let made = |deep| {
            let mut files = files;
            files[1].1 = deep;
            repo("pub fn root() { entry::entry() }", &files)
        };
        let good = made("pub struct State;");
        let bad = made("pub struct State; mod deep;");
        let all = table("[[\"lib\"], [\"entry\"], [\"state\"]]");
        assert!(check(&good, &all).is_empty());
        assert_eq!(
            check(&bad, &all),
            ["a/src/state/deep.rs:1: state is below entry but uses its entry"]
        );
        let one = table("[[\"lib\"], [\"entry\", \"state\"]]");
        assert!(check(&bad, &one).is_empty());
        let found = check(&good, &table("[[\"lib\", \"gone\"], [\"entry\"]]")).join("; ");
        assert!(found.contains("no layer of a/src for state"), "{found}");
        assert!(found.contains("a/src has no module gone"), "{found}");
        let reason = all.replace("\"x\"", "\"\"");
        assert!(check(&good, &reason)[0].contains("have no reason"));
    }

    #[test]
    fn statics_are_counted() {
        let text = "static A: Mutex<u8> = x; fn f() { static B: Once = x; }
            static T: &[(fn(u8), Entry)] = &[]; struct Entry { name: &'static str }
            static mut M: u8 = 0; thread_local! { static L: u8 = 0; }
            macro_rules! m { () => { static N: &'static u8 = &0; } }
            extern { static environ: *const u8; }
            #[cfg(test)] static C: Once = x;";
        let made = repo("", &[("a", text)]);
        let bound = |state: usize, tables: usize| {
            let tree = "[[statics]]\ntree=\"a/src\"\nwhy=\"x\"\n";
            check(&made, &format!("{tree}state={state}\ntables={tables}")).join("; ")
        };
        assert_eq!(bound(4, 1), "");
        assert!(bound(3, 1).contains("4 static items that change; 3 is the most"));
        assert!(bound(5, 1).contains("lower the number"));
        assert!(bound(4, 0).contains("1 constant tables; 0 is the most"));
        assert_eq!(check(&made, "").len(), 5);
    }
}
