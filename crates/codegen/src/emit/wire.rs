//! Messages: `crates/wire/src/generated`.

use crate::file::{BANNER, Files, put, rust};
use crate::model::{Api, Call, Family, Field, Wire};
use crate::spec::Class;
use std::fmt::Write as _;

const ROOT: &str = "crates/wire/src/generated";

/// The module that names every API.
pub fn root(apis: &[Api], files: &mut Files) {
    let mut s = String::from("#![allow(missing_docs, clippy::module_inception)]\n\n");
    for api in apis.iter().filter(|a| a.travels()) {
        let _ = writeln!(s, "pub mod {};", api.name);
    }
    s.push_str("#[cfg(test)]\nmod sample;\n");
    put(
        files,
        format!("{ROOT}/mod.rs"),
        rust("Messages of every API, from `spec/`.", &s),
    );
    put(
        files,
        format!("{ROOT}/sample.rs"),
        format!("{BANNER}{}", include_str!("sample.rs.txt")),
    );
}

/// The messages of one API.
pub fn emit(api: &Api, files: &mut Files) {
    let dir = format!("{ROOT}/{}", api.name);
    let mut s = String::new();
    let families: Vec<_> = api
        .families
        .iter()
        .filter(|f| f.calls.iter().any(Call::travels))
        .collect();
    for f in &families {
        let _ = writeln!(s, "mod {};", f.name);
    }
    for f in &families {
        let _ = writeln!(s, "pub use {}::*;", f.name);
    }
    s.push_str("\n/// Message ids.\npub mod op {\n");
    let mut calls: Vec<_> = api.calls().filter(|c| c.travels()).collect();
    calls.sort_by_key(|c| c.item.id);
    for c in &calls {
        let _ = writeln!(
            s,
            "pub const {}: u16 = {:#06x};",
            c.op,
            c.item.id.unwrap_or_default()
        );
    }
    s.push_str("}\n\n/// Message ids and names, in order of id.\n");
    s.push_str("pub static NAMES: &[(u16, &str)] = &[\n");
    for c in &calls {
        let _ = writeln!(s, "(op::{}, \"{}\"),", c.op, c.item.name);
    }
    s.push_str(
        "];\n\n/// The name of a message.\npub fn name(op: u16) -> Option<&'static str> {\n\
         let at = NAMES.binary_search_by_key(&op, |n| n.0).ok()?;\nSome(NAMES[at].1)\n}\n\n",
    );
    if api.contract.is_some() {
        s.push_str("pub mod contract;\n");
    }
    kinds(api, &mut s);
    put(
        files,
        format!("{dir}/mod.rs"),
        rust(&format!("Messages: {}.", api.config.name), &s),
    );
    for f in families {
        let about = format!("Messages: {}, {}.", api.config.name, f.name);
        put(
            files,
            format!("{dir}/{}.rs", f.name),
            rust(&about, &family(f)),
        );
    }
}

fn kinds(api: &Api, s: &mut String) {
    let kinds: Vec<_> = api.config.kinds.keys().collect();
    if kinds.is_empty() {
        return;
    }
    s.push_str(
        "mod effects;\npub use effects::effects;\n\n/// The kinds of objects.\n\
         #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]\n\
         #[repr(u8)]\npub enum Kind {\n",
    );
    for k in &kinds {
        let _ = writeln!(s, "{k},");
    }
    let _ = write!(s, "}}\n\nimpl Kind {{\n/// How many there are.\n");
    let _ = writeln!(s, "pub const COUNT: usize = {};", kinds.len());
    let _ = write!(
        s,
        "/// All of them, by number.\npub const ALL: [Self; Self::COUNT] = ["
    );
    for k in &kinds {
        let _ = write!(s, "Self::{k},");
    }
    s.push_str("];\n\n/// Its name.\npub const fn name(self) -> &'static str {\nmatch self {\n");
    for k in &kinds {
        let _ = writeln!(s, "Self::{k} => \"{k}\",");
    }
    s.push_str("}\n}\n}\n");
}

/// When the sender goes on; without a word, never.
fn queued(c: &Call) -> String {
    let mut about = String::new();
    if let Class::QueuedIf(condition) = &c.item.class {
        about = format!("// {condition}\n");
    }
    if c.waits() {
        return String::new();
    }
    let of_stream = |f: &&Field| matches!(&*f.name, "stream" | "h_stream");
    let stream = c.request.iter().find(of_stream).map_or(String::new(), |f| {
        let own = format!("Some(self.{})", f.name);
        format!("\n\n#[inline]\nfn on_stream(&self) -> Option<u32> {{\n{own}\n}}")
    });
    format!(
        "\n\n#[inline]\nfn queued(&self) -> bool {{\n{about}{}\n}}{stream}",
        c.queued
    )
}

