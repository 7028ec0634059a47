//! The library that a worker loads of an API whose functions a loader finds: their table, and the
//! messages for which one of them is called: `crates/worker/src/<api>/generated`.

use super::loader::{CODE, kind};
use crate::file::{Files, put, rust};
use crate::model::{Api, Arg, Call, Wire, snake};
use crate::spec::{Act, Class};
use quote::ToTokens as _;
use std::fmt::Write as _;
use syn::Expr;

/// The library's functions and the calls of one API.
pub fn emit(api: &Api, files: &mut Files) {
    let Some(state) = &api.config.worker_state else {
        return;
    };
    if api.config.result.is_some() || !api.config.functions {
        return;
    }
    let dir = format!("crates/worker/src/{}/generated", api.name);
    let about = format!("The functions of a loaded library: {}.", api.config.name);
    put(
        files,
        format!("{dir}/library.rs"),
        rust(&about, &table(api)),
    );
    let mut s = format!(
        "use crate::{0}::prelude::*;\nuse crate::{0}::cl::make;\n\
         use crate::{0}::objects::Object;\n\n\
         /// Three sizes for the library.\n\
         fn sizes(v: &[u64; 3]) -> [usize; 3] {{\nv.map(|x| x as usize)\n}}\n\n\
         impl {state} {{\n",
        api.name
    );
    for c in api.calls() {
        if let Some((name, args)) = &c.item.calls {
            let Some(f) = api.find(name) else {
                panic!("{}: no function is called {name}", c.item.place);
            };
            s.push_str(&method(c, f, args));
        }
    }
    s.push_str("}\n");
    let about = format!(
        "Messages that are one call of the library: {}.",
        api.config.name
    );
    put(files, format!("{dir}/calls.rs"), rust(&about, &s));
}

/// The functions that the worker may call.
fn in_table(c: &&Call) -> bool {
    c.is_function() && !c.item.class.is_refused() && !matches!(c.item.class, Class::Is(..))
}

fn table(api: &Api) -> String {
    let mut s = format!(
        "use busbar_abi::{}::types::*;\nuse std::ffi::{{CStr, c_char, c_void}};\n\n\
         /// Entry points by name.\npub struct Library {{\n",
        api.name
    );
    let pointer = |c: &Call| {
        let types: Vec<_> = c.args.iter().map(|a| a.ty.as_str()).collect();
        let result = c.item.result.as_ref();
        let result = result.map_or(String::new(), |ty| format!(" -> {}", ty.to_token_stream()));
        format!("unsafe extern \"C\" fn({}){result}", types.join(", "))
    };
    let (mut fields, mut values) = (String::new(), String::new());
    for c in api.calls().filter(in_table) {
        let name = &c.item.name;
        let _ = writeln!(fields, "pub {name}: {},", pointer(c));
        let _ = writeln!(values, "{name}: function(get(c\"{name}\")),");
    }
    let _ = write!(
        s,
        "{fields}}}\n\nimpl Library {{\n/// Asks `get` for every entry point.\n///\n\
         /// # Safety\n/// What `get` returns is the API's function of that name, or one\n\
         /// that takes any arguments.\n\
         pub unsafe fn load(get: impl Fn(&CStr) -> *const c_void) -> Self {{\n\
         // SAFETY: the caller vouches for the addresses.\n\
         unsafe {{\nSelf {{\n{values}}}\n}}\n}}\n}}\n\n\
         /// An address as a function.\n///\n/// # Safety\n\
         /// `T` is the pointer type of the function at `p`.\n\
         unsafe fn function<T: Copy>(p: *const c_void) -> T {{\n\
         const {{ assert!(size_of::<T>() == size_of::<*const c_void>()) }};\n\
         // SAFETY: the caller vouches for the type.\n\
         unsafe {{ std::mem::transmute_copy(&p) }}\n}}\n"
    );
    s
}

