//! Entry points: `crates/client/src/<api>/generated`, and their exports in the shim.

use super::asked;
use super::begin::{self, THEIRS, handle_word};
use crate::file::{ALLOW, Files, put, rust};
use crate::model::{Api, Arg, Call, Family, ResultConfig, Role, type_text};
use crate::spec::{Class, Count, Mark, Null, Sort};
use quote::ToTokens as _;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The client's side of one API, and the shim that exports it.
pub fn emit(api: &Api, files: &mut Files) {
    let Some(result) = &api.config.result else {
        return;
    };
    let dir = format!("crates/client/src/{}/generated", api.name);
    let families: Vec<_> = api
        .families
        .iter()
        .filter(|f| f.calls.iter().any(|c| c.item.sort != Sort::Message))
        .collect();
    let mut s = String::from(ALLOW);
    s.push('\n');
    for f in &families {
        let _ = writeln!(s, "pub mod {};", f.name);
    }
    if !api.callbacks.is_empty() {
        s.push_str("pub mod callbacks;\nuse crate::cuda::entry::watched::watched;\n");
        let about = format!("Functions as profilers know them: {}.", api.config.name);
        put(
            files,
            format!("{dir}/callbacks.rs"),
            rust(&about, &callbacks(api)),
        );
    }
    if api.travels() {
        s.push_str("pub mod procs;\n");
        s.push_str(&helpers(api, result));
        put(
            files,
            format!("{dir}/procs.rs"),
            rust(
                &format!("Entry points by name and version: {}.", api.config.name),
                &procs(api),
            ),
        );
    } else if api.calls().any(|c| c.item.begin.is_some()) {
        let ResultConfig {
            ty, invalid_value, ..
        } = result;
        let _ = writeln!(
            s,
            "use busbar_abi::{}::{{{invalid_value}, {ty}}};",
            api.name
        );
        s.push_str(&not_null(result));
    }
    put(
        files,
        format!("{dir}/mod.rs"),
        rust(&format!("Entry points: {}.", api.config.name), &s),
    );
    let mut mods = String::new();
    for f in &families {
        let about = format!("Entry points: {}, {}.", api.config.name, f.name);
        put(
            files,
            format!("{dir}/{}.rs", f.name),
            rust(&about, &family(api, result, f)),
        );
        if let Some(shim) = &api.config.shim {
            let _ = writeln!(mods, "mod {};", f.name);
            let about = format!("Exports: {}, {}.", api.config.name, f.name);
            let text = exports(api, result, f);
            put(
                files,
                format!("{shim}/src/generated/{}.rs", f.name),
                rust(&about, &text),
            );
        }
    }
    if let Some(shim) = &api.config.shim {
        let about = format!("Exports: {}.", api.config.name);
        let text = format!("{ALLOW}\n{mods}");
        put(
            files,
            format!("{shim}/src/generated/mod.rs"),
            rust(&about, &text),
        );
    }
}

