//! The functions of an API that is found by a loader: what C calls, which makes arguments and codes
//! for the hand-written entry points; their table; and the exports of a shim that is a loader, too.

use crate::file::{ALLOW, Files, put, rust};
use crate::model::{Api, Arg, Call, Family};
use crate::spec::Class;
use quote::ToTokens as _;
use std::fmt::Write as _;

/// The functions and exports of an API that has a list of its loader's.
pub fn emit(api: &Api, files: &mut Files) {
    let (Some(shim), false) = (&api.config.shim, api.loader.is_empty()) else {
        return;
    };
    let dir = format!("crates/client/src/{}/generated", api.name);
    let (mut mods, mut exported_mods) = (String::new(), String::new());
    for f in &api.families {
        let name = &f.name;
        let text = family(api, f, function);
        if !text.is_empty() {
            let _ = writeln!(mods, "pub mod {name};");
            let about = format!("Functions: {}, {name}.", api.config.name);
            let text = format!("use super::*;\n\n{text}");
            put(files, format!("{dir}/{name}.rs"), rust(&about, &text));
        }
        let text = family(api, f, export);
        if !text.is_empty() {
            let _ = writeln!(exported_mods, "mod {name};");
            let about = format!("Exports: {}, {name}.", api.config.name);
            let text = format!(
                "use busbar_abi::{0}::types::*;\nuse busbar_client::{0}::generated;\n\
                 use std::ffi::{{c_char, c_void}};\n\n{text}",
                api.name
            );
            let path = format!("{shim}/src/generated/{name}.rs");
            put(files, path, rust(&about, &text));
        }
    }
    let about = format!("Functions: {}.", api.config.name);
    let text = format!("{ALLOW}{mods}\n{}", tables(api));
    put(files, format!("{dir}/mod.rs"), rust(&about, &text));
    let about = format!("Exports: {}.", api.config.name);
    let text = format!("{ALLOW}\n{exported_mods}");
    let path = format!("{shim}/src/generated/mod.rs");
    put(files, path, rust(&about, &text));
}

/// What becomes of a function.
enum Does<'a> {
    /// That of this line's entry point.
    Calls(&'a Call),
    /// It is refused, and a loader may call it nevertheless.
    Refuses,
    /// It is not there at all.
    Nothing,
}

fn does<'a>(api: &'a Api, c: &'a Call) -> Does<'a> {
    match &c.item.class {
        Class::Local | Class::Custom => Does::Calls(c),
        Class::Is(to, _) => api.find(to).map_or(Does::Nothing, Does::Calls),
        Class::Unsupported(_) if api.loader.contains(&c.item.name) => Does::Refuses,
        _ => Does::Nothing,
    }
}

fn family(api: &Api, f: &Family, one: fn(&Api, &Call) -> String) -> String {
    f.calls.iter().map(|c| one(api, c)).collect()
}

fn list(args: &[Arg], text: impl Fn(&Arg) -> String) -> String {
    let list: Vec<_> = args.iter().map(text).collect();
    list.join(", ")
}

/// A function's head; what it does not use is marked so, but for its code's place.
fn signature(c: &Call, used: bool) -> String {
    let result = match &c.item.result {
        Some(ty) => format!(" -> {}", ty.to_token_stream()),
        None => String::new(),
    };
    let mark = |a: &Arg| if used || a.name == CODE { "" } else { "_" };
    let args = list(&c.args, |a| format!("{}{}: {}", mark(a), a.name, a.ty));
    format!("pub unsafe extern \"C\" fn {}({args}){result}", c.item.name)
}

/// The place of a function's code, where that is not what it returns.
pub(super) const CODE: &str = "errcode_ret";

fn code(c: &Call) -> Option<&Arg> {
    c.args.last().filter(|a| a.name == CODE)
}

fn returns_code(c: &Call) -> bool {
    let result = c.item.result.as_ref();
    result.is_some_and(|ty| ty.to_token_stream().to_string() == "i32")
}

/// C's names of objects, each of which says where it lives, and the client's names of their kinds.
pub(super) const OBJECTS: [(&str, &str); 8] = [
    ("cl_command_queue", "Queue"),
    ("cl_context", "Context"),
    ("cl_device_id", "Device"),
    ("cl_event", "Event"),
    ("cl_kernel", "Kernel"),
    ("cl_mem", "Memory"),
    ("cl_program", "Program"),
    ("cl_sampler", "Sampler"),
];

/// The kind of object that an argument is.
pub(super) fn kind(a: &Arg) -> Option<&'static str> {
    let found = OBJECTS.iter().find(|o| o.0 == a.ty);
    found.map(|o| o.1)
}

/// What is called for a function. All objects are retained and released in one way.
fn target(to: &Call, c: &Call) -> String {
    let (family, name) = (&to.item.family, &to.item.name);
    if let [a] = &c.args[..]
        && let Some(kind) = kind(a)
    {
        for act in ["Retain", "Release"] {
            if name.starts_with(&format!("cl{act}")) {
                let act = act.to_lowercase();
                return format!("object::{act}::<call::{kind}>(take({})?)", a.name);
            }
        }
    }
    format!("entry::{family}::{name}({})", arguments(c))
}

/// Whether two arguments are one thing: a place and its size, the distances of rows and of slices.
fn belongs(a: &Arg, b: &Arg) -> bool {
    let pitch = a
        .name
        .strip_suffix("row_pitch")
        .map(|of| format!("{of}slice_pitch"));
    (a.name == "origin" && b.name == "region") || pitch.is_some_and(|p| p == b.name)
}

