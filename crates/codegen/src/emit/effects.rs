//! What calls do to objects: a table in `crates/wire/src/generated`, and one for people.

use crate::file::{Files, put, rust};
use crate::model::{Api, At, Call};
use crate::spec::Act;
use std::fmt::Write as _;

/// The table of an API that has objects.
pub fn emit(api: &Api, files: &mut Files) {
    if api.config.kinds.is_empty() {
        return;
    }
    let mut s = String::from(
        "use super::{Kind, op};\nuse crate::effects::{Act, At, Effect};\n\nimpl Kind {\n",
    );
    let list = |kinds: &[String]| {
        let list: Vec<_> = kinds.iter().map(|k| format!("Self::{k}")).collect();
        format!("&[{}]", list.join(", "))
    };
    lookup(
        api,
        "/// The kinds of objects of which this may be a child: it dies with its parent.",
        "parents",
        &|k| list(&k.dies_with),
        &mut s,
    );
    lookup(
        api,
        "/// The kinds of objects that one of this keeps alive.",
        "keeps",
        &|k| list(&k.keeps),
        &mut s,
    );
    s.push_str("}\n\n/// What a call does to objects.\n");
    s.push_str("pub fn effects(op: u16) -> &'static [Effect<Kind>] {\nmatch op {\n");
    let mut calls: Vec<_> = api.calls().filter(|c| c.travels()).collect();
    calls.retain(|c| !c.effects.is_empty());
    calls.sort_by_key(|c| c.item.id);
    for c in &calls {
        let _ = writeln!(s, "op::{} => &[", c.op);
        for e in &c.effects {
            let of: Vec<_> =
                e.of.iter()
                    .map(|(k, a)| format!("(Kind::{k}, {})", at(a)))
                    .collect();
            let _ = writeln!(
                s,
                "Effect {{ act: {}, kind: Kind::{}, at: {}, of: &[{}] }},",
                act(&e.act),
                e.kind,
                at(&e.at),
                of.join(", ")
            );
        }
        s.push_str("],\n");
    }
    s.push_str("_ => &[],\n}\n}\n");
    put(
        files,
        format!("crates/wire/src/generated/{}/effects.rs", api.name),
        rust(
            &format!("What calls do to objects: {}.", api.config.name),
            &s,
        ),
    );
}

fn lookup(
    api: &Api,
    about: &str,
    name: &str,
    list: &dyn Fn(&crate::model::KindConfig) -> String,
    s: &mut String,
) {
    let kinds = api.config.kinds.iter();
    let rows: Vec<_> = kinds.map(|(kind, k)| (kind, list(k))).collect();
    let said = rows.iter().filter(|(_, list)| list != "&[]");
    let arms: String = said
        .clone()
        .map(|(kind, list)| format!("Self::{kind} => {list},\n"))
        .collect();
    let body = match said.count() {
        0 => "&[]".to_owned(),
        n if n == rows.len() => format!("match self {{\n{arms}}}"),
        _ => format!("match self {{\n{arms}_ => &[],\n}}"),
    };
    let _ = writeln!(
        s,
        "{about}\npub const fn {name}(self) -> &'static [Self] {{\n{body}\n}}\n"
    );
}

fn act(act: &Act) -> String {
    match act {
        Act::Creates => "Act::Creates".to_owned(),
        Act::Names => "Act::Names".to_owned(),
        Act::Destroys => "Act::Destroys".to_owned(),
        Act::Changes(what) => format!("Act::Changes({what:?})"),
    }
}

fn at(at: &At) -> String {
    let plain = |f: &str| f.trim_start_matches("r#").to_owned();
    match at {
        At::Field(f) => format!("At::Field({:?})", plain(f)),
        At::Reply(f) => format!("At::Reply({:?})", plain(f)),
        At::Scope => "At::Scope".to_owned(),
    }
}

/// The objects of an API, for people.
pub fn table(api: &Api, s: &mut String) {
    if api.config.kinds.is_empty() {
        return;
    }
    s.push_str(
        "## Objects\n\nA *parent* takes its children along when it dies. What an object *keeps* \
         stays alive as long as it does.\n\n\
         | kind | created by | destroyed by | parents | keeps |\n|---|---|---|---|---|\n",
    );
    for (kind, k) in &api.config.kinds {
        let lines = |wanted: Act, otherwise: &Option<String>| {
            let does = |c: &&Call| {
                let mut effects = c.effects.iter();
                c.travels() && effects.any(|e| e.act == wanted && e.kind == *kind)
            };
            let names: Vec<_> = api.calls().filter(does).collect();
            let names: Vec<_> = names.iter().map(|c| format!("`{}`", c.item.name)).collect();
            otherwise.clone().unwrap_or_else(|| names.join(", "))
        };
        let _ = writeln!(
            s,
            "| {kind} | {} | {} | {} | {} |",
            lines(Act::Creates, &k.given),
            lines(Act::Destroys, &k.stays),
            k.dies_with.join(", "),
            k.keeps.join(", ")
        );
    }
    let changes = api.calls().flat_map(|c| {
        c.effects.iter().filter_map(move |e| match &e.act {
            Act::Changes(what) => Some((e.kind.as_str(), what.as_str(), c.item.name.as_str())),
            _ => None,
        })
    });
    let mut rows = std::collections::BTreeMap::<_, Vec<_>>::new();
    for (kind, what, name) in changes {
        rows.entry((kind, what))
            .or_default()
            .push(format!("`{name}`"));
    }
    s.push('\n');
    if !rows.is_empty() {
        s.push_str("| of a | this is changed | by |\n|---|---|---|\n");
        for ((kind, what), names) in rows {
            let _ = writeln!(s, "| {kind} | {what} | {} |", names.join(", "));
        }
        s.push('\n');
    }
}
