//! Dispatch: `crates/worker/src/<api>/generated`.

use super::{ALLOW, put, rust};
use crate::Files;
use crate::model::{Api, Arg, Call, Family, Role};
use crate::spec::{Count, Sort};
use std::fmt::Write as _;

/// The worker's side of one API.
pub fn emit(api: &Api, files: &mut Files) {
    let Some(state) = &api.config.worker_state else {
        return;
    };
    let dir = format!("crates/worker/src/{}/generated", api.name);
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
         use busbar_wire::record::Header;\nuse crate::{0}::{state};\n",
        api.name
    );
    let _ = writeln!(
        s,
        "/// Decodes one request, makes the call and answers. An error is the client's fault, and \
         ends\n/// its session.\n\
         pub fn dispatch(w: &mut {state}, h: &Header, body: &[u8]) -> Result<(), WireError> {{\n\
         match h.op {{"
    );
    for f in &families {
        for c in f.calls.iter().filter(|c| c.travels()) {
            let _ = writeln!(s, "op::{} => {}::{}(w, h, body),", c.op, f.name, c.snake);
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
use busbar_abi::Plain;
use busbar_wire::limits::MAX_BYTES;

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
    let items = busbar_abi::items_from_bytes(bytes).ok_or(WireError::BadValue(\"list\"))?;
    if items.len() == count {{ Ok(items) }} else {{ Err(WireError::BadValue(\"count of a list\")) }}
}}

/// Room for a list that the driver fills.
fn room<T: Plain>(count: usize) -> Result<Vec<T>, {rc}> {{
    match count.checked_mul(size_of::<T>()) {{
        Some(bytes) if bytes <= MAX_BYTES => Ok(vec![busbar_abi::zeroed(); count]),
        _ => Err({invalid}),
    }}
}}
"
    )
}

fn family(api: &Api, f: &Family, state: &str) -> String {
    let mut s = String::from("#[allow(unused_imports)]\nuse super::*;\n");
    if api.config.functions {
        let _ = writeln!(
            s,
            "#[allow(unused_imports)]\nuse busbar_abi::{}::*;\n#[allow(unused_imports)]\nuse std::ffi::{{c_char, c_void}};",
            api.name
        );
    }
    let _ = writeln!(
        s,
        "use busbar_wire::codec::{{Message as _, Reader}};\n\
         use busbar_wire::generated::{0} as wire;\n\
         #[allow(unused_imports)]\nuse wire::Kind;\n",
        api.name
    );
    if api.config.handles.is_empty() {
        s = s.replace("#[allow(unused_imports)]\nuse wire::Kind;\n", "");
    }
    for c in f.calls.iter().filter(|c| c.travels()) {
        let _ = writeln!(
            s,
            "pub(super) fn {}(w: &mut {state}, h: &Header, body: &[u8]) -> Result<(), WireError> {{\n\
             let mut r = Reader::new(body);\n\
             let m = wire::{}::decode(&mut r)?;\nr.finish()?;",
            c.snake, c.message
        );
        if c.worker_by_hand() {
            by_hand(api, c, &mut s);
        } else {
            call(c, &mut s);
        }
        s.push_str("}\n\n");
    }
    s
}

fn by_hand(api: &Api, c: &Call, s: &mut String) {
    // A function whose client side alone is missing has nothing to be refused here.
    let missing = c.item.todo && (c.item.sort == Sort::Message || c.item.by_hand_worker);
    match &api.config.result {
        Some(result) if missing => {
            let rc = format!("busbar_abi::{}::{}", api.name, result.not_supported);
            if c.waits() {
                let _ = writeln!(s, "w.reply(h, {rc}, |_| {{}});");
            } else {
                let _ = writeln!(s, "w.done(h, {rc});");
            }
            s.push_str("Ok(())\n");
        }
        _ if missing => {
            let _ = writeln!(s, "Err(WireError::UnknownOp(h.op))");
        }
        _ => {
            let _ = writeln!(
                s,
                "crate::{}::{}::{}(w, h, m)",
                api.name, c.item.family, c.snake
            );
        }
    }
}

fn call(c: &Call, s: &mut String) {
    let mut before = String::new();
    let mut inside = String::new();
    let mut after = String::new();
    let mut args = Vec::new();
    let mut reply = Vec::new();
    for a in &c.args {
        if let Some(role) = &a.role {
            arg(
                c,
                a,
                role,
                &mut before,
                &mut inside,
                &mut after,
                &mut args,
                &mut reply,
            );
        }
    }
    s.push_str(&before);
    let _ = writeln!(
        s,
        "let rc = attempt(|| {{\n{inside}\
         // SAFETY: handles come from the tables, and what pointers point to lives through the call.\n\
         check(unsafe {{ w.driver.{}({}) }})?;\n{after}Ok(())\n}});",
        c.item.name,
        args.join(", ")
    );
    if !c.waits() {
        s.push_str("w.done(h, rc);\n");
    } else if reply.is_empty() {
        s.push_str("w.reply(h, rc, |_| {});\n");
    } else {
        let _ = writeln!(
            s,
            "w.reply(h, rc, |wr| wire::{}Reply {{ {} }}.encode(wr));",
            c.message,
            reply.join(", ")
        );
    }
    s.push_str("Ok(())\n");
}

#[expect(
    clippy::too_many_arguments,
    reason = "one accumulator per part of the function"
)]
fn arg(
    c: &Call,
    a: &Arg,
    role: &Role,
    before: &mut String,
    inside: &mut String,
    after: &mut String,
    args: &mut Vec<String>,
    reply: &mut Vec<String>,
) {
    let f = &a.field;
    let local = format!("v_{}", f.trim_start_matches("r#"));
    let target = &a.pointee;
    match role {
        Role::Number(true) => args.push(format!("m.{f} as usize")),
        // The program's devices are those it may see, in its own order.
        Role::Number(false) if a.ty == "CUdevice" => {
            args.push(format!("w.device(m.{f})?"));
        }
        Role::Number(false) => args.push(format!("m.{f}")),
        Role::Address => args.push(format!("m.{f} as {}", a.ty)),
        Role::Handle(kind, optional, stream) => {
            let get = if *stream {
                format!("w.stream(m.{f})?")
            } else if *optional {
                format!("if m.{f} == 0 {{ 0 }} else {{ w.handle(Kind::{kind}, m.{f})? }}")
            } else {
                format!("w.handle(Kind::{kind}, m.{f})?")
            };
            let _ = writeln!(inside, "let {local} = {get};");
            args.push(format!("{local} as {}", a.ty));
        }
        Role::Del(kind) => {
            let _ = writeln!(inside, "let {local} = w.handle(Kind::{kind}, m.{f})?;");
            let _ = writeln!(after, "w.remove(Kind::{kind}, m.{f});");
            args.push(format!("{local} as {}", a.ty));
        }
        Role::New(kind) => {
            let _ = writeln!(inside, "let mut {local}: {target} = busbar_abi::zeroed();");
            let _ = writeln!(after, "w.store(Kind::{kind}, m.{f}, {local} as u64);");
            args.push(format!("&mut {local}"));
        }
        Role::OutNumber(is_size, _) => {
            let _ = writeln!(before, "let mut {local}: {target} = busbar_abi::zeroed();");
            reply.push(if *is_size {
                format!("{f}: {local} as u64")
            } else {
                format!("{f}: {local}")
            });
            args.push(format!("&mut {local}"));
        }
        Role::OutPlain(..) => {
            let _ = writeln!(before, "let mut {local}: {target} = busbar_abi::zeroed();");
            reply.push(format!(
                "{f}: busbar_abi::from_bytes(busbar_abi::bytes_of(&{local})).unwrap_or_else(busbar_abi::zeroed)"
            ));
            args.push(format!("&mut {local}"));
        }
        Role::OutArray(count) => {
            let _ = writeln!(before, "let mut {local}: Vec<{target}> = Vec::new();");
            let _ = writeln!(inside, "{local} = room({})?;", number(c, count));
            reply.push(format!("{f}: busbar_abi::slice_bytes(&{local})"));
            args.push(format!("{local}.as_mut_ptr()"));
        }
        Role::InRef(_) => {
            let _ = writeln!(
                before,
                "let {}{local}: {target} = busbar_abi::from_bytes(&m.{f})\
                 .ok_or(WireError::BadValue(\"structure\"))?;",
                if a.ty.starts_with("*mut") { "mut " } else { "" }
            );
            args.push(if a.ty.starts_with("*mut") {
                format!("&mut {local}")
            } else {
                format!("&{local}")
            });
        }
        Role::InArray(count, optional) => {
            let is_mut = a.ty.starts_with("*mut");
            let word = if is_mut { "mut " } else { "" };
            let n = number(c, count);
            let n = if *optional {
                // No bytes stand for the null pointer.
                format!("if m.{f}.is_empty() {{ 0 }} else {{ {n} }}")
            } else {
                n
            };
            let _ = writeln!(before, "let {word}{local} = list::<{target}>(m.{f}, {n})?;");
            let (get, null) = if is_mut {
                ("as_mut_ptr", "null_mut")
            } else {
                ("as_ptr", "null")
            };
            args.push(if *optional {
                format!("if {local}.is_empty() {{ std::ptr::{null}() }} else {{ {local}.{get}() }}")
            } else {
                format!("{local}.{get}()")
            });
        }
        Role::HandleArray(count, kind) => {
            let _ = writeln!(
                before,
                "if m.{f}.len() != {} {{ return Err(WireError::BadValue(\"count of a list\")); }}",
                number(c, count)
            );
            let _ = writeln!(
                inside,
                "let mut {local} = Vec::with_capacity(m.{f}.len());\nfor id in &m.{f} {{\n\
                 {local}.push(w.handle(Kind::{kind}, *id)? as {target});\n}}"
            );
            args.push(format!("{local}.as_ptr()"));
        }
        Role::BytesIn(count) => {
            let _ = writeln!(
                before,
                "if m.{f}.len() != {} {{ return Err(WireError::BadValue(\"count of a list\")); }}",
                number(c, count)
            );
            args.push(format!("m.{f}.as_ptr().cast()"));
        }
        Role::CStr => {
            let _ = writeln!(
                before,
                "let {local} = std::ffi::CString::new(m.{f}).map_err(|_| WireError::BadText)?;"
            );
            args.push(format!("{local}.as_ptr()"));
        }
    }
}

fn number(c: &Call, count: &Count) -> String {
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
