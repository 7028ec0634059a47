//! What a server is asked that calls the function of its own library: entry points, and for the
//! server the table of what each function takes, without which it calls none.

use crate::file::{ALLOW, Files, put, rust};
use crate::model::{Api, Arg, Call};
use crate::spec::{Class, Count, Mark};
use std::fmt::Write as _;

/// The body of an entry point.
pub fn entry(api: &Api, c: &Call, s: &mut String) {
    let told = c
        .item
        .params
        .iter()
        .any(|p| p.mark.as_ref().is_some_and(is_handle));
    let bind = if told { "let cx = " } else { "" };
    let _ = writeln!(s, "life::guard(move || {{\n{bind}life::enter()?;");
    let (mut of, mut args) = ("None".to_owned(), String::new());
    for (a, p) in c.args.iter().zip(&c.item.params) {
        let name = &a.name;
        let length = |n: &Count| match n {
            Count::Fixed(n) => format!("Ok({n})"),
            Count::Param(p, _) if pointed(c, p) => format!("ask::length({p})"),
            Count::Param(p, _) => format!("Ok({p} as usize)"),
        };
        let arg = match &p.mark {
            Some(Mark::Handle(_)) => {
                let kind = api.kind(&p.ty).unwrap_or_default();
                let _ = writeln!(s, "let {name} = cx.handle(Kind::{kind}, {name} as u64)?;");
                of = format!("Some({name})");
                "ask::Arg::Device".to_owned()
            }
            Some(Mark::Out(_)) => format!("ask::out({name})?"),
            Some(Mark::Versioned) => format!("ask::versioned({name})?"),
            Some(Mark::OutArray(n)) => format!("ask::out_array({name}, {})?", length(n)),
            _ => format!("ask::Arg::Value({name} as u64)"),
        };
        let _ = writeln!(args, "{arg},");
    }
    let name = &c.item.name;
    let _ = writeln!(
        s,
        "// SAFETY: the arguments are the program's.\n\
         unsafe {{ ask::ask({of}, \"{name}\", &[\n{args}]) }}\n}})"
    );
}

fn is_handle(mark: &Mark) -> bool {
    matches!(mark, Mark::Handle(_))
}

/// Whether a count is where a parameter points.
fn pointed(c: &Call, name: &str) -> bool {
    let found = c.args.iter().find(|a| a.name == name);
    found.is_some_and(|a| !a.pointee.is_empty())
}

/// What the server must know of an argument.
fn shape(c: &Call, a: &Arg, mark: Option<&Mark>) -> String {
    let size = format!("size_of::<{}>()", a.pointee);
    match mark {
        Some(Mark::Handle(_)) => "Device".to_owned(),
        Some(Mark::Out(_)) => format!("Place({size})"),
        Some(Mark::Versioned) => "Versioned".to_owned(),
        Some(Mark::OutArray(n)) => match n {
            Count::Fixed(n) => format!("Place({n} * {size})"),
            Count::Param(p, _) => {
                let at = c.args.iter().position(|a| a.name == *p);
                format!("List({size}, {})", at.unwrap_or_default())
            }
        },
        _ => "Value".to_owned(),
    }
}

/// The server's table.
pub fn emit(api: &Api, files: &mut Files) {
    let mut rows = String::new();
    for c in api.calls() {
        let Class::Asked(whole) = c.item.class else {
            continue;
        };
        let of = c.args.iter().zip(&c.item.params);
        let shapes: Vec<_> = of.map(|(a, p)| shape(c, a, p.mark.as_ref())).collect();
        let _ = writeln!(
            rows,
            "(\"{}\", {whole}, &[{}]),",
            c.item.name,
            shapes.join(", ")
        );
    }
    if rows.is_empty() {
        return;
    }
    let dir = format!("crates/worker/src/{}/generated", api.name);
    let about = format!("What may be asked: {}.", api.config.name);
    let text = format!(
        "{ALLOW}\nuse crate::{0}::Shape::{{self, *}};\nuse busbar_abi::{0}::*;\n\
         use std::ffi::c_char;\n\n\
         /// Names of functions, whether what they say is only right of a whole device, and what \n\
         /// they take.\n\
         pub const ASKED: &[(&str, bool, &[Shape])] = &[\n{rows}];\n",
        api.name
    );
    put(files, format!("{dir}/mod.rs"), rust(&about, &text));
}
