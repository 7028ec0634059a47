//! What holds of an API's lines together: names and ids are unique, aliases fit, and every symbol
//! of the library has a line.

use crate::effect;
use crate::model::{Api, Arg, Call, RESERVED_IDS};
use crate::spec::{Class, Item, Mark, Param, Sort};
use anyhow::{Context, Result, bail};
use quote::ToTokens as _;
use std::collections::{HashMap, HashSet};
use syn::{PointerMutability, Type};

/// Refuses an API whose lines do not hold together.
pub fn api(api: &Api) -> Result<()> {
    let names = names(api)?;
    ids(api)?;
    for c in api.calls() {
        let it = &c.item;
        let at = || format!("{}: {}", it.place, it.name);
        if it.todo && !c.client_by_hand() && !c.worker_by_hand() {
            bail!("{}: todo, but nothing in it is hand-written", at());
        }
        let is_shared = matches!(&it.class, Class::Is(to, _) if api.find(to).is_none());
        let told = it.begin.as_ref().is_some_and(|b| !b.of_all);
        if told && !is_shared && !c.client_by_hand() {
            bail!(
                "{}: that `cx` is for what is hand-written on the client",
                at()
            );
        }
        if let Class::Is(to, args) = &it.class {
            alias(api, c, to, args.as_deref()).with_context(at)?;
        }
    }
    procs(api)?;
    effect::kinds(api)?;
    exports(api, &names)
}

/// The lines by their names, which differ.
fn names(api: &Api) -> Result<HashMap<&str, &Item>> {
    let mut names: HashMap<&str, &Item> = HashMap::new();
    for c in api.calls() {
        let it = &c.item;
        if let Some(other) = names.insert(&it.name, it) {
            bail!("{}: {}: already at {}", it.place, it.name, other.place);
        }
    }
    Ok(names)
}

/// Ids, and what messages are called by them, differ.
fn ids(api: &Api) -> Result<()> {
    let mut ids: HashMap<u16, &Item> = HashMap::new();
    let mut messages = HashSet::new();
    for c in api.calls() {
        let it = &c.item;
        let at = format!("{}: {}", it.place, it.name);
        let Some(id) = it.id else { continue };
        if id == 0 || id >= RESERVED_IDS {
            bail!("{at}: id {id:#06x} is reserved");
        }
        if let Some(other) = ids.insert(id, it) {
            let (name, place) = (&other.name, &other.place);
            bail!("{at}: id {id:#06x} is taken by {name} at {place}");
        }
        if !messages.insert(&c.message) || !messages.insert(&c.op) {
            bail!("{at}: another name gives the same message");
        }
    }
    Ok(())
}

/// What the API's own lookup knows is one line each.
fn procs(api: &Api) -> Result<()> {
    let mut procs = HashMap::new();
    for it in api.calls().map(|c| &c.item) {
        for p in &it.get_proc {
            if let Some(other) = procs.insert(p.clone(), it) {
                let (at, name) = (&it.place, &it.name);
                bail!("{at}: {name}: {} of {} is {}", p.0, p.1, other.name);
            }
        }
    }
    let absent = |p: &&(String, u32)| !procs.contains_key(*p);
    let missing: Vec<_> = api
        .procs
        .iter()
        .filter(absent)
        .map(|(n, v)| format!("{n} of {v}"))
        .collect();
    if !missing.is_empty() {
        bail!("no function is looked up as: {}", missing.join(", "));
    }
    Ok(())
}

/// What a function is another name of takes what it is given.
fn alias(api: &Api, c: &Call, to: &str, args: Option<&[String]>) -> Result<()> {
    if args.is_some() && !api.generates_functions() {
        bail!("an API without result codes has aliases with the same arguments only");
    }
    let Some(target) = api.find(to) else {
        // A hand-written function: of its parameters the compiler says more than is known here.
        let (Some(args), true) = (args, c.item.per_thread.is_some()) else {
            return match args {
                Some(_) => Ok(()),
                None => bail!("there is no `{to}`"),
            };
        };
        let stream = api.config.stream.as_ref().map(|s| s.ty.as_str());
        let marked = |(a, p): (&Arg, &Param)| {
            stream == Some(a.ty.as_str()) && matches!(p.mark, Some(Mark::Handle(_)))
        };
        let told = c.item.begin.is_some() && c.args.iter().zip(&c.item.params).any(marked);
        if !told && !args.iter().any(|a| a.contains("per_thread")) {
            bail!("`{to}` is not told `per_thread`");
        }
        return Ok(());
    };
    let further = match &target.item.class {
        Class::Is(to, _) => api.find(to).is_some(),
        class => class.is_refused(),
    };
    if further {
        bail!("`{to}` is itself no function with a body");
    }
    let types = |c: &Call| -> Vec<_> {
        let params = c.item.params.iter();
        params.map(|p| canonical(api, &p.ty)).collect()
    };
    let theirs = types(target);
    let fits = match args {
        None => types(c) == theirs,
        Some(args) => args.len() == theirs.len(),
    };
    if !fits {
        bail!("its parameters differ from those of `{to}`");
    }
    Ok(())
}

/// A type without aliases.
fn canonical(api: &Api, ty: &Type) -> String {
    match ty {
        Type::Ptr(p) => {
            let word = match p.mutability {
                PointerMutability::Mut(_) => "*mut",
                PointerMutability::Const(_) => "*const",
            };
            format!("{word} {}", canonical(api, &p.elem))
        }
        other => api.types.resolve(other).to_token_stream().to_string(),
    }
}

/// Every symbol that is to be exported has a line, and no other has.
fn exports(api: &Api, names: &HashMap<&str, &Item>) -> Result<()> {
    let mut variants = HashSet::new();
    for c in api.calls() {
        if let Some(suffix) = &c.item.per_thread {
            variants.insert(format!("{}{suffix}", c.item.name));
        }
        variants.extend(api.alias(&c.item.name));
    }
    let known = |e: &str| names.contains_key(e) || variants.contains(e);
    let missing: Vec<_> = api.exports.iter().filter(|e| !known(e)).cloned().collect();
    if !missing.is_empty() {
        bail!("not classified: {}", missing.join(", "));
    }
    if let Some(name) = api.loader.iter().find(|n| !names.contains_key(n.as_str())) {
        bail!("{name}: a loader exports it, and it has no line");
    }
    let exported: HashSet<_> = api.exports.iter().map(String::as_str).collect();
    for c in api
        .calls()
        .filter(|c| c.item.sort != Sort::Message && !c.item.unexported)
    {
        let all = std::iter::once(c.item.name.clone()).chain(
            c.item
                .per_thread
                .iter()
                .map(|s| format!("{}{s}", c.item.name)),
        );
        for name in all {
            if api.config.exports.is_some() && !exported.contains(name.as_str()) {
                bail!("{}: {name} is not in the list of exports", c.item.place);
            }
        }
    }
    Ok(())
}
