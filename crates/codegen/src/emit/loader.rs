//! The exports of a shim that is also its API's loader: each calls the dispatch table that the
//! client has for loaders.

use crate::file::{ALLOW, Files, put, rust};
use crate::model::{Api, Call, Family};
use quote::ToTokens as _;
use std::fmt::Write as _;

/// The exports of an API that has a list of its loader's.
pub fn emit(api: &Api, files: &mut Files) {
    let (Some(shim), false) = (&api.config.shim, api.loader.is_empty()) else {
        return;
    };
    let mut mods = String::new();
    for f in &api.families {
        let text = family(api, f);
        if text.is_empty() {
            continue;
        }
        let _ = writeln!(mods, "mod {};", f.name);
        let head = format!(
            "use busbar_abi::{0}::{{slot, types::*}};\n\
             use busbar_client::{0}::dispatch::function;\nuse std::ffi::{{c_char, c_void}};\n\n",
            api.name
        );
        put(
            files,
            format!("{shim}/src/generated/{}.rs", f.name),
            rust(
                &format!("Exports: {}, {}.", api.config.name, f.name),
                &format!("{head}{text}"),
            ),
        );
    }
    put(
        files,
        format!("{shim}/src/generated/mod.rs"),
        rust(
            &format!("Exports: {}.", api.config.name),
            &format!("{ALLOW}\n{mods}"),
        ),
    );
}

fn family(api: &Api, f: &Family) -> String {
    let mut s = String::new();
    let exported = |c: &&Call| api.loader.contains(&c.item.name);
    for c in f.calls.iter().filter(exported) {
        let name = &c.item.name;
        let result = match &c.item.result {
            Some(ty) => format!(" -> {}", ty.to_token_stream()),
            None => String::new(),
        };
        let list = |text: &dyn Fn(&crate::model::Arg) -> String| {
            let list: Vec<_> = c.args.iter().map(text).collect();
            list.join(", ")
        };
        let _ = writeln!(
            s,
            "// SAFETY: the name is the API's own.\n#[unsafe(no_mangle)]\n\
             pub unsafe extern \"C\" fn {name}({}){result} {{\n\
             type Function = unsafe extern \"C\" fn({}){result};\n\
             let at = function(const {{ slot(\"{name}\") }});\n\
             // SAFETY: the function of that name has this type; the arguments are the program's.\n\
             unsafe {{ std::mem::transmute::<usize, Function>(at)({}) }}\n}}\n",
            list(&|a| format!("{}: {}", a.name, a.ty)),
            list(&|a| a.ty.clone()),
            list(&|a| a.name.clone()),
        );
    }
    s
}