fn helpers(api: &Api, result: &ResultConfig) -> String {
    let ResultConfig {
        ty: rc,
        invalid_value,
        protocol,
        ..
    } = result;
    format!(
        "
use busbar_abi::{api}::{{{protocol}, {invalid_value}, {rc}}};
use busbar_wire::codec::{{Message, Reader}};
use busbar_wire::limits::MAX_BYTES;
use std::ffi::{{CStr, c_char}};
{not_null}

/// A reply's fields; one that cannot be read is the worker's fault.
fn decode<'a, M: Message<'a>>(bytes: &'a [u8]) -> Result<M, {rc}> {{
    let mut r = Reader::new(bytes);
    let reply = M::decode(&mut r).map_err(|_| {protocol})?;
    r.finish().map_err(|_| {protocol})?;
    Ok(reply)
}}

/// The count that the program gave for an array.
fn counted(n: impl TryInto<usize>) -> Result<usize, {rc}> {{
    n.try_into().map_err(|_| {invalid_value})
}}

/// The bytes of `n` items of the program.
///
/// # Safety
/// `p` is null, or `n` items lie there.
unsafe fn bytes_at<'a, T>(p: *const T, n: usize) -> Result<&'a [u8], {rc}> {{
    let len = n.checked_mul(size_of::<T>()).filter(|n| *n <= MAX_BYTES).ok_or({invalid_value})?;
    if len == 0 {{
        return Ok(&[]);
    }}
    not_null(p)?;
    // SAFETY: the caller vouches for the memory.
    Ok(unsafe {{ std::slice::from_raw_parts(p.cast(), len) }})
}}

/// The bytes of one structure of the program.
///
/// # Safety
/// `p` is null, or points to a `T` of `N` bytes.
unsafe fn structure<T, const N: usize>(p: *const T) -> Result<[u8; N], {rc}> {{
    const {{ assert!(size_of::<T>() == N) }};
    not_null(p)?;
    // SAFETY: the caller vouches for the memory, and the sizes are equal.
    Ok(unsafe {{ p.cast::<[u8; N]>().read_unaligned() }})
}}

/// Hands one structure of the reply to the program.
///
/// # Safety
/// There is room for a `T` at `p`.
unsafe fn put<T, const N: usize>(p: *mut T, bytes: [u8; N]) {{
    const {{ assert!(size_of::<T>() == N) }};
    // SAFETY: the caller vouches for the room, and the sizes are equal.
    unsafe {{ p.cast::<[u8; N]>().write_unaligned(bytes) }};
}}

/// A C string of the program.
///
/// # Safety
/// `p` is null, or a C string.
unsafe fn c_text<'a>(p: *const c_char) -> Result<&'a CStr, {rc}> {{
    not_null(p)?;
    // SAFETY: the caller vouches for the string.
    Ok(unsafe {{ CStr::from_ptr(p) }})
}}

/// The bytes of a C string of the program, without its end.
///
/// # Safety
/// `p` is null, or a C string.
unsafe fn text<'a>(p: *const c_char) -> Result<&'a [u8], {rc}> {{
    // SAFETY: passed on to the caller.
    let bytes = unsafe {{ c_text(p) }}?.to_bytes();
    if bytes.len() <= MAX_BYTES {{ Ok(bytes) }} else {{ Err({invalid_value}) }}
}}

/// Hands a list of the reply to the program.
///
/// # Safety
/// There is room for `n` items at `p`.
unsafe fn fill<T>(p: *mut T, n: usize, bytes: &[u8]) -> Result<(), {rc}> {{
    if bytes.len() != n * size_of::<T>() {{
        return Err({protocol});
    }}
    // SAFETY: the caller vouches for the room, and the length was checked.
    unsafe {{ p.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) }};
    Ok(())
}}
",
        api = api.name,
        not_null = not_null(result),
    )
}

fn not_null(
    ResultConfig {
        ty, invalid_value, ..
    }: &ResultConfig,
) -> String {
    format!(
        "
#[inline]
fn not_null<T>(p: *const T) -> Result<(), {ty}> {{
    if p.is_null() {{ Err({invalid_value}) }} else {{ Ok(()) }}
}}
"
    )
}

fn family(api: &Api, result: &ResultConfig, f: &Family) -> String {
    let (wire, kind) = match api.travels() {
        true => (
            format!("use busbar_wire::generated::{} as wire;\n", api.name),
            "use wire::Kind;\n",
        ),
        false if api.config.handles.is_empty() => (String::new(), ""),
        false => (String::new(), "use life::Kind;\n"),
    };
    let mut s = format!(
        "use super::*;\nuse crate::{0}::life;\n\
         use busbar_abi::{0}::*;\n{wire}\
         use std::ffi::{{c_char, c_void}};\n{kind}\n",
        api.name
    );
    if f.calls
        .iter()
        .any(|c| matches!(c.item.class, Class::Asked(_)))
    {
        let _ = writeln!(s, "use crate::{}::ask;", api.name);
    }
    if f.calls.iter().any(names_engine) {
        let _ = writeln!(s, "use crate::{}::engine;", api.name);
    }
    // Where the hand-written functions are that several share, and what they are told.
    let shared = |c: &&Call| matches!(&c.item.class, Class::Is(to, _) if api.find(to).is_none());
    let homes: BTreeSet<_> = f
        .calls
        .iter()
        .filter(shared)
        .map(|c| &c.item.family)
        .collect();
    for home in homes {
        let _ = writeln!(s, "use crate::{}::entry::{home}::*;\n", api.name);
    }
    for c in &f.calls {
        match c.item.sort {
            Sort::Function => function(api, result, c, &mut s),
            Sort::Data | Sort::Message => {}
        }
    }
    s
}

