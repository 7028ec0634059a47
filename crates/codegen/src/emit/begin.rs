//! Entry points that begin a call for a hand-written function: handles become ids, and what it
//! returns gets to the program.

use crate::model::{Api, Arg, Call};
use crate::spec::{Begin, Class, Mark, Null, Param};
use std::fmt::Write as _;

/// What stands before each use of a pointer of the program's.
pub const THEIRS: &str = "// SAFETY: the program's pointer; the API asks that it be valid.\n";

/// Whether an entry point uses this argument.
pub fn uses(api: &Api, c: &Call, a: &Arg) -> bool {
    let begun = c.item.begin.is_some();
    is_named(c, a) || begun && (again(api, c) || says_whose(api, c, a) || is_marked(c, a))
}

/// Whether an entry point hands this argument on.
fn is_named(c: &Call, a: &Arg) -> bool {
    let Class::Is(_, Some(given)) = &c.item.class else {
        return true;
    };
    let word = |c: char| c.is_alphanumeric() || c == '_' || c == '#';
    given
        .iter()
        .any(|g| g.split(|c| !word(c)).any(|w| w == a.name))
}

/// Whether something happens with this argument before the function is called, or behind it.
fn is_marked(c: &Call, a: &Arg) -> bool {
    let of_name = |p: &&Param| p.name == a.name;
    let p = c.item.params.iter().find(of_name);
    p.is_some_and(|p| {
        matches!(
            p.mark,
            Some(
                Mark::New
                    | Mark::Gives(true)
                    | Mark::Out(_)
                    | Mark::Handle(_)
                    | Mark::Del
                    | Mark::CStr
                    | Mark::InRef
            )
        )
    })
}

/// How the hand-written function is told of its call: what a parameter becomes before, and after.
struct Told {
    /// What goes in: its arguments.
    args: Vec<String>,
    /// Handles become ids, and places that are written to are checked.
    before: String,
    /// Names of what it brings.
    brings: Vec<String>,
    /// How that gets to its place.
    after: String,
    /// Whether there is a stream, in whose context the call is.
    at_stream: bool,
}

impl Told {
    fn of(api: &Api, c: &Call, per_thread: bool) -> Self {
        let mut told = Self {
            args: vec!["cx".to_owned()],
            before: String::new(),
            brings: Vec::new(),
            after: String::new(),
            at_stream: false,
        };
        let mut nulls = String::new();
        let stream = api.config.stream.as_ref().map(|s| s.ty.as_str());
        let mut stream_is_known = false;
        for (a, p) in c.args.iter().zip(&c.item.params) {
            let name = &a.name;
            let brought = format!("v_{}", name.trim_start_matches("r#"));
            match &p.mark {
                Some(Mark::Handle(_)) if stream == Some(a.ty.as_str()) => {
                    stream_is_known = true;
                    let get = format!("cx.stream({name}, {per_thread})?");
                    let _ = match is_named(c, a) {
                        true => {
                            told.at_stream = true;
                            let enough = "let cx = cx.at_stream";
                            writeln!(told.before, "let {name} = {get};\n{enough}({name});")
                        }
                        false => writeln!(told.before, "{get};"),
                    };
                }
                Some(Mark::Handle(_) | Mark::Del) => {
                    let null = match p.mark {
                        Some(Mark::Handle(null)) => null,
                        _ => Null::Invalid,
                    };
                    if null == Null::Missing {
                        let _ = writeln!(told.before, "not_null({name})?;");
                    }
                    let word = handle_word(null);
                    let kind = api.kind(&p.ty).unwrap_or_default();
                    let get = format!("cx.{word}(Kind::{kind}, {name} as u64)?");
                    let _ = writeln!(told.before, "let {name} = {get};");
                }
                Some(Mark::New | Mark::Gives(true) | Mark::Out(false)) => {
                    let value = match (&p.mark, api.config.handles.get(&a.pointee)) {
                        (Some(Mark::New), Some(kind)) => {
                            format!("cx.raw(Kind::{kind}, {brought}) as {}", a.pointee)
                        }
                        _ if a.pointee == "usize" => format!("{brought} as usize"),
                        _ => brought.clone(),
                    };
                    let _ = writeln!(nulls, "not_null({name})?;");
                    let write = format!("{name}.write_unaligned({value})");
                    let _ = writeln!(told.after, "{THEIRS}unsafe {{ {write} }};");
                    told.brings.push(brought);
                    continue;
                }
                Some(Mark::Out(true)) => {
                    let size = if a.pointee == "usize" {
                        " as usize"
                    } else {
                        ""
                    };
                    let write = format!("{name}.write_unaligned({brought}{size})");
                    let _ = writeln!(
                        told.after,
                        "if !{name}.is_null() {{\n{THEIRS}unsafe {{ {write} }};\n}}"
                    );
                    told.brings.push(brought);
                    continue;
                }
                Some(Mark::CStr) if !c.travels() => {
                    let get = format!("unsafe {{ c_text({name}) }}?");
                    let _ = writeln!(told.before, "{THEIRS}let {name} = {get};");
                }
                Some(Mark::InRef) if !c.travels() => {
                    let _ = writeln!(
                        told.before,
                        "not_null({name})?;\n{THEIRS}let {name} = unsafe {{ &*{name} }};"
                    );
                }
                _ => {}
            }
            told.args.push(name.clone());
        }
        if c.item.per_thread.is_some() && !stream_is_known {
            told.args.push(per_thread.to_string());
        }
        told.before.push_str(&nulls);
        told
    }
}