fn family(f: &Family) -> String {
    let mut s = String::from(
        "use super::op;\n#[allow(unused_imports)]\nuse crate::codec::Asks;\n\
         use crate::codec::{Message, Reader, Request, WireError, Writer};\n\n",
    );
    let mut names = Vec::new();
    for c in f.calls.iter().filter(|c| c.travels()) {
        for d in &c.item.docs {
            let _ = writeln!(s, "///{d}");
        }
        if c.item.docs.is_empty() {
            let _ = writeln!(s, "/// `{}`.", c.item.name);
        }
        structure(&mut s, &c.message, &c.request);
        let (generics, life) = lifetimes(&c.request);
        let _ = writeln!(
            s,
            "impl<'a> Request<'a> for {}{generics} {{\nconst OP: u16 = op::{};\n\
             const NAME: &'static str = \"{}\";{}\n}}\n",
            c.message,
            c.op,
            c.item.name,
            queued(c)
        );
        let open = c.request.iter().any(|f| matches!(f.wire, Wire::Rest));
        names.push((format!("{}{}", c.message, life), open));
        if !c.reply.is_empty() {
            let _ = writeln!(s, "/// The reply to [`{}`].", c.message);
            let name = format!("{}Reply", c.message);
            structure(&mut s, &name, &c.reply);
            if lifetimes(&c.reply).0.is_empty() {
                let asks = format!("impl<'a> Asks<'a> for {}{generics}", c.message);
                let _ = writeln!(s, "{asks} {{\ntype Reply = {name};\n}}\n");
            }
            names.push((format!("{name}{}", lifetimes(&c.reply).1), false));
        }
    }
    s.push_str(
        "#[cfg(test)]\nmod tests {\nuse super::*;\n\
         use crate::generated::sample::{Gen, Sample, check};\n\n",
    );
    for c in f.calls.iter().filter(|c| c.travels()) {
        sample(&mut s, &c.message, &c.request);
        if !c.reply.is_empty() {
            sample(&mut s, &format!("{}Reply", c.message), &c.reply);
        }
    }
    s.push_str("#[test]\nfn every_message_survives_the_wire_whole_or_not_at_all() {\n");
    for (n, open) in names {
        let _ = writeln!(s, "check::<{n}>({open});");
    }
    s.push_str("}\n}\n");
    s
}

/// Generics of a message type, where declared and where used for good.
fn lifetimes(fields: &[Field]) -> (&'static str, &'static str) {
    if fields
        .iter()
        .any(|f| matches!(f.wire, Wire::Bytes | Wire::Rest | Wire::Str))
    {
        ("<'a>", "<'static>")
    } else {
        ("", "")
    }
}

fn structure(s: &mut String, name: &str, fields: &[Field]) {
    let (generics, _) = lifetimes(fields);
    let _ = writeln!(
        s,
        "#[derive(Debug, Clone, PartialEq)]\npub struct {name}{generics} {{"
    );
    for f in fields {
        let _ = writeln!(s, "pub {}: {},", f.name, rust_type(&f.wire));
    }
    let _ = writeln!(s, "}}\n\nimpl<'a> Message<'a> for {name}{generics} {{");
    let used = if fields.is_empty() { "_" } else { "" };
    let _ = writeln!(
        s,
        "#[inline]\nfn encode(&self, {used}w: &mut Writer<'_>) {{"
    );
    for f in fields {
        s.push_str(&encode(f));
    }
    let _ = writeln!(
        s,
        "}}\n\n#[inline]\nfn decode({used}r: &mut Reader<'a>) -> Result<Self, WireError> {{"
    );
    // The order of evaluation of a struct expression is the order in which it is written.
    s.push_str("Ok(Self {\n");
    for f in fields {
        let _ = writeln!(s, "{}: {},", f.name, decode(&f.wire));
    }
    s.push_str("})\n}\n}\n\n");
}

fn sample(s: &mut String, name: &str, fields: &[Field]) {
    let (_, life) = lifetimes(fields);
    let used = if fields.is_empty() { "_" } else { "" };
    let _ = writeln!(
        s,
        "impl Sample for {name}{life} {{\nfn sample({used}g: &mut Gen) -> Self {{\nSelf {{"
    );
    for f in fields {
        let value = match &f.wire {
            Wire::Number(n) => format!("g.{n}()"),
            Wire::Array(n, _) => format!("std::array::from_fn(|_| g.{n}())"),
            Wire::Blob(_) => "std::array::from_fn(|_| g.u8())".to_owned(),
            Wire::Bytes | Wire::Rest => "g.bytes()".to_owned(),
            Wire::Str => "g.str()".to_owned(),
            Wire::U32s => "g.u32s()".to_owned(),
            Wire::U64s => "g.u64s()".to_owned(),
        };
        let _ = writeln!(s, "{}: {value},", f.name);
    }
    s.push_str("}\n}\n}\n\n");
}

fn rust_type(w: &Wire) -> String {
    match w {
        Wire::Number(n) => (*n).to_owned(),
        Wire::Array(t, n) => format!("[{t}; {n}]"),
        Wire::Blob(n) => format!("[u8; {n}]"),
        Wire::Bytes | Wire::Rest => "&'a [u8]".to_owned(),
        Wire::Str => "&'a str".to_owned(),
        Wire::U32s => "Vec<u32>".to_owned(),
        Wire::U64s => "Vec<u64>".to_owned(),
    }
}

fn encode(f: &Field) -> String {
    let name = &f.name;
    match &f.wire {
        Wire::Number(n) => format!("w.{n}(self.{name});\n"),
        Wire::Array(t, _) => format!("for x in self.{name} {{ w.{t}(x); }}\n"),
        Wire::Blob(_) => format!("w.raw(&self.{name});\n"),
        Wire::Bytes => format!("w.bytes(self.{name});\n"),
        Wire::Rest => format!("w.raw(self.{name});\n"),
        Wire::Str => format!("w.str(self.{name});\n"),
        Wire::U32s => format!("w.u32s(&self.{name});\n"),
        Wire::U64s => format!("w.u64s(&self.{name});\n"),
    }
}

fn decode(w: &Wire) -> String {
    match w {
        Wire::Number(n) => format!("r.{n}()?"),
        Wire::Array(t, n) => {
            format!("[{}]", vec![format!("r.{t}()?"); *n].join(", "))
        }
        Wire::Blob(_) => "r.array()?".to_owned(),
        Wire::Bytes => "r.bytes()?".to_owned(),
        Wire::Rest => "r.rest()".to_owned(),
        Wire::Str => "r.str()?".to_owned(),
        Wire::U32s => "r.u32s()?".to_owned(),
        Wire::U64s => "r.u64s()?".to_owned(),
    }
}