/// Whether a line says something of the client's engine.
fn names_engine(c: &Call) -> bool {
    let Class::Is(to, args) = &c.item.class else {
        return false;
    };
    let mut all = std::iter::once(to).chain(args.iter().flatten());
    all.any(|text| text.contains("engine::"))
}

/// Exported data is what a debugger would write to: zero, and never read by us.
fn data_type(c: &Call) -> (String, String) {
    let ty = c
        .item
        .data
        .as_ref()
        .map(|t| t.to_token_stream().to_string())
        .unwrap_or_default();
    let atomic = |t: &str| format!("std::sync::atomic::Atomic{}", t.to_uppercase());
    match ty.trim_matches(['[', ']']).split_once(" ; ") {
        Some((item, n)) => {
            let a = atomic(item);
            (
                format!("[{a}; {n}]"),
                format!("[const {{ {a}::new(0) }}; {n}]"),
            )
        }
        None => (atomic(&ty), format!("{}::new(0)", atomic(&ty))),
    }
}

/// Whether the client's body is a refusal.
fn refusal<'a>(api: &'a Api, c: &'a Call) -> Option<&'a str> {
    match &c.item.class {
        Class::Unsupported(reason) => Some(reason),
        Class::Is(to, _) => refusal(api, api.find(to)?),
        _ if c.item.todo && c.client_by_hand() => Some("not implemented yet"),
        _ => None,
    }
}

/// Parameters, of which those that are not used are marked so.
fn params(args: &[Arg], used: impl Fn(&Arg) -> bool) -> String {
    let one = |a: &Arg| match used(a) {
        true => format!("{}: {}", a.name, a.ty),
        false => format!("_{}: {}", a.name.trim_start_matches("r#"), a.ty),
    };
    let list: Vec<_> = args.iter().map(one).collect();
    list.join(", ")
}

fn function(api: &Api, result: &ResultConfig, c: &Call, s: &mut String) {
    let rc = returns(c, result);
    let name = &c.item.name;
    let refused = refusal(api, c);
    let mut variants = vec![(name.clone(), false)];
    if let Some(suffix) = &c.item.per_thread {
        variants.push((format!("{name}{suffix}"), true));
    }
    for (variant, per_thread) in &variants {
        let fails = refused.is_some() || c.item.class.is_refused();
        let about = if fails { ": refused" } else { "" };
        let number = api.callbacks.get(variant).filter(|_| !fails);
        let told = number.is_some();
        if let Some(number) = number {
            watched(c, &rc, variant, *number, s);
        }
        let used = |a: &Arg| match c.item.class {
            Class::Forbidden(_) => handle_of(api, c, a).is_some(),
            _ => refused.is_none() && begin::uses(api, c, a),
        };
        let params = params(&c.args, used);
        let head = match told {
            // Arguments that lie on the stack would be copied there again.
            true if c.args.len() > IN_REGISTERS => {
                format!("#[inline(always)]\nunsafe extern \"C\" fn plain_{variant}")
            }
            true => format!("unsafe extern \"C\" fn plain_{variant}"),
            false => format!("/// `{variant}`{about}.\npub unsafe extern \"C\" fn {variant}"),
        };
        let _ = writeln!(s, "{head}({params}) -> {rc} {{");
        match refused {
            Some(reason) => {
                let _ = writeln!(s, "life::unsupported(\"{name}\", {reason:?})");
            }
            None => body(api, c, *per_thread, s),
        }
        s.push_str("}\n\n");
    }
}

