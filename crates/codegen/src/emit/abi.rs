//! C types and the driver's function table: `crates/abi/src/generated`.

use crate::abi::Module;
use crate::file::{ALLOW, Files, put, rust};
use crate::model::{Api, Call, type_text};
use crate::spec::Sort;
use std::fmt::Write as _;

const ROOT: &str = "crates/abi/src/generated";

/// The module that names every API with C functions.
pub fn root(apis: &[Api], files: &mut Files) {
    let mut s = String::from(ALLOW);
    for api in apis.iter().filter(|a| a.generates_functions()) {
        let _ = writeln!(s, "pub mod {};", api.name);
    }
    put(
        files,
        format!("{ROOT}/mod.rs"),
        rust("C types of every API, from `spec/`.", &s),
    );
}

/// The types and functions of one API.
pub fn emit(api: &Api, files: &mut Files) {
    let dir = format!("{ROOT}/{}", api.name);
    let mut s = String::new();
    let modules = api
        .types
        .modules
        .iter()
        .map(|m| m.name.as_str())
        .chain(loaded(api).then_some("driver"));
    for m in modules.clone() {
        let _ = writeln!(s, "mod {m};");
    }
    for m in modules {
        let _ = writeln!(s, "pub use {m}::*;");
    }
    result_tables(api, &mut s);
    put(
        files,
        format!("{dir}/mod.rs"),
        rust(&format!("C types: {}.", api.config.name), &s),
    );
    for m in &api.types.modules {
        let about = format!("C types: {}, {}.", api.config.name, m.name);
        put(
            files,
            format!("{dir}/{}.rs", m.name),
            rust(&about, &module(api, m)),
        );
    }
    if !loaded(api) {
        // Nobody loads the library.
        return;
    }
    let about = format!("The functions of a loaded library: {}.", api.config.name);
    put(
        files,
        format!("{dir}/driver/mod.rs"),
        rust(&about, &driver(api)),
    );
    for f in &api.families {
        let calls: Vec<_> = f.calls.iter().filter(|c| in_table(api, c)).collect();
        if !calls.is_empty() {
            let about = format!("Functions of the library: {}, {}.", api.config.name, f.name);
            let text = functions(api, &calls);
            put(
                files,
                format!("{dir}/driver/{}.rs", f.name),
                rust(&about, &text),
            );
        }
    }
}

/// Code, name and text of every result code, and look-ups by code.
fn result_tables(api: &Api, s: &mut String) {
    let Some(result) = &api.config.result else {
        return;
    };
    let rc = &result.ty;
    let _ = writeln!(
        s,
        "pub use crate::refuse_if;\nuse std::ffi::CStr;\n\n\
         /// What becomes of a call, before it is a code.\n\
         pub type Result<T = (), E = {rc}> = std::result::Result<T, E>;\n\n\
         /// Result codes with their names and texts, in order of code.\n\
         pub static RESULTS: &[({rc}, &CStr, &CStr)] = &["
    );
    let mut rows: Vec<_> = api.types.constants.iter().filter(|c| c.ty == *rc).collect();
    rows.sort_by_key(|c| c.value);
    for c in rows {
        let _ = writeln!(s, "({0}, c\"{0}\", c{1:?}),", c.name, c.docs);
    }
    let _ = write!(
        s,
        "];\n\nfn result(rc: {rc}) -> Option<&'static ({rc}, &'static CStr, &'static CStr)> {{\n\
         let at = RESULTS.binary_search_by_key(&rc, |r| r.0).ok()?;\nRESULTS.get(at)\n}}\n\n\
         /// The name of a result code.\n\
         pub fn error_name(rc: {rc}) -> Option<&'static CStr> {{\nresult(rc).map(|r| r.1)\n}}\n\n\
         /// What a result code means.\n\
         pub fn error_description(rc: {rc}) -> Option<&'static CStr> {{\n\
         result(rc).map(|r| r.2)\n}}\n\n\
         #[cfg(test)]\nmod tests {{\nuse super::*;\n\n\
         #[test]\nfn every_result_code_has_its_name_and_text() {{\n\
         for (rc, name, text) in RESULTS {{\n\
         assert_eq!((error_name(*rc), error_description(*rc)), (Some(*name), Some(*text)));\n\
         assert!(!text.is_empty());\n}}\n\
         assert_eq!(error_name({rc}::MAX), None);\n}}\n}}\n"
    );
}

