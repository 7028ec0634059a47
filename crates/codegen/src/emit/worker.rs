//! Dispatch: `crates/worker/src/<api>/generated`.

use crate::file::{ALLOW, Files, put, rust};
use crate::model::{Api, Arg, At, Call, Effect, Family, Field, Role, Wire};
use crate::spec::{Act, Count, Null, Sort};
use std::fmt::Write as _;

/// The worker's side of one API.
pub fn emit(api: &Api, files: &mut Files) {
    let Some(state) = &api.config.worker_state else {
        return;
    };
    let dir = format!("crates/worker/src/{}/generated", api.name);
    if api.config.result.is_none() {
        let about = format!("Dispatch: {}.", api.config.name);
        let text = format!("mod calls;\npub mod library;\n\n{}", methods(api, state));
        let text = format!("{ALLOW}\n{text}");
        return put(files, format!("{dir}/mod.rs"), rust(&about, &text));
    }
    let families: Vec<_> = api
        .families
        .iter()
        .filter(|f| f.calls.iter().any(Call::travels))
        .collect();
    let mut s = String::from(ALLOW);
    s.push('\n');
    for f in &families {
        let _ = writeln!(s, "mod {};", f.name);
    }
    let _ = writeln!(
        s,
        "\nuse busbar_wire::WireError;\nuse busbar_wire::generated::{0}::op;\n\
         use crate::{0}::{state};\n",
        api.name
    );
    let _ = writeln!(
        s,
        "/// Decodes one request, makes the call and answers. An error is the client's fault, and \
         ends\n/// its session.\n\
         pub fn dispatch(w: &mut {state}, body: &[u8]) -> Result<(), WireError> {{\n\
         match w.record.op {{"
    );
    for f in &families {
        for c in f.calls.iter().filter(|c| c.travels()) {
            let _ = writeln!(s, "op::{} => {}::{}(w, body),", c.op, f.name, c.snake);
        }
    }
    s.push_str("other => Err(WireError::UnknownOp(other)),\n}\n}\n");
    if let Some(result) = &api.config.result {
        s.push_str(&helpers(&api.name, &result.ty, &result.invalid_value));
    }
    put(
        files,
        format!("{dir}/mod.rs"),
        rust(&format!("Dispatch: {}.", api.config.name), &s),
    );
    for f in families {
        let about = format!("Dispatch: {}, {}.", api.config.name, f.name);
        put(
            files,
            format!("{dir}/{}.rs", f.name),
            rust(&about, &family(api, f, state)),
        );
    }
}