/// How many arguments of a C function are in registers.
const IN_REGISTERS: usize = 6;

/// An entry point that profilers know, and one beside it: where one watches, it hears of the call
/// and of its arguments, which lie as in C's structure of the function's parameters. A call that
/// nobody watches pays for the question alone: the arguments are where the function that makes it
/// takes them from.
fn watched(c: &Call, rc: &str, variant: &str, number: u32, s: &mut String) {
    let params = params(&c.args, |_| true);
    let _ = writeln!(
        s,
        "watched! {{\n    {number}, {variant}, watched_{variant}, plain_{variant},\n    \
         ({params}) -> {rc}\n}}\n"
    );
}

/// The names of functions by the numbers by which profilers know them.
fn callbacks(api: &Api) -> String {
    let mut s = String::from("use std::ffi::CStr;\n");
    let tables = [("OWN", &api.callbacks), ("RUNTIME", &api.runtime_callbacks)];
    for (table, names) in tables {
        let _ = writeln!(s, "\npub static {table}: &[(u32, &CStr)] = &[");
        let mut rows: Vec<_> = names.iter().map(|(name, n)| (n, name)).collect();
        rows.sort();
        for (n, name) in rows {
            let _ = writeln!(s, "({n}, c\"{name}\"),");
        }
        s.push_str("];\n");
    }
    s
}

/// What a function returns.
fn returns(c: &Call, result: &ResultConfig) -> String {
    let ty = c.item.result.as_ref();
    ty.map_or_else(|| result.ty.clone(), |ty| type_text(ty).0)
}

/// The kind of a handle that a call is given.
fn handle_of(api: &Api, c: &Call, a: &Arg) -> Option<String> {
    let p = c.item.params.iter().find(|p| p.name == a.name)?;
    matches!(p.mark, Some(Mark::Handle(_))).then_some(())?;
    api.kind(&p.ty).ok()
}

/// A refusal behind the check of the handles.
fn forbidden(api: &Api, c: &Call, reason: &str, s: &mut String) {
    s.push_str("life::guard(move || {\nlet cx = life::enter()?;\n");
    for a in &c.args {
        if let Some(kind) = handle_of(api, c, a) {
            let _ = writeln!(s, "cx.handle(Kind::{kind}, {} as u64)?;", a.name);
        }
    }
    let _ = writeln!(s, "Err(cx.forbidden({:?}, {reason:?}))\n}})", c.item.name);
}

/// What an entry point does: what another does, what is hand-written, or a message.
fn body(api: &Api, c: &Call, per_thread: bool, s: &mut String) {
    let told = c.client_by_hand() || matches!(c.item.class, Class::Is(..));
    if let Some(begin) = c.item.begin.as_ref().filter(|_| told) {
        return begin::emit(api, c, begin, per_thread, s);
    }
    match &c.item.class {
        Class::Asked(_) => return asked::entry(api, c, s),
        Class::Forbidden(reason) => return forbidden(api, c, reason, s),
        _ => {}
    }
    let mut args: Vec<String> = c.args.iter().map(|a| a.name.clone()).collect();
    let call = match &c.item.class {
        Class::Is(to, given) => {
            if let Some(given) = given {
                args = arguments(api.find(to), c, given, per_thread);
            }
            let family = |f: &&Family| f.calls.iter().any(|x| x.item.name == *to);
            match (api.find(to), api.families.iter().find(family)) {
                (Some(t), Some(f)) => {
                    let suffix = t.item.per_thread.as_deref().filter(|_| per_thread);
                    format!("super::{}::{to}{}", f.name, suffix.unwrap_or_default())
                }
                _ => to.clone(),
            }
        }
        _ if c.client_by_hand() => {
            if c.item.per_thread.is_some() {
                args.push(per_thread.to_string());
            }
            format!(
                "crate::{}::entry::{}::{}",
                api.name, c.item.family, c.item.name
            )
        }
        _ => {
            let mut inner = String::new();
            forward(api, c, per_thread, &mut inner);
            let guard = begin::guard(api, c, per_thread);
            let _ = writeln!(s, "{guard}\n{inner}}})");
            return;
        }
    };
    let _ = writeln!(
        s,
        "// SAFETY: the arguments are the program's.\nunsafe {{ {call}({}) }}",
        args.join(", ")
    );
}

