//! `spec/<api>/contract.rs`: what both ends of an API agree on beside the messages.
//!
//! It holds constants, enumerations with `#[numbers]`, and one map of addresses, an enumeration
//! with `#[ranges(bytes)]`: each variant is a sum of `[first address; how many]`.

use crate::abi::doc_text;
use anyhow::{Context, Result, anyhow, bail};
use quote::ToTokens as _;
use std::path::Path;
use syn::{BinOp, Expr, ExprLit, Fields, Item, ItemEnum, Lit};

/// All of it.
#[derive(Debug, Default)]
pub struct Contract {
    /// Constants: documentation, and the item.
    pub constants: Vec<(Vec<String>, String)>,
    /// Enumerations.
    pub numbers: Vec<Numbers>,
    /// The map of addresses.
    pub map: Option<Map>,
}

/// An enumeration that travels as a number.
#[derive(Debug)]
pub struct Numbers {
    /// Its documentation.
    pub docs: Vec<String>,
    /// Its name.
    pub name: String,
    /// Documentation, name and number of each variant.
    pub variants: Vec<(Vec<String>, String, u32)>,
}

/// Ranges of addresses, all of one size.
#[derive(Debug)]
pub struct Map {
    /// Its documentation.
    pub docs: Vec<String>,
    /// Bytes of a range.
    pub bytes: u64,
    /// Documentation, name and first addresses of each kind of range, in order of number.
    pub kinds: Vec<(Vec<String>, String, Vec<u64>)>,
}

/// Where the addresses of user space end.
const END: u64 = 1 << 47;

impl Contract {
    /// Reads the file, if there is one.
    pub fn load(path: &Path) -> Result<Option<Self>> {
        let at = path.display().to_string();
        if !path.is_file() {
            return Ok(None);
        }
        let text = std::fs::read_to_string(path).with_context(|| at.clone())?;
        Self::parse(&text).map(Some).with_context(|| at)
    }

    fn parse(text: &str) -> Result<Self> {
        let file = syn::parse_file(text).map_err(|e| anyhow!("{}: {e}", e.span().start().line))?;
        let mut contract = Self::default();
        for item in file.items {
            match item {
                Item::Const(mut c) => {
                    let docs = docs(&c.attrs);
                    c.attrs.clear();
                    let text = c.to_token_stream().to_string();
                    contract.constants.push((docs, text));
                }
                Item::Enum(e) => contract
                    .enumeration(&e)
                    .with_context(|| e.ident.to_string())?,
                other => bail!("a contract cannot hold `{}`", other.to_token_stream()),
            }
        }
        Ok(contract)
    }

    fn enumeration(&mut self, e: &ItemEnum) -> Result<()> {
        let ranges = e.attrs.iter().find(|a| a.path().is_ident("ranges"));
        let docs_of = docs(&e.attrs);
        let mut variants = Vec::new();
        for v in &e.variants {
            let (Fields::Unit, Some((_, value))) = (&v.fields, &v.discriminant) else {
                bail!("`{}` wants a value and no fields", v.ident);
            };
            variants.push((docs(&v.attrs), v.ident.to_string(), value));
        }
        let Some(ranges) = ranges else {
            let number = |(docs, name, value): (_, _, &Expr)| {
                Ok((docs, name, u32::try_from(evaluate(value)?)?))
            };
            let variants = variants.into_iter().map(number);
            self.numbers.push(Numbers {
                docs: docs_of,
                name: e.ident.to_string(),
                variants: variants.collect::<Result<_>>()?,
            });
            return Ok(());
        };
        let bytes = evaluate(&ranges.parse_args::<Expr>()?)?;
        let mut kinds = Vec::new();
        for (docs, name, value) in variants {
            let mut starts = Vec::new();
            stretches(value, bytes, &mut starts).with_context(|| name.clone())?;
            kinds.push((docs, name, starts));
        }
        let mut all: Vec<_> = kinds.iter().flat_map(|(_, _, starts)| starts).collect();
        all.sort();
        if let Some(w) = all.windows(2).find(|w| w[0] == w[1]) {
            bail!("two ranges begin at {:#x}", w[0]);
        }
        if all.len() >= usize::from(u8::MAX) {
            bail!("there are too many ranges for a number of 8 bits");
        }
        let map = Map {
            docs: docs_of,
            bytes,
            kinds,
        };
        if self.map.replace(map).is_some() {
            bail!("a contract has one map of addresses");
        }
        Ok(())
    }
}

/// The first address of each range of `[first; how many] + ...`.
fn stretches(e: &Expr, bytes: u64, out: &mut Vec<u64>) -> Result<()> {
    match e {
        Expr::Binary(b) if matches!(b.op, BinOp::Add(_)) => {
            stretches(&b.left, bytes, out)?;
            stretches(&b.right, bytes, out)
        }
        Expr::Repeat(r) => {
            let (first, count) = (evaluate(&r.expr)?, evaluate(&r.len)?);
            let end = bytes.checked_mul(count).and_then(|n| n.checked_add(first));
            if bytes == 0 || !first.is_multiple_of(bytes) || end.is_none_or(|end| end > END) {
                bail!("{count} ranges cannot begin at {first:#x}");
            }
            out.extend((0..count).map(|i| first + i * bytes));
            Ok(())
        }
        other => bail!(
            "`{}` is not a first address and a count",
            other.to_token_stream()
        ),
    }
}

/// The value of a number, or of `a << b`.
fn evaluate(e: &Expr) -> Result<u64> {
    match e {
        Expr::Lit(ExprLit {
            lit: Lit::Int(n), ..
        }) => Ok(n.base10_parse()?),
        Expr::Binary(b) if matches!(b.op, BinOp::Shl(_)) => {
            let by = u32::try_from(evaluate(&b.right)?)?;
            evaluate(&b.left)?
                .checked_shl(by)
                .context("shifted out of sight")
        }
        other => bail!("`{}` is not a number", other.to_token_stream()),
    }
}

fn docs(attrs: &[syn::Attribute]) -> Vec<String> {
    attrs.iter().filter_map(doc_text).collect()
}
