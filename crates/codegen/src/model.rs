//! The spec, resolved: what each call puts on the wire, and what is wrong with a line by itself.

use crate::abi::Types;
use crate::effect::Effect;
use crate::role::{self, Role, wire_number};
use crate::spec::{self, Class, Item, Mark, Param, Sort};
use crate::{check, condition};
use anyhow::{Context, Result, bail};
use quote::ToTokens as _;
use serde::Deserialize;
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
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
    /// The list of functions that a loader of the API exports, where the shim can be one.
    pub loader: Option<String>,
    /// Where the table of symbols is written.
    pub coverage: Option<String>,
    /// The crate that exports the C symbols.
    pub shim: Option<String>,
    /// The type of the worker's state in `crate::<api>`; without one, no dispatch is written.
    pub worker_state: Option<String>,
    /// Result codes.
    pub result: Option<ResultConfig>,
    /// The handle that names a stream.
    pub stream: Option<StreamConfig>,
    /// C handle type = kind of object.
    #[serde(default)]
    pub handles: BTreeMap<String, String>,
    /// The kind of object that each record is executed in.
    pub scope: Option<String>,
    /// A word in the names of lines that change an object: such a line says what changes.
    pub setter: Option<String>,
    /// The kinds of objects.
    #[serde(default)]
    pub kinds: BTreeMap<String, KindConfig>,
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
        self.is_function()
            && (self.item.by_hand_client || matches!(self.item.class, Class::Local | Class::Custom))
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
    /// Every function that a loader of the API exports.
    pub loader: Vec<String>,
}

impl Api {
    /// Reads and checks `spec/<api>`.
    pub fn load(dir: &Path) -> Result<Self> {
        let name = dir
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let at = dir.join("api.toml");
        let text = std::fs::read_to_string(&at).with_context(|| at.display().to_string())?;
        let config: Config = toml::from_str(&text).with_context(|| at.display().to_string())?;
        let list = |file: &Option<String>| match file {
            Some(file) => std::fs::read_to_string(dir.join(file))
                .with_context(|| dir.join(file).display().to_string()),
            None => Ok(String::new()),
        };
        let exports = list(&config.exports)?
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        let loader = list(&config.loader)?
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        let procs = list(&config.procs)?
            .lines()
            .map(|l| {
                let (name, version) = l
                    .split_once(' ')
                    .context("a line is a name and a version")?;
                Ok((name.to_owned(), version.parse()?))
            })
            .collect::<Result<_>>()
            .context("the list of procs")?;
        let types = Types::load(&dir.join("abi"))?;
        let mut items = Vec::new();
        let mut paths: Vec<_> = std::fs::read_dir(dir)?
            .map(|e| e.map(|e| e.path()))
            .collect::<std::io::Result<_>>()?;
        paths.retain(|p| p.extension().is_some_and(|e| e == "rs"));
        paths.sort();
        for path in paths {
            items.push((
                path.file_stem()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned(),
                spec::read(&path)?,
            ));
        }
        let empty = Self {
            name,
            config,
            types,
            families: Vec::new(),
            exports,
            procs,
            loader,
        };
        empty.resolve(items)
    }

    /// Resolves parsed families, and refuses what does not hold together.
    pub fn resolve(mut self, items: Vec<(String, Vec<Item>)>) -> Result<Self> {
        for (family, list) in items {
            let mut calls = Vec::new();
            for item in list {
                let at = format!("{}: {}", item.place, item.name);
                calls.push(self.call(item).with_context(|| at)?);
            }
            self.families.push(Family {
                name: family,
                calls,
            });
        }
        check::api(&self)?;
        Ok(self)
    }

    /// Whether C types and entry points are generated. Without result codes all entry points are
    /// hand-written, and so are their types.
    pub fn generates_functions(&self) -> bool {
        self.config.functions && self.config.result.is_some()
    }