/// What an alias gives its target: `null` fits any pointer, and `per_thread` is known here.
fn arguments(target: Option<&Call>, c: &Call, given: &[String], per_thread: bool) -> Vec<String> {
    let own = |a: &str| c.args.iter().find(|own| own.name == a);
    let mut args = Vec::new();
    for (i, a) in given.iter().enumerate() {
        let wanted = target.and_then(|t| t.args.get(i)).map(|t| t.ty.as_str());
        args.push(match (a.as_str(), wanted) {
            ("null", Some(ty)) if ty.starts_with("*const") => "std::ptr::null()".to_owned(),
            ("null", _) => "std::ptr::null_mut()".to_owned(),
            ("per_thread", _) => per_thread.to_string(),
            (a, Some(ty)) if own(a).is_none_or(|own| own.ty != ty) => format!("({a}) as {ty}"),
            (a, _) => a.to_owned(),
        });
    }
    args
}

/// The parts of a forwarding body, in the order in which they are written.
#[derive(Default)]
struct Parts {
    /// Checks of pointers that something will be written through.
    nulls: String,
    /// What can fail: reading arguments, looking up handles.
    reads: String,
    /// New handles, made when nothing can fail any more but the call.
    creates: String,
    /// Fields of the request.
    fields: Vec<String>,
    /// What a failed call takes back.
    undo: String,
    /// What a successful call does.
    after: String,
}

fn forward(api: &Api, c: &Call, per_thread: bool, s: &mut String) {
    let begun = c.item.begin.as_ref();
    let enter = begun.map_or("enter", |b| b.enter.as_str());
    let _ = writeln!(s, "let cx = life::{enter}()?;");
    s.push_str(&begin::whose(api, c));
    if c.item.begin.as_ref().is_some_and(|b| b.context) {
        s.push_str("cx.need_context()?;\n");
    }
    let mut parts = Parts::default();
    for a in &c.args {
        if let Some(role) = &a.role {
            parts.add(a, role, per_thread);
        }
    }
    let Parts {
        nulls,
        reads,
        creates,
        fields,
        undo,
        after,
    } = parts;
    s.push_str(&nulls);
    s.push_str(&reads);
    if c.item.disturbs {
        s.push_str("cx.must_be_safe()?;\n");
    }
    s.push_str(&creates);
    let _ = writeln!(
        s,
        "let v_req = wire::{} {{ {} }};",
        c.message,
        fields.join(", ")
    );
    let how = match c.item.class {
        Class::Queued | Class::QueuedIf(_) => "cx.send(&v_req)",
        Class::Cached => "cx.cached(&v_req)",
        _ => "cx.call(&v_req)",
    };
    let bind = if c.reply.is_empty() {
        ""
    } else {
        "let v_bytes = "
    };
    if undo.is_empty() {
        let _ = writeln!(s, "{bind}{how}?;");
    } else {
        let _ = writeln!(s, "{bind}{how}.inspect_err(|_| {{\n{undo}}})?;");
    }
    if !c.reply.is_empty() {
        let borrows = c
            .args
            .iter()
            .any(|a| matches!(a.role, Some(Role::OutArray(_))));
        let life = if borrows { "<'_>" } else { "" };
        let _ = writeln!(
            s,
            "let v_reply: wire::{}Reply{life} = decode(&v_bytes)?;",
            c.message
        );
    }
    s.push_str(&after);
    s.push_str("Ok(())\n");
}