fn helpers(api: &str, rc: &str, invalid: &str) -> String {
    format!(
        "
use busbar_abi::{api}::{{{invalid}, {rc}}};
use busbar_abi::{{Plain, from_bytes, items_from_bytes, slice_bytes, to_array, zeroed}};
use busbar_wire::limits::MAX_BYTES;
use std::ffi::CString;

/// A result code as a `Result`.
#[inline]
fn check(rc: {rc}) -> Result<(), {rc}> {{
    if rc == 0 {{ Ok(()) }} else {{ Err(rc) }}
}}

/// Runs the fallible part of a call and gives its result code.
#[inline]
fn attempt(f: impl FnOnce() -> Result<(), {rc}>) -> {rc} {{
    match f() {{
        Ok(()) => 0,
        Err(rc) => rc,
    }}
}}

/// The items of a list whose count the client sent beside it.
fn list<T: Plain>(bytes: &[u8], count: usize) -> Result<Vec<T>, WireError> {{
    let items: Vec<T> = items_from_bytes(bytes).ok_or(WireError::BadValue(\"list\"))?;
    same_count(items.len(), count)?;
    Ok(items)
}}

/// Fails unless a list has the count that the client sent beside it.
fn same_count(has: usize, count: usize) -> Result<(), WireError> {{
    if has == count {{ Ok(()) }} else {{ Err(WireError::BadValue(\"count of a list\")) }}
}}

/// Room for a list that the driver fills.
fn room<T: Plain>(count: usize) -> Result<Vec<T>, {rc}> {{
    match count.checked_mul(size_of::<T>()) {{
        Some(1..=MAX_BYTES) => Ok(vec![zeroed(); count]),
        _ => Err({invalid}),
    }}
}}
"
    )
}

fn family(api: &Api, f: &Family, state: &str) -> String {
    let mut s = String::from("use super::*;\n");
    if api.config.functions {
        let _ = writeln!(
            s,
            "use busbar_abi::{}::*;\nuse std::ffi::{{c_char, c_void}};",
            api.name
        );
    }
    let _ = writeln!(
        s,
        "use busbar_wire::codec::{{Message as _, Reader}};\n\
         use busbar_wire::generated::{0} as wire;\n",
        api.name
    );
    if !api.config.handles.is_empty() {
        s.push_str(
            "use crate::objects::{Creates, Key};
use wire::Kind;

",
        );
    }
    for c in f.calls.iter().filter(|c| c.travels()) {
        let _ = writeln!(
            s,
            "pub(super) fn {}(w: &mut {state}, body: &[u8]) \
             -> Result<(), WireError> {{\n\
             let mut r = Reader::new(body);",
            c.snake
        );
        let missing = is_missing(c);
        let bind = if missing || c.request.is_empty() && !c.worker_by_hand() {
            ""
        } else {
            "let m = "
        };
        let _ = writeln!(
            s,
            "{bind}wire::{}::decode(&mut r)?;\nr.finish()?;",
            c.message
        );
        if missing {
            refuse(api, &mut s);
        } else if c.worker_by_hand() {
            let handler = format!("crate::{}::{}::{}", api.name, c.item.family, c.snake);
            let finish = "w.answer(given)";
            let gone = destroyed(api, c);
            if let Some(gone) = &gone {
                let _ = writeln!(s, "let gone = {gone};");
            }
            let _ = writeln!(s, "let given = {handler}(w, m);");
            match gone {
                None => s.push_str(finish),
                Some(_) => {
                    let _ = writeln!(s, "let done = {finish};");
                    s.push_str(
                        "// It is dead, and what dies with it, whatever the library said.\n",
                    );
                    s.push_str("w.remove(gone);\ndone");
                }
            }
            s.push('\n');
        } else {
            call(c, &mut s);
        }
        s.push_str("}\n\n");
        s.push_str(&created(api, c).unwrap_or_default());
    }
    s
}

/// The object of an effect, if a record has its id.
fn object(api: &Api, c: &Call, acts: &[Act]) -> Option<(String, String)> {
    let id = |f: &&Field| matches!(f.wire, Wire::Number("u32"));
    let named = |e: &&Effect| {
        let At::Field(field) = &e.at else {
            return false;
        };
        acts.contains(&e.act) && c.request.iter().filter(id).any(|f| f.name == *field)
    };
    let e = c
        .effects
        .iter()
        .find(named)
        .filter(|_| !api.config.handles.is_empty())?;
    match &e.at {
        At::Field(field) => Some((e.kind.clone(), field.clone())),
        At::Scope | At::Reply(_) => None,
    }
}

/// The object that a call destroys.
fn destroyed(api: &Api, c: &Call) -> Option<String> {
    let (kind, field) = object(api, c, &[Act::Destroys])?;
    Some(format!("(Kind::{kind}, m.{field})"))
}

/// What a call makes, for whoever has the library's handle of that.
fn created(api: &Api, c: &Call) -> Option<String> {
    let (kind, field) = object(api, c, &[Act::Creates, Act::Names])?;
    let borrowed = c
        .request
        .iter()
        .any(|f| matches!(f.wire, Wire::Bytes | Wire::Rest | Wire::Str));
    let life = if borrowed { "<'_>" } else { "" };
    let of = parents(api, c, &field);
    let scope = if of.contains("scope") {
        "scope"
    } else {
        "_scope"
    };
    Some(format!(
        "impl Creates<Kind> for wire::{}{life} {{\n\
         fn created<R>(&self, {scope}: u32, put: impl FnOnce(Key<Kind>, &[Key<Kind>]) -> R)\n\
         -> R {{\n\
         put((Kind::{kind}, self.{field}), &[{of}])\n}}\n}}\n\n",
        c.message
    ))
}

/// Dispatch to methods, of an API that has its own ways to fail and to answer.
fn methods(api: &Api, state: &str) -> String {
    let mut s = format!(
        "use crate::{0}::{state};\nuse busbar_wire::WireError;\n\
         use busbar_wire::codec::{{Message, Reader}};\n\
         use busbar_wire::generated::{0}::op;\n\n\
         /// Reads a whole message.\n\
         fn read<'a, M: Message<'a>>(body: &'a [u8]) -> Result<M, WireError> {{\n\
         let mut r = Reader::new(body);\nlet m = M::decode(&mut r)?;\nr.finish()?;\nOk(m)\n}}\n\n\
         /// Reads one request, has it executed, and answers. An error is the client's fault, and\n\
         /// ends its session.\n\
         pub fn dispatch(w: &mut {state}, body: &[u8]) -> Result<(), WireError> {{\n\
         match w.record.op {{\n",
        api.name
    );
    for c in api
        .families
        .iter()
        .flat_map(|f| &f.calls)
        .filter(|c| c.travels())
    {
        let _ = writeln!(
            s,
            "op::{} => {{\nlet given = w.{}(read(body)?);\nw.answer(body, given)\n}}",
            c.op, c.snake
        );
    }
    s + "other => Err(WireError::UnknownOp(other)),\n}\n}\n"
}

/// Whether the worker's side is still to be written. (A function whose client side alone is
/// missing has a generated one here.)
fn is_missing(c: &Call) -> bool {
    c.item.todo && (c.item.sort == Sort::Message || c.item.by_hand_worker)
}

fn refuse(api: &Api, s: &mut String) {
    let Some(result) = &api.config.result else {
        s.push_str("Err(WireError::UnknownOp(w.record.op))\n");
        return;
    };
    let rc = format!("busbar_abi::{}::{}", api.name, result.not_supported);
    let _ = writeln!(s, "w.done({rc});\nOk(())");
}

/// The parts of a dispatched call, in the order in which they are written.
#[derive(Default)]
struct Parts {
    /// What ends the session when it fails, and what outlives the call.
    before: String,
    /// What gives the call a result code when it fails.
    inside: String,
    /// What a successful call does to the tables.
    after: String,
    /// Arguments.
    args: Vec<String>,
    /// Fields of the reply.
    reply: Vec<String>,
}

fn call(c: &Call, s: &mut String) {
    let mut parts = Parts::default();
    for a in &c.args {
        if let Some(role) = &a.role {
            parts.add(c, a, role);
        }
    }
    let Parts {
        before,
        inside,
        after,
        args,
        reply,
    } = parts;
    s.push_str(&before);
    let told = match reply.is_empty() {
        true => String::new(),
        false => format!(
            ".map(|()| wire::{}Reply {{ {} }})",
            c.message,
            reply.join(", ")
        ),
    };
    let _ = writeln!(
        s,
        "let rc = attempt(|| {{\n{inside}\
         // SAFETY: handles come from the tables; what pointers point to outlives the call.\n\
         check(unsafe {{ w.driver.{}({}) }})?;\n{after}Ok(())\n}});\n\
         w.answer(check(rc){told})",
        c.item.name,
        args.join(", ")
    );
}

impl Parts {
    /// Adds one argument of the call.
    fn add(&mut self, c: &Call, a: &Arg, role: &Role) {
        let (f, target, local) = (&a.field, &a.pointee, local(a));
        let arg = match role {
            Role::Number(is_size) => number(a, *is_size),
            Role::Address => format!("m.{f} as {}", a.ty),
            Role::Handle(_, _, true) => self.look_up(a, &format!("w.stream(m.{f})?")),
            Role::Handle(kind, null, _) => {
                let get = format!("w.handle(Kind::{kind}, m.{f})?");
                match *null == Null::Optional {
                    true => self.look_up(a, &format!("if m.{f} == 0 {{ 0 }} else {{ {get} }}")),
                    false => self.look_up(a, &get),
                }
            }
            Role::Del(kind) => {
                let _ = writeln!(self.after, "w.remove((Kind::{kind}, m.{f}));");
                self.look_up(a, &format!("w.handle(Kind::{kind}, m.{f})?"))
            }
            Role::New(_) => {
                let _ = writeln!(self.inside, "let mut {local}: {target} = zeroed();");
                let _ = writeln!(self.after, "w.made(&m, {local} as u64);");
                format!("&mut {local}")
            }
            Role::OutNumber(..) | Role::OutPlain(..) => {
                let _ = writeln!(self.before, "let mut {local}: {target} = zeroed();");
                self.reply.push(match role {
                    Role::OutNumber(true, _) => format!("{f}: {local} as u64"),
                    Role::OutNumber(false, _) => format!("{f}: {local}"),
                    _ => format!("{f}: to_array(&{local})"),
                });
                format!("&mut {local}")
            }
            Role::OutArray(n) => {
                let _ = writeln!(self.before, "let mut {local}: Vec<{target}> = Vec::new();");
                let _ = writeln!(self.inside, "{local} = room({})?;", count(c, n));
                self.reply.push(format!("{f}: slice_bytes(&{local})"));
                format!("{local}.as_mut_ptr()")
            }
            Role::InRef(_) => {
                let (word, borrow) = if is_mut(a) {
                    ("mut ", "&mut ")
                } else {
                    ("", "&")
                };
                let get = format!("from_bytes(&m.{f}).ok_or(WireError::BadValue(\"structure\"))?");
                let _ = writeln!(self.before, "let {word}{local}: {target} = {get};");
                if target == "CUmemLocation" {
                    let _ = writeln!(self.inside, "w.locate(&mut {local})?;");
                }
                format!("{borrow}{local}")
            }
            Role::InArray(n, optional) => self.array(a, count(c, n), *optional),
            Role::HandleArray(n, kind) => {
                self.same_count(f, &count(c, n));
                let _ = writeln!(
                    self.inside,
                    "let mut {local} = Vec::with_capacity(m.{f}.len());\nfor id in &m.{f} {{\n\
                     {local}.push(w.handle(Kind::{kind}, *id)? as {target});\n}}"
                );
                format!("{local}.as_ptr()")
            }
            Role::BytesIn(n) => {
                self.same_count(f, &count(c, n));
                format!("m.{f}.as_ptr().cast()")
            }
            Role::CStr => {
                let get = format!("CString::new(m.{f}).map_err(|_| WireError::BadText)?");
                let _ = writeln!(self.before, "let {local} = {get};");
                format!("{local}.as_ptr()")
            }
        };
        self.args.push(arg);
    }

    /// The driver's handle of an id.
    fn look_up(&mut self, a: &Arg, get: &str) -> String {
        let local = local(a);
        let _ = writeln!(self.inside, "let {local} = {get};");
        format!("{local} as {}", a.ty)
    }

    /// `n` values; if they are optional, no bytes stand for the null pointer.
    fn array(&mut self, a: &Arg, mut n: String, optional: bool) -> String {
        let (f, target, local) = (&a.field, &a.pointee, local(a));
        let located = target == "CUmemAccessDesc";
        let (word, get, null) = match is_mut(a) || located {
            true => ("mut ", "as_mut_ptr", "null_mut"),
            false => ("", "as_ptr", "null"),
        };
        let mut pointer = format!("{local}.{get}()");
        if optional {
            n = format!("if m.{f}.is_empty() {{ 0 }} else {{ {n} }}");
            let none = format!("std::ptr::{null}()");
            pointer = format!("if {local}.is_empty() {{ {none} }} else {{ {pointer} }}");
        }
        let list = format!("list::<{target}>(m.{f}, {n})?");
        let _ = writeln!(self.before, "let {word}{local} = {list};");
        if located {
            let get = format!("for item in &mut {local} {{\nw.locate(&mut item.location)?;\n}}");
            let _ = writeln!(self.inside, "{get}");
        }
        if target == "CUstreamBatchMemOpParams" {
            let _ = writeln!(self.inside, "w.operations(&{local})?;");
        }
        pointer
    }

    fn same_count(&mut self, field: &str, n: &str) {
        let _ = writeln!(self.before, "same_count(m.{field}.len(), {n})?;");
    }
}

/// What the new object in a field dies with.
fn parents(api: &Api, c: &Call, field: &str) -> String {
    let new = |e: &&Effect| e.act != Act::Destroys && e.at == At::Field(field.into());
    let Some(e) = c.effects.iter().find(new) else {
        return String::new();
    };
    let kinds = api.config.kinds.get(&e.kind);
    let dies_with = |k: &String| kinds.is_some_and(|c| c.dies_with.contains(k));
    // Only what has an id is in the tables.
    let has_id = |at: &At| match at {
        At::Field(f) => c
            .request
            .iter()
            .any(|r| r.name == *f && r.wire == Wire::Number("u32")),
        At::Scope | At::Reply(_) => true,
    };
    let of = e.of.iter().filter(|(k, at)| dies_with(k) && has_id(at));
    let one = |(kind, at): &(String, At)| match at {
        At::Field(f) => format!("(Kind::{kind}, self.{f})"),
        At::Scope | At::Reply(_) => format!("(Kind::{kind}, scope)"),
    };
    of.map(one).collect::<Vec<_>>().join(", ")
}

/// The variable that holds what the driver gets of an argument.
fn local(a: &Arg) -> String {
    format!("v_{}", a.field.trim_start_matches("r#"))
}

fn is_mut(a: &Arg) -> bool {
    a.ty.starts_with("*mut")
}

/// A number, checked where it names something.
fn number(a: &Arg, is_size: bool) -> String {
    let f = &a.field;
    match a.ty.as_str() {
        _ if is_size => format!("m.{f} as usize"),
        // The program's devices are those it may see, in its own order.
        "CUdevice" => format!("w.device(m.{f})?"),
        // Addresses and objects of the driver's own: see `address` in the worker.
        "CUdeviceptr" => format!("w.address(m.{f})?"),
        "CUtexObject" | "CUsurfObject" => format!("w.object(m.{f})?"),
        ty if ty.ends_with("AttrID") => format!("w.attribute(m.{f})?"),
        _ => format!("m.{f}"),
    }
}

/// How many values the client says that there are.
fn count(c: &Call, count: &Count) -> String {
    match count {
        Count::Fixed(n) => n.to_string(),
        Count::Param(name, less) => {
            let field = c
                .args
                .iter()
                .find(|a| a.name == *name)
                .map_or("", |a| a.field.as_str());
            match less {
                0 => format!("m.{field} as usize"),
                n => format!("(m.{field} as usize).saturating_sub({n})"),
            }
        }
    }
}