/// What is looked up or made ahead of a call, and its arguments.
#[derive(Default)]
struct Parts {
    /// Results of looking objects up, each by the name of its variable.
    found: Vec<(String, String)>,
    /// What arguments point to.
    made: Vec<String>,
    args: Vec<String>,
}

impl Parts {
    fn find(&mut self, local: String, how: String) -> String {
        self.found.push((local.clone(), how));
        local
    }

    /// One argument: a field, an item of one, a number, a list's length (`len(f)`), a range of
    /// shared memory (`svm(at, size)`), or the bytes that a command reads (`data`) or fills
    /// (`place`), of which each piece begins where `at(f)` says.
    fn add(&mut self, c: &Call, a: &Arg, e: &Expr) {
        let text = e.to_token_stream().to_string().replace(' ', "");
        let wire = c.request.iter().find(|f| f.name == text).map(|f| &f.wire);
        let (local, size) = (format!("v_{text}"), a.ty == "usize");
        let arg = match (e, wire) {
            (Expr::Call(call), _) if call.func.to_token_stream().to_string() == "svm" => {
                let range: Vec<_> = call.args.iter().map(|a| a.to_token_stream()).collect();
                let size = match &call.args[1] {
                    Expr::Call(_) => "data.bytes().len() as u64".to_owned(),
                    _ => format!("m.{}", range[1]),
                };
                let how = format!("self.svm_range(m.{}, {size})", range[0]);
                self.find(format!("v_{}", range[0]), how)
            }
            (Expr::Call(call), _) if call.func.to_token_stream().to_string() == "at" => {
                let f = call.args[0].to_token_stream();
                match &call.args[0] {
                    Expr::Call(_) => {
                        self.add(c, a, &call.args[0]);
                        let start = self.args.pop().unwrap_or_default();
                        format!("{start}.wrapping_byte_add(piece.offset as usize)")
                    }
                    _ => format!("m.{f}.wrapping_add(piece.offset) as usize"),
                }
            }
            (Expr::Call(_), _) if text == "len(data)" || text == "len(place)" => {
                "bytes.len()".to_owned()
            }
            (_, _) if text == "data" => "bytes.as_ptr().cast()".to_owned(),
            (_, _) if text == "place" => "bytes.as_mut_ptr().cast()".to_owned(),
            (Expr::Call(call), _) => {
                let list = call.args[0].to_token_stream().to_string();
                let found = self.found.iter().any(|f| f.0 == format!("v_{list}"));
                let list = if found {
                    format!("v_{list}")
                } else {
                    format!("m.{list}")
                };
                format!("{list}.len() as {}", a.ty)
            }
            (Expr::Index(_), _) => format!("m.{text} as {}", a.ty),
            (_, Some(Wire::Number(_))) => match kind(a) {
                Some(of) => {
                    let of = snake(of);
                    let raw = if of == "queue" { ".map(|q| q.raw)" } else { "" };
                    self.find(local, format!("self.objects.{of}(m.{text}){raw}"))
                }
                None if size => format!("m.{text} as usize"),
                None => format!("m.{text}"),
            },
            (_, Some(Wire::U32s)) => {
                let how = format!(
                    "m.{text}.iter().map(|id| self.objects.memory(*id)).collect::<\
                     Result<Vec<_>, _>>()"
                );
                self.find(local.clone(), how);
                format!("{local}.as_ptr()")
            }
            (_, Some(Wire::Array("u64", 3))) => {
                self.made.push(format!("let {local} = sizes(&m.{text});\n"));
                format!("{local}.as_ptr()")
            }
            (_, Some(_)) => format!("m.{text}.as_ptr().cast()"),
            (_, None) => text,
        };
        self.args.push(arg);
    }
}