/// The arguments of an entry point. Arguments that belong together become one.
fn arguments(c: &Call) -> String {
    let mut out = Vec::new();
    let first = c.args.first();
    if first.and_then(kind).is_none() {
        // Nothing says which client is meant.
        out.push("client()".to_owned());
    }
    let args = &c.args[..c.args.len() - usize::from(code(c).is_some())];
    let mut rest = args;
    while let [a, after @ ..] = rest {
        let name = &a.name;
        let (text, taken) = match after {
            [b, c, ..] if name == "param_value_size" => {
                (format!("Answer::new({name}, {}, {})", b.name, c.name), 3)
            }
            [b, c, ..] if name == "num_events_in_wait_list" => {
                (format!("Events::new({name}, {}, {})", b.name, c.name), 3)
            }
            [b, ..] if belongs(a, b) => (format!("(take({name})?, take({})?)", b.name), 2),
            [b, ..] if a.ty == "u32" && b.ty.starts_with("*const cl_") => {
                (format!("Handles::new({name}, {})", b.name), 2)
            }
            [b, c, ..] if a.ty == "u32" && b.ty.starts_with("*mut") && c.ty == "*mut u32" => {
                (format!("Room::new({name}, {}, {})", b.name, c.name), 3)
            }
            _ => (format!("take({name})?"), 1),
        };
        out.push(text);
        rest = &rest[taken..];
    }
    out.join(", ")
}

/// What C calls.
fn function(api: &Api, c: &Call) -> String {
    let name = &c.item.name;
    let place = code(c).map_or("std::ptr::null_mut()", |a| &a.name);
    let body = match does(api, c) {
        Does::Nothing => return String::new(),
        Does::Calls(to) => {
            let call = target(to, c);
            match &c.item.result {
                Some(_) if !returns_code(c) => format!(
                    "// SAFETY: the arguments are the program's.\n\
                     unsafe {{ life::object({place}, || {call}).cast() }}"
                ),
                result => format!(
                    "// SAFETY: the arguments are the program's.\n\
                     life::status(|| unsafe {{ {call} }}){}",
                    if result.is_some() { "" } else { ";" }
                ),
            }
        }
        Does::Refuses if returns_code(c) => "CL_INVALID_OPERATION".to_owned(),
        Does::Refuses if c.item.result.is_none() => String::new(),
        Does::Refuses => format!(
            "// SAFETY: the place is the program's.\n\
             unsafe {{ life::object({place}, || Err::<Handle, _>(CL_INVALID_OPERATION)).cast() }}"
        ),
    };
    let used = matches!(does(api, c), Does::Calls(_));
    let head = signature(c, used);
    format!("/// `{name}`.\n{head} {{\n{body}\n}}\n\n")
}

/// What a shim that is a loader exports.
fn export(api: &Api, c: &Call) -> String {
    if !api.loader.contains(&c.item.name) {
        return String::new();
    }
    let family = api.families.iter().find(|f| {
        let mut names = f.calls.iter().map(|c| &c.item.name);
        names.any(|n| *n == c.item.name)
    });
    format!(
        "// SAFETY: the name is the API's own.\n#[unsafe(no_mangle)]\n{} {{\n\
         // SAFETY: passed on to the caller.\n\
         unsafe {{ generated::{}::{}({}) }}\n}}\n\n",
        signature(c, true),
        family.map_or("", |f| &f.name),
        c.item.name,
        list(&c.args, |a| a.name.clone()),
    )
}

/// The table that objects begin with, and functions by name.
fn tables(api: &Api) -> String {
    let (mut named, mut refused) = (String::new(), String::new());
    for f in &api.families {
        for c in &f.calls {
            let to = match does(api, c) {
                Does::Calls(_) => &mut named,
                Does::Refuses => &mut refused,
                Does::Nothing => continue,
            };
            let name = &c.item.name;
            let _ = writeln!(
                to,
                "(\"{name}\", Function({}::{name} as *const c_void)),",
                f.name
            );
        }
    }
    format!(
        "
use crate::{0}::arguments::{{Answer, Events, Handles, Room, take}};
use crate::{0}::call::{{self, Client, Function}};
use crate::{0}::state::object;
use crate::{0}::{{entry, life}};
use busbar_abi::{0}::types::*;
use busbar_abi::{0}::{{CL_INVALID_OPERATION, DISPATCH, Handle, slot}};
use std::ffi::{{c_char, c_void}};

/// Every function that does something, by its name.
const NAMED: &[(&str, Function)] = &[{named}];

const REFUSED: &[(&str, Function)] = &[{refused}];

/// Stands for a function that is not there.
unsafe extern \"C\" fn refuse() -> i32 {{
    CL_INVALID_OPERATION
}}

/// The loader's dispatch table, with which every object begins.
static TABLE: [Function; DISPATCH.len()] = {{
    let mut table = [Function(refuse as *const c_void); DISPATCH.len()];
    let lists = [NAMED, REFUSED];
    let (mut i, mut j) = (0, 0);
    while i < lists.len() {{
        while j < lists[i].len() {{
            if let Some(at) = slot(lists[i][j].0) {{
                table[at] = lists[i][j].1;
            }}
            j += 1;
        }}
        (i, j) = (i + 1, 0);
    }}
    table
}};

/// All functions, for objects and for those who look one up.
pub fn functions() -> life::Functions {{
    life::Functions {{ table: &TABLE, by_name: NAMED }}
}}

fn client() -> &'static Client {{
    life::client(functions())
}}
",
        api.name
    )
}