impl Parts {
    fn add(&mut self, a: &Arg, role: &Role, per_thread: bool) {
        let Arg { name, field: f, .. } = a;
        let local = format!("v_{}", f.trim_start_matches("r#"));
        let mut value = local.clone();
        match role {
            Role::Number(is_size) => {
                value = if *is_size {
                    format!("{name} as u64")
                } else {
                    name.clone()
                };
            }
            Role::Address => value = format!("{name} as u64"),
            Role::Handle(_, _, true) => {
                let get = format!("cx.stream({name}, {per_thread})?");
                let _ = writeln!(self.reads, "let {local} = {get};");
            }
            Role::Handle(kind, null, false) => {
                if *null == Null::Missing {
                    let _ = writeln!(self.reads, "not_null({name})?;");
                }
                let word = handle_word(*null);
                let get = format!("cx.{word}(Kind::{kind}, {name} as u64)?");
                let _ = writeln!(self.reads, "let {local} = {get};");
            }
            Role::Del(kind) => {
                let get = format!("cx.handle(Kind::{kind}, {name} as u64)?");
                let _ = writeln!(self.reads, "let {local} = {get};");
                let _ = writeln!(self.after, "cx.destroy(Kind::{kind}, {local});");
            }
            Role::New(kind) => {
                let _ = writeln!(self.nulls, "not_null({name})?;");
                let _ = writeln!(self.creates, "let {local} = cx.create(Kind::{kind});");
                let _ = writeln!(self.undo, "cx.destroy(Kind::{kind}, {local});");
                let raw = format!("cx.raw(Kind::{kind}, {local}) as {}", a.pointee);
                let _ = writeln!(self.after, "{THEIRS}unsafe {{ {name}.write({raw}) }};");
            }
            Role::OutNumber(..) | Role::OutPlain(..) | Role::OutArray(_) => {
                self.comes_back(a, role);
                return;
            }
            Role::InRef(_) => {
                let _ = writeln!(
                    self.reads,
                    "{THEIRS}let {local} = unsafe {{ structure({name}) }}?;"
                );
            }
            Role::InArray(count, true) => {
                let _ = writeln!(
                    self.reads,
                    "let {local} = if {name}.is_null() {{ &[][..] }} else {{\n{THEIRS}\
                     unsafe {{ bytes_at({name}, {}) }}?\n}};",
                    counted(count)
                );
            }
            Role::InArray(count, false) => {
                let get = format!("bytes_at({name}, {})", counted(count));
                let _ = writeln!(self.reads, "{THEIRS}let {local} = unsafe {{ {get} }}?;");
            }
            Role::BytesIn(count) => {
                let get = format!("bytes_at({name}.cast::<u8>(), {})", counted(count));
                let _ = writeln!(self.reads, "{THEIRS}let {local} = unsafe {{ {get} }}?;");
            }
            Role::HandleArray(count, kind) => {
                let _ = writeln!(
                    self.reads,
                    "let mut {local} = Vec::new();\nfor i in 0..{} {{\nnot_null({name})?;\n\
                     {THEIRS}let raw = unsafe {{ {name}.add(i).read() }};\n\
                     {local}.push(cx.handle(Kind::{kind}, raw as u64)?);\n}}",
                    counted(count)
                );
            }
            Role::CStr => {
                let _ = writeln!(
                    self.reads,
                    "{THEIRS}let {local} = unsafe {{ text({name}) }}?;"
                );
            }
        }
        self.fields.push(if *f == value {
            value
        } else {
            format!("{f}: {value}")
        });
    }

    fn comes_back(&mut self, a: &Arg, role: &Role) {
        let Arg { name, field: f, .. } = a;
        let mut optional = false;
        let write = match role {
            Role::OutArray(count) => {
                format!(
                    "unsafe {{ fill({name}, {}, v_reply.{f}) }}?;",
                    counted(count)
                )
            }
            Role::OutPlain(_, o) => {
                optional = *o;
                format!("unsafe {{ put({name}, v_reply.{f}) }};")
            }
            Role::OutNumber(is_size, o) => {
                optional = *o;
                let size = if *is_size { " as usize" } else { "" };
                format!("unsafe {{ {name}.write(v_reply.{f}{size}) }};")
            }
            _ => return,
        };
        if optional {
            let _ = writeln!(self.after, "if !{name}.is_null() {{\n{THEIRS}{write}\n}}");
        } else {
            let _ = writeln!(self.nulls, "not_null({name})?;");
            let _ = writeln!(self.after, "{THEIRS}{write}");
        }
    }
}

