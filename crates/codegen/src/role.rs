//! What each parameter of a forwarded function does, and what of it is on the wire.

use crate::abi::{self, Shape};
use crate::model::{Api, Call, Role, Wire};
use crate::spec::{Count, Mark, Param};
use anyhow::{Context, Result, anyhow, bail};
use quote::ToTokens as _;
use syn::Type;

/// What a handle is on the wire.
const ID: Wire = Wire::Number("u32");

impl Api {
    /// The role of a parameter, and its field.
    pub(crate) fn role(&self, p: &Param) -> Result<(Role, Wire)> {
        let Some(mark) = &p.mark else {
            if self.kind(&p.ty).is_ok() {
                bail!("a handle without an attribute");
            }
            let (number, is_size) = self.number(&p.ty)?;
            return Ok((Role::Number(is_size), Wire::Number(number)));
        };
        let target = || match &p.ty {
            Type::Ptr(t) => Ok(&*t.elem),
            _ => Err(anyhow!("not a pointer")),
        };
        Ok(match mark {
            Mark::Handle(null) => {
                let stream = self.config.stream.as_ref().map(|s| s.ty.as_str());
                let is_stream = stream.is_some() && abi::name_of(&p.ty).as_deref() == stream;
                (Role::Handle(self.kind(&p.ty)?, *null, is_stream), ID)
            }
            Mark::Del => (Role::Del(self.kind(&p.ty)?), ID),
            Mark::New => (Role::New(self.kind(target()?)?), ID),
            Mark::Out(optional) => self.out(target()?, *optional)?,
            Mark::OutArray(count) => {
                self.flat(target()?)?;
                (Role::OutArray(count.clone()), Wire::Bytes)
            }
            Mark::InRef => {
                let n = self.plain(target()?)?;
                (Role::InRef(n), Wire::Blob(n))
            }
            Mark::InArray(count, optional) => {
                self.flat(target()?)?;
                (Role::InArray(count.clone(), *optional), Wire::Bytes)
            }
            Mark::HandleArray(count) => {
                let kind = self.kind(target()?)?;
                (Role::HandleArray(count.clone(), kind), Wire::U32s)
            }
            Mark::BytesIn(count) => {
                target()?;
                (Role::BytesIn(count.clone()), Wire::Bytes)
            }
            Mark::CStr => {
                target()?;
                (Role::CStr, Wire::Bytes)
            }
            Mark::Address => {
                target()?;
                (Role::Address, Wire::Number("u64"))
            }
            Mark::Versioned | Mark::Gives(_) | Mark::Takes => {
                bail!("that is for lines without a message")
            }
        })
    }

    /// What comes back through a pointer.
    fn out(&self, to: &Type, optional: bool) -> Result<(Role, Wire)> {
        if self.kind(to).is_ok() {
            bail!("a handle that comes back needs hand-written code, or #[new]");
        }
        if let Shape::Plain(n) = self.types.shape(to) {
            return Ok((Role::OutPlain(n, optional), Wire::Blob(n)));
        }
        let (number, is_size) = self.number(to)?;
        Ok((Role::OutNumber(is_size, optional), Wire::Number(number)))
    }

    /// The kind of object that a handle's type names.
    pub(crate) fn kind(&self, ty: &Type) -> Result<String> {
        abi::name_of(ty)
            .and_then(|n| self.config.handles.get(&n).cloned())
            .ok_or_else(|| anyhow!("`{}` is no handle", ty.to_token_stream()))
    }

    /// What a number is on the wire, and whether it is a `usize`.
    fn number(&self, ty: &Type) -> Result<(&'static str, bool)> {
        match self.types.shape(ty) {
            Shape::Number(n) if n == "usize" => Ok(("u64", true)),
            Shape::Number(n) => wire_number(&n)
                .map(|n| (n, false))
                .with_context(|| format!("`{n}` cannot travel")),
            _ => bail!(
                "`{}` is not a number: it needs an attribute",
                ty.to_token_stream()
            ),
        }
    }

    /// The size of a structure without pointers.
    fn plain(&self, ty: &Type) -> Result<usize> {
        match self.types.shape(ty) {
            Shape::Plain(n) => Ok(n),
            _ => bail!(
                "`{}` is no structure without pointers",
                ty.to_token_stream()
            ),
        }
    }

    /// Fails unless values of the type mean the same anywhere.
    fn flat(&self, ty: &Type) -> Result<()> {
        match self.types.shape(ty) {
            Shape::Number(_) | Shape::Plain(_) => Ok(()),
            _ => bail!("`{}` holds pointers or is not known", ty.to_token_stream()),
        }
    }
}

/// Fails unless what counts a list is a number of the same call.
pub(crate) fn check_counts(call: &Call) -> Result<()> {
    for a in &call.args {
        let count = match &a.role {
            Some(
                Role::OutArray(c)
                | Role::InArray(c, _)
                | Role::HandleArray(c, _)
                | Role::BytesIn(c),
            ) => c,
            _ => continue,
        };
        if let Count::Param(name, _) = count {
            let found = call.args.iter().find(|x| x.name == *name);
            if !matches!(found.and_then(|f| f.role.as_ref()), Some(Role::Number(_))) {
                bail!("`{name}` counts `{}` but is no number", a.name);
            }
        }
    }
    Ok(())
}

/// A number's type on the wire.
pub(crate) fn wire_number(name: &str) -> Option<&'static str> {
    ["u8", "u16", "u32", "u64", "i32", "i64", "f32", "f64"]
        .into_iter()
        .find(|n| *n == name)
        .or((name == "c_int").then_some("i32"))
}