fn module(api: &Api, m: &Module) -> String {
    let mut s = String::from("use super::*;\n");
    s.push_str("use std::ffi::{c_char, c_int, c_void};\n\n");
    s.push_str(&m.text);
    if m.structs.is_empty() {
        return s;
    }
    s.push('\n');
    for name in &m.structs {
        let holes = api
            .types
            .holes(&syn::parse_str(name).expect("a name is a type"));
        let holes = match holes.is_empty() {
            true => String::new(),
            false => format!("\nconst HOLES: &[(usize, usize)] = &{holes:?};\n"),
        };
        let _ = writeln!(
            s,
            "// SAFETY: `repr(C)`, and numbers, addresses and optional functions only.\n\
             unsafe impl crate::Plain for {name} {{{holes}}}"
        );
    }
    s.push_str(
        "\n#[cfg(test)]\nmod tests {\nuse super::*;\n\
         use std::mem::{align_of, offset_of, size_of};\n\
         \n\
         #[test]\nfn layouts_are_those_of_a_c_compiler() {\n",
    );
    for name in &m.structs {
        let st = &api.types.structs[name];
        let _ = writeln!(
            s,
            "assert_eq!((size_of::<{name}>(), align_of::<{name}>()), ({}, {}), \"{name}\");",
            st.layout.size, st.layout.align
        );
        for ((field, _), offset) in st.fields.iter().zip(&st.layout.offsets) {
            let _ = writeln!(
                s,
                "assert_eq!(offset_of!({name}, {field}), {offset}, \"{name}.{field}\");"
            );
        }
    }
    s.push_str("}\n}\n");
    s
}

/// Whether a worker loads the library.
fn loaded(api: &Api) -> bool {
    api.travels() || api.config.loaded
}

fn in_table(api: &Api, c: &Call) -> bool {
    let code = api.config.result.as_ref().map(|r| r.ty.as_str());
    let other = c.item.result.as_ref().map(|ty| type_text(ty).0);
    if other.is_some_and(|ty| Some(ty.as_str()) != code) {
        return false;
    }
    let refused = c.item.class.is_refused();
    c.item.sort == Sort::Function && !refused && !c.item.unexported
}

/// The table and how it is filled.
fn driver(api: &Api) -> String {
    let mut s = String::from("use std::ffi::{CStr, c_void};\n\n");
    for f in api
        .families
        .iter()
        .filter(|f| f.calls.iter().any(|c| in_table(api, c)))
    {
        let _ = writeln!(s, "mod {0};\npub use {0}::*;", f.name);
    }
    s.push_str(
        "\n/// Entry points by name; one that the library lacks is absent.\npub struct Driver {\n",
    );
    let names: Vec<_> = api
        .calls()
        .filter(|c| in_table(api, c))
        .map(|c| c.item.name.as_str())
        .collect();
    for n in &names {
        let _ = writeln!(s, "pub {n}: Option<PFN_{n}>,");
    }
    s.push_str(
        "}\n\nimpl Driver {\n/// Asks `get` for every entry point; null means that there is none.\n\
         ///\n/// # Safety\n/// What `get` returns is null, or the API's function of that name.\n\
         pub unsafe fn load(get: impl Fn(&CStr) -> *mut c_void) -> Self {\n\
         // SAFETY: the caller vouches for the addresses; null is the absent function.\n\
         unsafe {\nSelf {\n",
    );
    for n in &names {
        let _ = writeln!(s, "{n}: function(get(c\"{n}\")),");
    }
    s.push_str(
        "}\n}\n}\n}\n\n/// An address as a function.\n///\n/// # Safety\n\
         /// `T` is the pointer type of the function at `p`, unless `p` is null.\n\
         unsafe fn function<T: Copy>(p: *mut c_void) -> Option<T> {\n\
         const { assert!(size_of::<T>() == size_of::<*mut c_void>()) };\n\
         // SAFETY: the caller vouches for the type.\n\
         (!p.is_null()).then(|| unsafe { std::mem::transmute_copy(&p) })\n}\n",
    );
    s
}

/// Pointer types and methods of one family.
fn functions(api: &Api, calls: &[&Call]) -> String {
    let Some(result) = &api.config.result else {
        return String::new();
    };
    let rc = &result.ty;
    let mut s = String::from(
        "use super::Driver;\nuse super::super::*;\n\
         use std::ffi::{c_char, c_void};\n\n",
    );
    for c in calls {
        let types: Vec<_> = c.args.iter().map(|a| a.ty.as_str()).collect();
        let _ = writeln!(
            s,
            "pub type PFN_{} = unsafe extern \"C\" fn({}) -> {rc};",
            c.item.name,
            types.join(", ")
        );
    }
    s.push_str("\nimpl Driver {\n");
    for c in calls {
        let params: Vec<_> = c
            .args
            .iter()
            .map(|a| format!("{}: {}", a.name, a.ty))
            .collect();
        let args: Vec<_> = c.args.iter().map(|a| a.name.as_str()).collect();
        let _ = writeln!(
            s,
            "/// `{name}`.\n#[inline]\npub unsafe fn {name}(&self, {params}) -> {rc} {{\n\
             let Some(call) = self.{name} else {{ return {absent} }};\n\
             // SAFETY: the caller keeps the function's contract.\n\
             unsafe {{ call({args}) }}\n}}\n",
            name = c.item.name,
            params = params.join(", "),
            args = args.join(", "),
            absent = result.not_supported,
        );
    }
    s.push_str("}\n");
    s
}
