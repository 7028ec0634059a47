//! The spec, resolved: what each call puts on the wire, and what it does.

use crate::abi::Types;
use crate::contract::Contract;
use crate::spec::{Act, Class, Count, Item, Null, Sort};
use quote::ToTokens as _;
use serde::Deserialize;
use std::collections::BTreeMap;
use syn::Type;

/// First of the ids that the record layer keeps for itself.
pub const RESERVED_IDS: u16 = 0xff00;

/// `api.toml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// What people call the API.
    pub name: String,
    /// Whether it has C functions, or only messages.
    #[serde(default)]
    pub functions: bool,
    /// The list of exported symbols, each of which needs a line in the spec.
    pub exports: Option<String>,
    /// The list of names and first versions that the API's own lookup knows.
    pub procs: Option<String>,
    /// The numbers by which profilers know the functions, and those of the runtime on top of them.
    pub callbacks: Option<CallbacksConfig>,
    /// The list of functions that a loader of the API exports, where the shim can be one.
    pub loader: Option<String>,
    /// Where the table of symbols is written.
    pub coverage: Option<String>,
    /// The crate that exports the C symbols.
    pub shim: Option<String>,
    /// What stands before the second name of each function that is exported under two.
    pub alias: Option<String>,
    /// Whether a worker loads the library, though nothing of this API travels.
    #[serde(default)]
    pub loaded: bool,
    /// The type of the worker's state in `crate::<api>`; without one, no dispatch is written.
    pub worker_state: Option<String>,
    /// Result codes.
    pub result: Option<ResultConfig>,
    /// The handle that names a stream.
    pub stream: Option<StreamConfig>,
    /// C handle type = kind of object.
    #[serde(default)]
    pub handles: BTreeMap<String, String>,
    /// Where a client may have several servers: the type of an argument = the function of a call
    /// that finds the one that the argument is of.
    #[serde(default)]
    pub whose: BTreeMap<String, String>,
    /// The kind of object that each record is executed in.
    pub scope: Option<String>,
    /// A word in the names of lines that change an object: such a line says what changes.
    pub setter: Option<String>,
    /// The kinds of objects.
    #[serde(default)]
    pub kinds: BTreeMap<String, KindConfig>,
}

/// Lists of names and numbers.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallbacksConfig {
    /// Of the API's functions.
    pub own: String,
    /// Of the runtime's.
    pub runtime: String,
}

/// How long objects of a kind live.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KindConfig {
    /// The kinds of objects with which one dies.
    #[serde(default)]
    pub dies_with: Vec<String>,
    /// The kinds of objects that one keeps alive.
    #[serde(default)]
    pub keeps: Vec<String>,
    /// Why no line creates one.
    pub given: Option<String>,
    /// Why one lives as long as the session.
    pub stays: Option<String>,
}

/// What the API calls its result codes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResultConfig {
    /// The type.
    #[serde(rename = "type")]
    pub ty: String,
    /// A bad argument.
    pub invalid_value: String,
    /// A call that is not forwarded.
    pub not_supported: String,
    /// The peer answered nonsense.
    pub protocol: String,
}

/// The handle that names a stream.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamConfig {
    /// The type.
    #[serde(rename = "type")]
    pub ty: String,
}

/// What a field is on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wire {
    /// A number.
    Number(&'static str),
    /// That many numbers.
    Array(&'static str, usize),
    /// That many bytes.
    Blob(usize),
    /// Counted bytes.
    Bytes,
    /// Bytes to the end of the record; the last field.
    Rest,
    /// Counted text.
    Str,
    /// Counted u32.
    U32s,
    /// Counted u64.
    U64s,
}

/// One field of a message.
#[derive(Debug, Clone)]
pub struct Field {
    /// Rust name.
    pub name: String,
    /// What it is.
    pub wire: Wire,
}

/// What one parameter of a forwarded function does.
#[derive(Debug, Clone)]
pub enum Role {
    /// A number; `true` for `usize`, which travels as u64.
    Number(bool),
    /// A handle of that kind; what null is; whether it names a stream.
    Handle(String, Null, bool),
    /// Created, of that kind.
    New(String),
    /// Destroyed, of that kind.
    Del(String),
    /// A number comes back; `usize`; may be null.
    OutNumber(bool, bool),
    /// A structure of that size comes back; may be null.
    OutPlain(usize, bool),
    /// Counted values come back.
    OutArray(Count),
    /// A structure of that size goes in.
    InRef(usize),
    /// Counted values go in; may be null.
    InArray(Count, bool),
    /// Counted handles of that kind go in.
    HandleArray(Count, String),
    /// Counted bytes go in.
    BytesIn(Count),
    /// A C string goes in.
    CStr,
    /// The value of a pointer goes in.
    Address,
}

impl Role {
    /// Whether it is a field of the reply; all others are of the request.
    pub fn comes_back(&self) -> bool {
        matches!(
            self,
            Self::OutNumber(..) | Self::OutPlain(..) | Self::OutArray(_)
        )
    }
}

/// What names an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum At {
    /// A field of the request, or a parameter of a function without a message.
    Field(String),
    /// A field of the reply.
    Reply(String),
    /// The record itself: the object that it is executed in.
    Scope,
}

/// One effect of a call.
#[derive(Debug, Clone)]
pub struct Effect {
    /// What is done.
    pub act: Act,
    /// The kind of the object.
    pub kind: String,
    /// Which object.
    pub at: At,
    /// Of a new object: what it dies with, and what it keeps alive.
    pub of: Vec<(String, At)>,
}