    /// All lines.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.families.iter().flat_map(|f| &f.calls)
    }

    /// The line with that name.
    pub fn find(&self, name: &str) -> Option<&Call> {
        self.calls().find(|c| c.item.name == name)
    }

    fn call(&self, item: Item) -> Result<Call> {
        let travels = travels(&item);
        if travels != item.id.is_some() {
            bail!(if travels {
                "it travels and has no id"
            } else {
                "it has an id and no message"
            });
        }
        if (item.by_hand_client || item.by_hand_worker) && !travels {
            bail!("by_hand is for what has a message");
        }
        let snake = snake(&item.name);
        let mut call = Call {
            message: camel(&item.name),
            op: snake.to_uppercase(),
            snake,
            args: Vec::new(),
            request: Vec::new(),
            reply: Vec::new(),
            queued: String::new(),
            effects: Vec::new(),
            item,
        };
        match call.item.sort {
            Sort::Data => {}
            Sort::Message => {
                if !travels || call.item.class == Class::Cached {
                    bail!("a message is queued or waits");
                }
                if call.item.class == Class::Queued && !call.item.reply.is_empty() {
                    bail!("a queued message has no reply");
                }
                call.request = message_fields(&call.item.params)?;
                call.reply = message_fields(&call.item.reply)?;
            }
            Sort::Function => {
                if !self.config.functions {
                    bail!("this API has messages only");
                }
                for p in call.item.params.clone() {
                    self.add_arg(&mut call, &p)?;
                }
                if !call.waits() && !call.reply.is_empty() {
                    bail!("a queued call brings nothing back");
                }
                role::check_counts(&call)?;
            }
        }
        let mut seen = HashSet::new();
        for f in call.request.iter().chain(&call.reply) {
            if !seen.insert(&f.name) {
                bail!("two fields are called `{}`", f.name);
            }
        }
        call.queued = self.queued(&call).context("when it is queued")?;
        call.effects = self.effects(&call)?;
        Ok(call)
    }

    /// Adds a parameter of a function, and its field where the call travels.
    fn add_arg(&self, call: &mut Call, p: &Param) -> Result<()> {
        let (ty, pointee) = type_text(&p.ty);
        let mut arg = Arg {
            name: p.name.clone(),
            field: field_name(&p.name),
            ty,
            pointee,
            role: None,
        };
        if call.travels() {
            let (role, wire) = self
                .role(p)
                .with_context(|| format!("parameter `{}`", p.name))?;
            let message = match role.comes_back() {
                true => &mut call.reply,
                false => &mut call.request,
            };
            let name = arg.field.clone();
            message.push(Field { name, wire });
            arg.role = Some(role);
        } else if !matches!(
            p.mark,
            None | Some(Mark::New | Mark::Del | Mark::Gives | Mark::Takes)
        ) {
            bail!(
                "parameter `{}` is marked, but the call has no message",
                p.name
            );
        }
        call.args.push(arg);
        Ok(())
    }

    /// [`Call::queued`].
    fn queued(&self, call: &Call) -> Result<String> {
        let Class::QueuedIf(condition) = &call.item.class else {
            return Ok((call.item.class == Class::Queued).to_string());
        };
        let names: Vec<_> = match call.item.sort {
            Sort::Function => call
                .args
                .iter()
                .filter(|a| matches!(a.role, Some(Role::Number(_))))
                .map(|a| (a.name.as_str(), a.field.as_str()))
                .collect(),
            _ => call
                .request
                .iter()
                .filter(|f| matches!(f.wire, Wire::Number(_)))
                .map(|f| (f.name.as_str(), f.name.as_str()))
                .collect(),
        };
        condition::resolve(condition, &names, &self.types)
    }
}

fn travels(item: &Item) -> bool {
    matches!(
        item.class,
        Class::Queued | Class::QueuedIf(_) | Class::Waits | Class::Cached
    )
}

fn message_fields(params: &[Param]) -> Result<Vec<Field>> {
    params
        .iter()
        .map(|p| {
            if p.mark.is_some() {
                bail!("field `{}`: attributes are for C functions", p.name);
            }
            let text = p.ty.to_token_stream().to_string();
            let wire = match text.as_str() {
                "Str" => Wire::Str,
                "Bytes" => Wire::Bytes,
                "Rest" => Wire::Rest,
                "U32s" => Wire::U32s,
                "U64s" => Wire::U64s,
                other => match (&p.ty, wire_number(other)) {
                    (_, Some(n)) => Wire::Number(n),
                    (Type::Array(a), None) => {
                        let item = a.elem.to_token_stream().to_string();
                        let n = a.len.to_token_stream().to_string().parse()?;
                        match wire_number(&item) {
                            Some("u8") => Wire::Blob(n),
                            Some(item) => Wire::Array(item, n),
                            None => bail!("field `{}`: `{item}` cannot travel", p.name),
                        }
                    }
                    _ => bail!("field `{}`: `{other}` cannot travel", p.name),
                },
            };
            Ok(Field {
                name: field_name(&p.name),
                wire,
            })
        })
        .collect()
}

fn type_text(ty: &Type) -> (String, String) {
    let tidy = |t: &Type| t.to_token_stream().to_string().replace("* ", "*");
    let pointee = match ty {
        Type::Ptr(p) => tidy(&p.elem),
        _ => String::new(),
    };
    (tidy(ty), pointee)
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