/// An expression with what is known of the entry point in its place.
fn known_here(expression: &str, per_thread: bool) -> String {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut out = String::new();
    for part in expression.split_inclusive(|c| !is_word(c)) {
        let word = part.trim_end_matches(|c| !is_word(c));
        match word {
            "null" => out.push_str("std::ptr::null_mut()"),
            "per_thread" => out.push_str(&per_thread.to_string()),
            word => out.push_str(word),
        }
        out.push_str(&part[word.len()..]);
    }
    out
}

/// Which of several clients a call is for, where an argument says so before anything is looked up.
/// A stream says more; and of two such arguments, say the ends of a copy, each may be another's.
pub fn whose(api: &Api, c: &Call) -> String {
    let said = c.args.iter().find(|a| says_whose(api, c, a));
    said.map_or_else(String::new, |a| {
        format!("let cx = cx.{}({});\n", api.config.whose[&a.ty], a.name)
    })
}

/// Whether this argument says that.
fn says_whose(api: &Api, c: &Call, a: &Arg) -> bool {
    let stream = api.config.stream.as_ref().map(|s| &s.ty);
    let more = |o: &Arg| Some(&o.ty) == stream || o.ty == a.ty && o.name != a.name;
    let p = c.item.params.iter().find(|p| p.name == a.name);
    api.config.whose.contains_key(&a.ty)
        && p.is_some_and(|p| p.mark.is_none())
        && !c.args.iter().any(more)
}

/// A call that begins before its hand-written function, which is told of it.
pub fn emit(api: &Api, c: &Call, begin: &Begin, per_thread: bool, s: &mut String) {
    let told = Told::of(api, c, per_thread);
    let guard = guard(api, c, per_thread);
    let _ = writeln!(s, "{guard}\nlet cx = life::{}()?;", begin.enter);
    s.push_str(&whose(api, c));
    // A stream that is named brings a context along.
    let (first, then) = match told.at_stream {
        true => ("", "cx.need_context()?;\n"),
        false => ("cx.need_context()?;\n", ""),
    };
    let needed = |text: &'static str| if begin.context { text } else { "" };
    s.push_str(needed(first));
    s.push_str(&told.before);
    s.push_str(needed(then));
    if c.item.disturbs {
        s.push_str("cx.must_be_safe()?;\n");
    }
    let call = match &c.item.class {
        Class::Is(to, given) => {
            let given = given.iter().flatten().map(|a| known_here(a, per_thread));
            let args: Vec<_> = std::iter::once("cx".to_owned()).chain(given).collect();
            format!("{to}({})", args.join(", "))
        }
        _ => {
            let (family, name) = (&c.item.family, &c.item.name);
            let args = told.args.join(", ");
            format!("crate::{}::entry::{family}::{name}({args})", api.name)
        }
    };
    s.push_str("// SAFETY: the arguments are the program's.\n");
    let brings = match &told.brings[..] {
        [one] => one.clone(),
        all => format!("({})", all.join(", ")),
    };
    let _ = match told.brings.is_empty() {
        true => writeln!(s, "unsafe {{ {call} }}"),
        false => writeln!(
            s,
            "let {brings} = unsafe {{ {call} }}?;\n{}Ok(())",
            told.after
        ),
    };
    s.push_str("})\n");
}

/// Whether the C function makes itself again for another of several clients; else its body is run
/// again, which costs less where that is a function of its own.
fn again(api: &Api, c: &Call) -> bool {
    !api.config.whose.is_empty() && !matches!(c.item.class, Class::Is(..))
}

/// What stands before the body of a call.
pub fn guard(api: &Api, c: &Call, per_thread: bool) -> String {
    if !again(api, c) {
        return "life::guard(move || {".into();
    }
    let suffix = c.item.per_thread.as_deref().filter(|_| per_thread);
    let args: Vec<_> = c.args.iter().map(|a| a.name.as_str()).collect();
    let (name, suffix, args) = (&c.item.name, suffix.unwrap_or_default(), args.join(", "));
    format!(
        "// SAFETY: the arguments are the program's.\n\
         let again = move || unsafe {{ {name}{suffix}({args}) }};\n\
         life::call(again, move || {{"
    )
}

/// The method that makes an id of a handle.
pub fn handle_word(null: Null) -> &'static str {
    match null {
        Null::Optional => "handle_opt",
        Null::Invalid | Null::Missing => "handle",
    }
}
