//! What a line does to objects: which one it creates, destroys or changes, and whose child it is.
//!
//! Most of it the signature says: `#[new]` creates, `#[del]` destroys, and the parent is the
//! argument of a kind that the new object dies with, or else the object that the record is executed
//! in. A line states the rest.

use crate::model::{Api, At, Call, Effect, Role, field_name, snake};
use crate::spec::{Act, Class, Mark, Sort, Statement};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use syn::{PointerMutability, Type, TypePtr};

impl Api {
    /// All effects of a line.
    pub(crate) fn effects(&self, call: &Call) -> Result<Vec<Effect>> {
        let mut effects = Vec::new();
        if !call.travels() && !call.item.statements.is_empty() {
            bail!("effects are stated of what has a message, and marked at parameters elsewhere");
        }
        self.marked(call, &mut effects)?;
        let (acts, parents): (Vec<_>, Vec<_>) =
            call.item.statements.iter().partition(|s| s.act.is_some());
        for s in acts {
            for kind in &s.kinds {
                let at = self.at(call, kind, s)?;
                let act = s.act.clone().unwrap_or(Act::Creates);
                let same = |e: &Effect| e.act == act && e.at == at && e.kind == *kind;
                if effects.iter().any(same) {
                    bail!("the signature says already that a {kind} is one that it works on");
                }
                effects.push(Effect {
                    act,
                    kind: kind.clone(),
                    at,
                    of: Vec::new(),
                });
            }
        }
        let is_new = |e: &&mut Effect| matches!(e.act, Act::Creates | Act::Names);
        let mut taken = 0;
        for e in effects.iter_mut().filter(is_new) {
            e.of = self.parents(call, e, &parents, &mut taken)?;
        }
        if taken < parents.len() {
            bail!("`child_of`: no new object dies with such a parent, nor keeps one");
        }
        let setter = self.config.setter.as_deref();
        if call.travels()
            && setter.is_some_and(|word| call.snake.split('_').any(|w| w == word))
            && effects.is_empty()
        {
            bail!("it sets something and does not say what it changes");
        }
        Ok(effects)
    }

