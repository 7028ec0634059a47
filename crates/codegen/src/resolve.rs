//! From parsed lines to the model: what is wrong with a line by itself is refused here.

use crate::abi::Types;
use crate::contract::Contract;
use crate::model::{Api, Arg, Call, CallbacksConfig, Config, Family, Field, Role, Wire};
use crate::model::{camel, field_name, snake, travels, type_text};
use crate::role::{self, wire_number};
use crate::spec::{self, Class, Item, Mark, Param, Sort};
use crate::{check, condition};
use anyhow::{Context, Result, bail};
use quote::ToTokens as _;
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use syn::Type;

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
        let numbered = |file: &Option<String>| -> Result<Vec<(String, u32)>> {
            let text = list(file)?;
            let lines = text.lines().filter(|l| !l.starts_with('#'));
            let parsed = lines.map(|l| {
                let (name, n) = l.split_once(' ').context("a line is a name and a number")?;
                Ok((name.to_owned(), n.parse()?))
            });
            let of = || file.clone().unwrap_or_default();
            parsed.collect::<Result<_>>().with_context(of)
        };
        let procs = numbered(&config.procs)?;
        let known = |file: fn(&CallbacksConfig) -> &String| {
            let all = numbered(&config.callbacks.as_ref().map(file).cloned());
            all.map(BTreeMap::from_iter)
        };
        let (callbacks, runtime_callbacks) = (known(|c| &c.own)?, known(|c| &c.runtime)?);
        let types = Types::load(&dir.join("abi"))?;
        let mut items = Vec::new();
        let mut paths: Vec<_> = std::fs::read_dir(dir)?
            .map(|e| e.map(|e| e.path()))
            .collect::<std::io::Result<_>>()?;
        let contract = dir.join("contract.rs");
        paths.retain(|p| *p != contract && p.extension().is_some_and(|e| e == "rs"));
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
            callbacks,
            runtime_callbacks,
            loader,
            contract: Contract::load(&contract)?,
        };
        empty.resolve(items)
    }

    /// Resolves parsed families, and refuses what does not hold together.
    pub fn resolve(mut self, items: Vec<(String, Vec<Item>)>) -> Result<Self> {
        for (family, list) in items {
            let mut calls = Vec::new();
            for item in list {
                let at = format!("{}: {}", item.place, item.name);
                calls.push(self.line(item).with_context(|| at)?);
            }
            self.families.push(Family {
                name: family,
                calls,
            });
        }
        check::api(&self)?;
        Ok(self)
    }

    fn line(&self, item: Item) -> Result<Call> {
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
        } else if !may_be_marked(call, p) {
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

/// Whether that mark may stand at a parameter of a call without a message: it says what becomes of
/// objects, or what the hand-written function is told.
fn may_be_marked(call: &Call, p: &Param) -> bool {
    match (&call.item.class, &p.mark) {
        (Class::Asked(_), _) | (Class::Forbidden(_), Some(Mark::Handle(_))) => return true,
        _ => {}
    }
    match p.mark {
        Some(Mark::Handle(_) | Mark::Out(_) | Mark::CStr | Mark::InRef) => {
            call.item.begin.is_some()
        }
        Some(Mark::New | Mark::Del | Mark::Gives(_) | Mark::Takes) | None => true,
        Some(_) => false,
    }
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