/// One parameter of a C function.
#[derive(Debug, Clone)]
pub struct Arg {
    /// The name in C and in the spec.
    pub name: String,
    /// The field's name on the wire.
    pub field: String,
    /// The Rust type, with `*mut` and `*const`.
    pub ty: String,
    /// What it points to, when it is a pointer.
    pub pointee: String,
    /// What it does; absent when the function has no message.
    pub role: Option<Role>,
}

/// One resolved line.
#[derive(Debug, Clone)]
pub struct Call {
    /// The line as parsed.
    pub item: Item,
    /// Name of the message's struct.
    pub message: String,
    /// Name of the constant that holds its id.
    pub op: String,
    /// Snake-case name of the hand-written or generated worker function.
    pub snake: String,
    /// C parameters (functions only).
    pub args: Vec<Arg>,
    /// Fields of the request.
    pub request: Vec<Field>,
    /// Fields of the reply.
    pub reply: Vec<Field>,
    /// Whether the sender goes on: an expression over the request's fields.
    pub queued: String,
    /// What it does to objects.
    pub effects: Vec<Effect>,
}

impl Call {
    /// Whether a message of this line goes over the wire.
    pub fn travels(&self) -> bool {
        travels(&self.item)
    }

    /// Whether the sender always waits.
    pub fn waits(&self) -> bool {
        matches!(self.item.class, Class::Waits | Class::Cached)
    }

    /// Whether the line is a C function.
    pub fn is_function(&self) -> bool {
        self.item.sort == Sort::Function
    }

    /// Whether the client's side is hand-written.
    pub fn client_by_hand(&self) -> bool {
        let by_hand = match self.item.class {
            Class::Local | Class::Custom => true,
            Class::Asked(_) => self.item.begin.is_some(),
            _ => self.item.by_hand_client,
        };
        self.is_function() && by_hand
    }

    /// Whether the worker's side is hand-written.
    pub fn worker_by_hand(&self) -> bool {
        self.travels() && (self.item.by_hand_worker || self.item.sort == Sort::Message)
    }
}

/// One family.
#[derive(Debug, Clone)]
pub struct Family {
    /// File stem.
    pub name: String,
    /// Its lines.
    pub calls: Vec<Call>,
}

/// One API.
#[derive(Debug)]
pub struct Api {
    /// Folder name: `cuda`.
    pub name: String,
    /// `api.toml`.
    pub config: Config,
    /// C types.
    pub types: Types,
    /// Families, by name.
    pub families: Vec<Family>,
    /// Every exported symbol that must be exported again.
    pub exports: Vec<String>,
    /// Every name and first version that the API's own lookup knows.
    pub procs: Vec<(String, u32)>,
    /// The number by which profilers know a function, if they do.
    pub callbacks: BTreeMap<String, u32>,
    /// The same of the runtime's.
    pub runtime_callbacks: BTreeMap<String, u32>,
    /// Every function that a loader of the API exports.
    pub loader: Vec<String>,
    /// What both ends agree on beside the messages.
    pub contract: Option<Contract>,
}

impl Api {
    /// Whether C types and entry points are generated. Without result codes all entry points are
    /// hand-written, and so are their types.
    pub fn generates_functions(&self) -> bool {
        self.config.functions && self.config.result.is_some()
    }

    /// Whether anything of it goes over the wire. Else the client answers all of it, from what it
    /// knows by other ways.
    pub fn travels(&self) -> bool {
        self.calls().any(Call::travels)
    }

    /// The second name that a function is exported under.
    pub fn alias(&self, name: &str) -> Option<String> {
        let alias = format!("{}{name}", self.config.alias.as_ref()?);
        self.exports.contains(&alias).then_some(alias)
    }

    /// All lines.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.families.iter().flat_map(|f| &f.calls)
    }

    /// The line with that name.
    pub fn find(&self, name: &str) -> Option<&Call> {
        self.calls().find(|c| c.item.name == name)
    }
}

pub(crate) fn travels(item: &Item) -> bool {
    matches!(
        item.class,
        Class::Queued | Class::QueuedIf(_) | Class::Waits | Class::Cached
    )
}

/// `cuMemsetD8Async_v2` to `cu_memset_d8_async_v2`.
pub fn snake(name: &str) -> String {
    let chars: Vec<char> = name.trim_start_matches("r#").chars().collect();
    let mut out = String::new();
    for (i, c) in chars.iter().enumerate() {
        let before = i.checked_sub(1).map(|j| chars[j]);
        let after = chars.get(i + 1);
        let starts = c.is_uppercase()
            && before.is_some_and(|b| {
                b.is_lowercase()
                    || b.is_ascii_digit()
                    || (b.is_uppercase() && after.is_some_and(|a| a.is_lowercase()))
            });
        if starts && !out.ends_with('_') {
            out.push('_');
        }
        out.extend(c.to_lowercase());
    }
    out
}

/// `cuMemsetD8Async_v2` to `CuMemsetD8AsyncV2`.
pub fn camel(name: &str) -> String {
    name.split('_')
        .map(|w| {
            let mut c = w.chars();
            c.next()
                .map_or_else(String::new, |f| f.to_uppercase().chain(c).collect())
        })
        .collect()
}

pub(crate) fn field_name(name: &str) -> String {
    let s = snake(name);
    let keyword = [
        "type", "match", "ref", "fn", "move", "in", "use", "mod", "loop", "self",
    ];
    if keyword.contains(&s.as_str()) {
        format!("r#{s}")
    } else {
        s
    }
}

/// The text of a type, and of what it points to.
pub(crate) fn type_text(ty: &Type) -> (String, String) {
    let tidy = |t: &Type| t.to_token_stream().to_string().replace("* ", "*");
    let pointee = match ty {
        Type::Ptr(p) => tidy(&p.elem),
        _ => String::new(),
    };
    (tidy(ty), pointee)
}
