//! The condition of `#[queued_if(...)]`: a Rust expression over a call's numbers and the API's
//! constants, which becomes an expression over the fields of its message.
//!
//! Names, numbers and operators are all that is let through; whether they make sense together the
//! compiler says, of what is generated.

use crate::abi::Types;
use anyhow::{Context, Result, bail};
use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use quote::ToTokens as _;

/// The punctuation of comparisons, `&`, `&&`, `||`, `!`, signs, and of patterns of `matches!`.
const OPERATORS: &str = "=<>&|!-.,";

/// Translates a condition. `fields` has the names that it may use, and what the message calls them.
pub fn resolve(text: &str, fields: &[(&str, &str)], types: &Types) -> Result<String> {
    let tokens: TokenStream = text.parse().ok().context("no expression")?;
    let name = |i: &Ident| {
        let i = i.to_string();
        if i == "matches" {
            return Ok(i);
        }
        if let Some((_, field)) = fields.iter().find(|(n, _)| *n == i) {
            return Ok(format!("self.{field}"));
        }
        types
            .constants
            .iter()
            .find(|c| c.name == i)
            .and_then(|c| c.value)
            .map(|v| v.to_string())
            .with_context(|| format!("`{i}` is neither a number of the call nor a constant"))
    };
    Ok(translate(tokens, &name)?.to_string())
}

fn translate(tokens: TokenStream, name: &dyn Fn(&Ident) -> Result<String>) -> Result<TokenStream> {
    let mut out = TokenStream::new();
    for t in tokens {
        match &t {
            TokenTree::Ident(i) => {
                let text = name(i)?;
                out.extend(text.parse::<TokenStream>().ok().context(text)?);
            }
            TokenTree::Group(g) => {
                Group::new(g.delimiter(), translate(g.stream(), name)?).to_tokens(&mut out);
            }
            TokenTree::Punct(p) if OPERATORS.contains(p.as_char()) => t.to_tokens(&mut out),
            TokenTree::Literal(l) if l.to_string().starts_with(|c: char| c.is_ascii_digit()) => {
                t.to_tokens(&mut out);
            }
            other => bail!("a condition cannot hold `{other}`"),
        }
    }
    Ok(out)
}