fn counted(count: &Count) -> String {
    match count {
        Count::Fixed(n) => n.to_string(),
        Count::Param(p, 0) => format!("counted({p})?"),
        Count::Param(p, less) => format!("counted({p})?.saturating_sub({less})"),
    }
}

fn procs(api: &Api) -> String {
    let mut rows = Vec::new();
    for f in &api.families {
        for c in &f.calls {
            for (name, version) in &c.item.get_proc {
                rows.push((name, *version, format!("{}::{}", f.name, c.item.name), c));
            }
        }
    }
    rows.sort_by_key(|r| (r.0.clone(), r.1));
    let mut s = String::from(
        "use super::*;\n\n/// One entry point under one name, from one version of the API on.\n\
         #[derive(Debug, Clone, Copy)]\npub struct Proc {\n\
         /// The name that is asked for.\npub name: &'static str,\n\
         /// The first version that gets this function.\npub version: u32,\n\
         /// The function.\npub plain: *const (),\n\
         /// Its variant for per-thread default streams, or the function itself.\n\
         pub per_thread: *const (),\n}\n\n\
         // SAFETY: addresses of functions, which never change.\nunsafe impl Sync for Proc {}\n\n\
         /// By name, then by version.\npub static PROC_TABLE: &[Proc] = &[\n",
    );
    for (name, version, path, c) in rows {
        let suffix = c.item.per_thread.as_deref().unwrap_or_default();
        let _ = writeln!(
            s,
            "Proc {{ name: \"{name}\", version: {version}, plain: {path} as *const (), \
             per_thread: {path}{suffix} as *const () }},"
        );
    }
    s.push_str(
        "];

#[cfg(test)]
mod tests {
    use super::PROC_TABLE;

    #[test]
    fn the_table_is_sorted_by_name_and_version() {
        assert!(PROC_TABLE.is_sorted_by(|a, b| (a.name, a.version) < (b.name, b.version)));
    }
}
",
    );
    s
}

fn exports(api: &Api, result: &ResultConfig, f: &Family) -> String {
    let mut s = format!(
        "use busbar_abi::{0}::*;\n\
         use busbar_client::{0}::generated::{1} as client;\n\
         use std::ffi::{{c_char, c_void}};\n\n",
        api.name, f.name
    );
    for c in f.calls.iter().filter(|c| !c.item.unexported) {
        let name = &c.item.name;
        match c.item.sort {
            Sort::Message => {}
            Sort::Data => {
                let (ty, value) = data_type(c);
                let _ = writeln!(
                    s,
                    "// SAFETY: the name is the API's own.\n#[unsafe(no_mangle)]\n\
                     pub static {name}: {ty} = {value};\n"
                );
            }
            Sort::Function => {
                let args: Vec<_> = c.args.iter().map(|a| a.name.as_str()).collect();
                let suffixes = std::iter::once("").chain(c.item.per_thread.as_deref());
                let second = api.alias(name).map(|a| (a, name.clone()));
                let first = suffixes.map(|s| (format!("{name}{s}"), format!("{name}{s}")));
                for (exported, name) in first.chain(second) {
                    let _ = writeln!(
                        s,
                        "// SAFETY: the name is the API's own.\n#[unsafe(no_mangle)]\n\
                         pub unsafe extern \"C\" fn {exported}({}) -> {} {{\n\
                         // SAFETY: the arguments are the program's.\n\
                         unsafe {{ client::{name}({}) }}\n}}\n",
                        params(&c.args, |_| true),
                        returns(c, result),
                        args.join(", ")
                    );
                }
            }
        }
    }
    s
}