    /// What the parameters of a function say.
    fn marked(&self, call: &Call, effects: &mut Vec<Effect>) -> Result<()> {
        let mut add = |act, kind: String, field: &str| {
            effects.push(Effect {
                act,
                kind,
                at: At::Field(field.to_owned()),
                of: Vec::new(),
            });
        };
        for (a, p) in call.args.iter().zip(&call.item.params) {
            match &a.role {
                Some(Role::New(kind)) => add(Act::Creates, kind.clone(), &a.field),
                Some(Role::Del(kind)) => add(Act::Destroys, kind.clone(), &a.field),
                _ => {}
            }
            if call.travels() || !call.is_function() {
                continue;
            }
            let Type::Ptr(to) = &p.ty else {
                if matches!(p.mark, Some(Mark::Del)) {
                    add(Act::Destroys, self.kind(&p.ty)?, &a.field);
                }
                continue;
            };
            let kind = self.kind(&to.elem).ok();
            match (&p.mark, kind) {
                _ if matches!(call.item.class, Class::Asked(_)) => {}
                (Some(Mark::New), Some(kind)) => add(Act::Creates, kind, &a.field),
                (Some(Mark::Out(_) | Mark::CStr | Mark::InRef), None) => {}
                (Some(_), None) => bail!("parameter `{}` is not a handle of an object", p.name),
                (None | Some(Mark::Out(_)), Some(kind))
                    if is_mut(to) && has_body(&call.item.class) =>
                {
                    bail!(
                        "parameter `{}` brings a {kind} back: #[new], or #[gives] if it was there \
                         already, or #[takes] if it goes in",
                        p.name
                    )
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Where a statement's object is named.
    fn at(&self, call: &Call, kind: &str, s: &Statement) -> Result<At> {
        if !self.config.kinds.contains_key(kind) {
            bail!("`{kind}` is not a kind of object");
        }
        if let Some(field) = &s.field {
            if field == "scope" && self.config.scope.as_deref() == Some(kind) {
                return Ok(At::Scope);
            }
            return find(call, field)
                .with_context(|| format!("nothing is called `{field}`, which names a {kind}"));
        }
        if let Some(at) = self.argument(call, kind)? {
            return Ok(at);
        }
        if self.config.scope.as_deref() == Some(kind) {
            return Ok(At::Scope);
        }
        bail!("nothing names a {kind}: say which field does")
    }

    /// The one argument that names an object of a kind.
    fn argument(&self, call: &Call, kind: &str) -> Result<Option<At>> {
        if call.item.sort == Sort::Message {
            return Ok(find(call, &snake(kind)));
        }
        let mut found = call.args.iter().filter(|a| match &a.role {
            Some(Role::Handle(k, ..)) => k == kind,
            _ => false,
        });
        let first = found.next();
        if found.next().is_some() {
            bail!("several arguments name a {kind}: say which one is meant");
        }
        Ok(first.map(|a| At::Field(a.field.clone())))
    }

    /// What a new object is a child of, and what it keeps.
    fn parents(
        &self,
        call: &Call,
        e: &Effect,
        stated: &[&Statement],
        taken: &mut usize,
    ) -> Result<Vec<(String, At)>> {
        let Some(kind) = self.config.kinds.get(&e.kind) else {
            bail!("`{}` is not a kind of object", e.kind);
        };
        let mut of = Vec::new();
        let fits = |k: &String| kind.dies_with.contains(k) || kind.keeps.contains(k);
        for s in stated.iter().filter(|s| s.kinds.iter().all(fits)) {
            *taken += 1;
            for parent in &s.kinds {
                of.push((parent.clone(), self.at(call, parent, s)?));
            }
        }
        if !of.is_empty() {
            return Ok(of);
        }
        for parent in &kind.dies_with {
            let at = self.argument(call, parent)?.filter(|at| *at != e.at);
            of.extend(at.map(|at| (parent.clone(), at)));
        }
        let scope = self.config.scope.iter();
        let scope = scope.filter(|s| of.is_empty() && kind.dies_with.contains(s));
        of.extend(scope.map(|s| (s.clone(), At::Scope)).collect::<Vec<_>>());
        for kept in &kind.keeps {
            let at = self.argument(call, kept)?.filter(|at| *at != e.at);
            of.extend(at.map(|at| (kept.clone(), at)));
        }
        Ok(of)
    }
}

/// Whether it is a `*mut`.
fn is_mut(pointer: &TypePtr) -> bool {
    matches!(pointer.mutability, PointerMutability::Mut(_))
}

/// Whether a function of that class has a body of its own.
fn has_body(class: &Class) -> bool {
    !class.is_refused() && !matches!(class, Class::Is(..))
}

/// The field, or parameter, of that name.
fn find(call: &Call, name: &str) -> Option<At> {
    let name = field_name(name);
    if call.request.iter().any(|f| f.name == name) {
        return Some(At::Field(name));
    }
    if call.reply.iter().any(|f| f.name == name) {
        return Some(At::Reply(name));
    }
    None
}

/// Refuses kinds that do not hold together: each is declared, each is created by some line, and
/// whatever is created is destroyed by some line or dies with something.
pub fn kinds(api: &Api) -> Result<()> {
    let known = &api.config.kinds;
    let said = api.config.handles.values().chain(&api.config.scope);
    let parents = known
        .values()
        .flat_map(|k| k.dies_with.iter().chain(&k.keeps));
    for kind in said.chain(parents) {
        if !known.contains_key(kind) {
            bail!("`{kind}` is not among the kinds of objects");
        }
    }
    let done = |act: &Act, travels: bool| -> BTreeSet<&str> {
        let calls = api.calls().filter(|c| c.travels() == travels);
        let effects = calls.flat_map(|c| &c.effects);
        let of_act = effects.filter(|e| e.act == *act);
        of_act.map(|e| e.kind.as_str()).collect()
    };
    let created = done(&Act::Creates, true);
    let destroyed = done(&Act::Destroys, true);
    for (kind, k) in known {
        let is_created = created.contains(kind.as_str());
        if is_created == k.given.is_some() {
            bail!(if is_created {
                format!("a line creates a {kind}, which is said to be given")
            } else {
                format!("no line creates a {kind}: `given` says why")
            });
        }
        let ends = destroyed.contains(kind.as_str()) || !k.dies_with.is_empty();
        if is_created && ends == k.stays.is_some() {
            bail!(if ends {
                format!("a {kind} is said to stay, but it does not")
            } else {
                format!("nothing destroys a {kind}: `stays` says why")
            });
        }
    }
    if let Some(kind) = done(&Act::Creates, false)
        .iter()
        .find(|k| !created.contains(*k))
    {
        bail!("a function creates a {kind}, and no message does");
    }
    Ok(())
}