/// The handler of a message that is one call.
fn method(c: &Call, f: &Call, args: &[Expr]) -> String {
    let params = match &f.args[..] {
        [rest @ .., a] if a.name == CODE => rest,
        // The wait list and the place of the event.
        [rest @ .., _, _, event] if event.name == "event" => rest,
        all => all,
    };
    assert_eq!(
        args.len(),
        params.len(),
        "{}: arguments of {}",
        c.item.place,
        f.item.name
    );
    let waits = f.args.last().is_some_and(|a| a.name == "event");
    let borrowed = c
        .request
        .iter()
        .any(|f| matches!(f.wire, Wire::Bytes | Wire::Rest | Wire::Str));
    let mut s = format!(
        "/// `{}`.\npub fn {}(&mut self, m: wire::{}{}) -> Result<{}, Fail> {{\n",
        f.item.name,
        c.snake,
        c.message,
        if borrowed { "<'_>" } else { "" },
        if c.waits() && waits { "Answered" } else { "()" }
    );
    let mut parts = Parts::default();
    // A command's queue is looked up by the one that enqueues it.
    let skipped = usize::from(waits);
    for (a, e) in params.iter().zip(args).skip(skipped) {
        parts.add(c, a, e);
    }
    let (name, given) = (&f.item.name, parts.args.join(", "));
    let made: String = parts.made.concat();
    let found = |ask: &str| -> String {
        let one = |(v, how): &(String, String)| format!("let {v} = {how}{ask};\n");
        parts.found.iter().map(one).collect()
    };
    let creates = c.effects.iter().find(|e| e.act == Act::Creates);
    let uses = |word: &str| {
        let mut words = args.iter().map(|e| e.to_token_stream().to_string());
        words.any(|w| w == word)
    };
    let again: String = parts
        .found
        .iter()
        .map(|(v, _)| format!("let {v} = {v}?;\n"))
        .collect();
    if uses("data") {
        let _ = write!(
            s,
            "let data = self.data(m.blob, m.data)?;\n{}{made}let ids = (m.queue, m.event);\n\
             self.enqueue_from(ids, &m.waits, data, |this, q, bytes, n, list, e| {{\n{again}\
             // SAFETY: objects of ours; the bytes are kept until the command has run.\n\
             Ok(unsafe {{ (this.cl.{name})(q, {given}, n, list, e) }})\n}})\n}}\n\n",
            found("")
        );
    } else if uses("place") {
        let _ = write!(
            s,
            "{}{made}let (ids, area) = ((m.queue, m.event), ([m.size, 1, 1], 1));\n\
             self.enqueue_to(ids, &m.waits, area, |this, q, piece, bytes, n, list, e| {{\n{again}\
             // SAFETY: objects of ours; the memory is kept until the command has run.\n\
             Ok(unsafe {{ (this.cl.{name})(q, {given}, n, list, e) }})\n}})\n}}\n\n",
            found("")
        );
    } else if waits {
        let again: String = parts
            .found
            .iter()
            .map(|(v, _)| format!("let {v} = {v}?;\n"))
            .collect();
        let _ = write!(
            s,
            "{}{made}self.command(m.queue, m.event, &m.waits, |this, q, n, list, e| {{\n{again}\
             // SAFETY: objects of ours; ranges and boxes are checked by the library, and what\n\
             // pointers point to is read by the call.\n\
             Ok(unsafe {{ (this.cl.{name})(q, {given}, n, list, e) }})\n}})\n}}\n\n",
            found("")
        );
    } else if let Some(e) = creates {
        let field = match &e.at {
            crate::model::At::Field(f) => f,
            _ => panic!("{}: nothing names what is created", c.item.place),
        };
        let _ = write!(
            s,
            "let make = || {{\n{}{made}\
             // SAFETY: objects of ours.\n\
             make(|code| unsafe {{ (self.cl.{name})({given}, code) }})\n}};\n\
             let made = make().map(Object::{});\nself.keep(m.{field}, made)\n}}\n\n",
            found("?"),
            e.kind
        );
    } else {
        let _ = write!(
            s,
            "{}{made}// SAFETY: objects of ours; all else is checked by the library.\n\
             ok(unsafe {{ (self.cl.{name})({given}) }})?;\nOk(())\n}}\n\n",
            found("?")
        );
    }
    s
}
