//! What the engine knows of the messages, from `spec/`: their fields, which of those name objects,
//! what becomes of these, and a decoder for each message and reply.

use busbar_codegen::model::{Api, At, Call, Field, Role, Wire, snake};
use busbar_codegen::spec::Act;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

fn main() -> anyhow::Result<()> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=../../spec");
    let mut out = String::new();
    let mut decoders = String::new();
    for name in ["cuda", "opencl", "collectives"] {
        let api = Api::load(&Path::new("../../spec").join(name))?;
        let mut lines: Vec<&Call> = api.calls().filter(|c| c.travels()).collect();
        lines.sort_by_key(|c| c.item.id);
        let kinds: Vec<&String> = api.config.kinds.keys().collect();
        writeln!(out, "/// Lines of `{name}`.")?;
        writeln!(out, "pub static {}: &[Line] = &[", name.to_uppercase())?;
        writeln!(decoders, "fn {name}(op: u16, body: &[u8], reply: bool) {{")?;
        writeln!(decoders, "use busbar_wire::generated::{name}::*;")?;
        writeln!(decoders, "match (op, reply) {{")?;
        for c in lines {
            let named = named(&api, c);
            let fields: Vec<_> = c.request.iter().map(|f| field(f, &named, &kinds)).collect();
            writeln!(
                out,
                "Line {{ op: {}, name: {:?}, waits: {}, fields: &[{}] }},",
                c.item.id.unwrap_or_default(),
                c.item.name,
                c.waits(),
                fields.join(", ")
            )?;
            for (reply, more, fields) in [(false, "", &c.request), (true, "Reply", &c.reply)] {
                if !reply || !fields.is_empty() {
                    let (id, message) = (c.item.id.unwrap_or_default(), &c.message);
                    writeln!(
                        decoders,
                        "({id}, {reply}) => again::<{message}{more}>(body),"
                    )?;
                }
            }
        }
        writeln!(out, "];")?;
        writeln!(decoders, "_ => {{}}\n}}\n}}")?;
    }
    let folder = env::var("OUT_DIR")?;
    fs::write(Path::new(&folder).join("lines.rs"), out)?;
    fs::write(Path::new(&folder).join("decoders.rs"), decoders)?;
    Ok(())
}

/// Which fields of a request name objects: the kind, and what becomes of it.
fn named(api: &Api, c: &Call) -> BTreeMap<String, (String, &'static str)> {
    let mut all = BTreeMap::new();
    for kind in api.config.kinds.keys() {
        // `graph`, `graph_node`, and `node` of a GraphNode.
        let whole = snake(kind);
        for name in [whole.clone(), whole.rsplit('_').next().unwrap_or("").into()] {
            all.entry(name).or_insert((kind.clone(), "Uses"));
        }
    }
    for a in &c.args {
        let kind = match &a.role {
            Some(Role::Handle(k, ..) | Role::HandleArray(_, k) | Role::New(k) | Role::Del(k)) => k,
            _ => continue,
        };
        all.insert(a.field.clone(), (kind.clone(), "Uses"));
    }
    for e in &c.effects {
        let At::Field(f) = &e.at else { continue };
        let act = match e.act {
            Act::Creates => "Creates",
            Act::Destroys => "Destroys",
            Act::Names | Act::Changes(_) => "Uses",
        };
        let known = all.get(f).is_some_and(|k| k.1 != "Uses");
        if !known {
            all.insert(f.clone(), (e.kind.clone(), act));
        }
    }
    all
}

fn field(f: &Field, named: &BTreeMap<String, (String, &'static str)>, kinds: &[&String]) -> String {
    let wire = match &f.wire {
        Wire::Number(t) => format!("Wire::Raw({})", bytes(t)),
        Wire::Array(t, n) => format!("Wire::Raw({})", bytes(t) * n),
        Wire::Blob(n) => format!("Wire::Raw({n})"),
        Wire::Bytes => "Wire::Counted(1)".into(),
        Wire::Str => "Wire::Text".into(),
        Wire::U32s => "Wire::Counted(4)".into(),
        Wire::U64s => "Wire::Counted(8)".into(),
        Wire::Rest => "Wire::Rest".into(),
    };
    let ids = matches!(&f.wire, Wire::Number("u32") | Wire::U32s);
    let singular = f.name.strip_suffix('s').unwrap_or(&f.name);
    let object = named.get(&f.name).or_else(|| named.get(singular));
    let object = object.filter(|_| ids).map(|(kind, act)| {
        let n = kinds.iter().position(|k| *k == kind).unwrap_or_default();
        format!("({n}, Act::{act})")
    });
    format!(
        "Field {{ wire: {wire}, object: {} }}",
        match object {
            Some(o) => format!("Some({o})"),
            None => "None".into(),
        }
    )
}

fn bytes(number: &str) -> usize {
    match number {
        "u8" | "i8" => 1,
        "u16" | "i16" => 2,
        "u32" | "i32" | "f32" => 4,
        _ => 8,
    }
}
