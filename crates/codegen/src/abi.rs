//! The C types of an API: `spec/<api>/abi/*.rs`, plain Rust with a layout on each structure.

use anyhow::{Context, Result, anyhow, bail};
use quote::ToTokens as _;
use std::collections::HashMap;
use std::path::Path;
use syn::parse::ParseStream;
use syn::{Ident, Item, ItemConst, ItemStruct, LitInt, Token, Type};

/// Size, alignment and field offsets that a C compiler gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Bytes.
    pub size: usize,
    /// Alignment.
    pub align: usize,
    /// Offset of each field.
    pub offsets: Vec<usize>,
}

/// One structure.
#[derive(Debug, Clone)]
pub struct Struct {
    /// Its name.
    pub name: String,
    /// What a C compiler makes of it.
    pub layout: Layout,
    /// Names and types of its fields.
    pub fields: Vec<(String, Type)>,
}

/// One file of types.
#[derive(Debug, Clone)]
pub struct Module {
    /// File stem.
    pub name: String,
    /// Its text, without the layouts.
    pub text: String,
    /// Names of its structures.
    pub structs: Vec<String>,
}

impl Module {
    fn document(&mut self, lines: impl IntoIterator<Item = String>) {
        for line in lines {
            self.text.push_str(&format!("/// {line}\n"));
        }
    }
}

/// All C types of an API.
#[derive(Debug, Clone, Default)]
pub struct Types {
    /// The files.
    pub modules: Vec<Module>,
    /// Type aliases.
    pub aliases: HashMap<String, Type>,
    /// Structures.
    pub structs: HashMap<String, Struct>,
    /// Constants.
    pub constants: Vec<Constant>,
}

/// One constant.
#[derive(Debug, Clone)]
pub struct Constant {
    /// Its name.
    pub name: String,
    /// The name of its type.
    pub ty: String,
    /// Its value, where it is a plain number.
    pub value: Option<i64>,
    /// Its documentation.
    pub docs: String,
}

/// How a type looks to the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// A number; the name of its Rust type (`usize` included).
    Number(String),
    /// A structure of that many bytes.
    Plain(usize),
    /// A pointer.
    Pointer,
    /// Holds a pointer somewhere, or is of no known shape.
    Opaque,
}

const NUMBERS: [(&str, usize); 13] = [
    ("u8", 1),
    ("i8", 1),
    ("c_char", 1),
    ("u16", 2),
    ("i16", 2),
    ("u32", 4),
    ("i32", 4),
    ("f32", 4),
    ("u64", 8),
    ("i64", 8),
    ("f64", 8),
    ("usize", 8),
    ("c_int", 4),
];

impl Types {
    /// Reads `dir/*.rs`; an API without C functions has no such folder.
    pub fn load(dir: &Path) -> Result<Self> {
        let mut types = Self::default();
        let Ok(entries) = std::fs::read_dir(dir) else {
            return Ok(types);
        };
        let mut paths: Vec<_> = entries
            .map(|e| e.map(|e| e.path()))
            .collect::<std::io::Result<_>>()?;
        paths.sort();
        for path in paths {
            let name = path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let at = path.display().to_string();
            let text = std::fs::read_to_string(&path).with_context(|| at.clone())?;
            types.add(&name, &text).with_context(|| at)?;
        }
        Ok(types)
    }

    /// Adds one file.
    pub fn add(&mut self, name: &str, text: &str) -> Result<()> {
        let file = syn::parse_file(text).map_err(|e| anyhow!("{}: {e}", e.span().start().line))?;
        let mut module = Module {
            name: name.to_owned(),
            text: String::new(),
            structs: Vec::new(),
        };
        for item in file.items {
            let tokens = match item {
                Item::Type(t) => {
                    self.aliases.insert(t.ident.to_string(), (*t.ty).clone());
                    t.to_token_stream()
                }
                Item::Struct(s) => self.add_struct(s, &mut module)?.to_token_stream(),
                Item::Const(c) => self.add_constant(c, &mut module).to_token_stream(),
                other => bail!("a file of types cannot hold `{}`", other.to_token_stream()),
            };
            module.text.push_str(&tokens.to_string());
            module.text.push('\n');
        }
        self.modules.push(module);
        Ok(())
    }

    /// Notes a structure, and what of it stands before its own text; returns that.
    fn add_struct(&mut self, mut s: ItemStruct, module: &mut Module) -> Result<ItemStruct> {
        let name = s.ident.to_string();
        let at = s.attrs.iter().position(|a| a.path().is_ident("layout"));
        let attr = s
            .attrs
            .remove(at.with_context(|| format!("{name}: no layout"))?);
        let layout = attr.parse_args_with(layout).with_context(|| name.clone())?;
        if layout.offsets.len() != s.fields.len() {
            bail!(
                "{name}: {} fields, {} offsets",
                s.fields.len(),
                layout.offsets.len()
            );
        }
        let fields = s.fields.iter().map(|f| {
            let n = f.ident.as_ref().map(ToString::to_string);
            (n.unwrap_or_default(), f.ty.clone())
        });
        let fields = fields.collect();
        module.structs.push(name.clone());
        let known = Struct {
            name: name.clone(),
            layout,
            fields,
        };
        self.structs.insert(name, known);
        let (docs, attrs): (Vec<_>, _) =
            s.attrs.into_iter().partition(|a| a.path().is_ident("doc"));
        s.attrs = attrs;
        module.document(docs.iter().filter_map(doc_text));
        module.text.push_str("#[derive(Clone, Copy)]\n");
        Ok(s)
    }

    /// As [`Types::add_struct`], of a constant.
    fn add_constant(&mut self, mut c: ItemConst, module: &mut Module) -> ItemConst {
        let docs: Vec<_> = c.attrs.iter().filter_map(doc_text).collect();
        let value = c.expr.to_token_stream().to_string().replace("- ", "-");
        self.constants.push(Constant {
            name: c.ident.to_string(),
            ty: c.ty.to_token_stream().to_string(),
            value: value.parse().ok(),
            docs: docs.join(" "),
        });
        c.attrs.clear();
        module.document(docs);
        c
    }

    /// Follows aliases to the end.
    pub fn resolve(&self, ty: &Type) -> Type {
        let mut ty = ty.clone();
        while let Some(next) = name_of(&ty).and_then(|n| self.aliases.get(&n)) {
            ty = next.clone();
        }
        ty
    }

    /// How the wire sees `ty`.
    pub fn shape(&self, ty: &Type) -> Shape {
        let ty = self.resolve(ty);
        match &ty {
            Type::Ptr(_) => Shape::Pointer,
            Type::Array(_) => match self.size_of(&ty) {
                Some(n) if !self.has_pointer(&ty) => Shape::Plain(n),
                _ => Shape::Opaque,
            },
            _ => match name_of(&ty) {
                Some(n) if NUMBERS.iter().any(|(x, _)| *x == n) => Shape::Number(n),
                Some(n) if self.structs.contains_key(&n) && !self.has_pointer(&ty) => {
                    Shape::Plain(self.structs[&n].layout.size)
                }
                _ => Shape::Opaque,
            },
        }
    }

    /// Bytes of a value of type `ty`.
    pub fn size_of(&self, ty: &Type) -> Option<usize> {
        let ty = self.resolve(ty);
        match &ty {
            Type::Ptr(_) => Some(8),
            Type::Array(a) => {
                let n: usize = a.len.to_token_stream().to_string().parse().ok()?;
                Some(n * self.size_of(&a.elem)?)
            }
            _ => {
                let name = name_of(&ty)?;
                let number = NUMBERS.iter().find(|(x, _)| *x == name).map(|(_, n)| *n);
                number.or_else(|| self.structs.get(&name).map(|s| s.layout.size))
            }
        }
    }

    /// The bytes of a value of type `ty` that are no field's, at which offset and how many.
    pub fn holes(&self, ty: &Type) -> Vec<(usize, usize)> {
        let ty = self.resolve(ty);
        if let Type::Array(a) = &ty {
            let each = self.size_of(&a.elem).unwrap_or(0);
            let n = self
                .size_of(&ty)
                .unwrap_or(0)
                .checked_div(each)
                .unwrap_or(0);
            let all = (0..n).flat_map(|i| at(i * each, self.holes(&a.elem)));
            return all.collect();
        }
        let Some(s) = name_of(&ty).and_then(|n| self.structs.get(&n)) else {
            return Vec::new();
        };
        let (mut holes, mut end) = (Vec::new(), 0);
        for ((_, field), offset) in s.fields.iter().zip(&s.layout.offsets) {
            holes.extend((*offset > end).then(|| (end, offset - end)));
            holes.extend(at(*offset, self.holes(field)));
            // What is none of these is a function's address.
            end = offset + self.size_of(field).unwrap_or(8);
        }
        holes.extend((s.layout.size > end).then(|| (end, s.layout.size - end)));
        holes
    }

    fn has_pointer(&self, ty: &Type) -> bool {
        let ty = self.resolve(ty);
        match &ty {
            Type::Array(a) => self.has_pointer(&a.elem),
            Type::Path(_) => match name_of(&ty) {
                Some(n) if NUMBERS.iter().any(|(x, _)| *x == n) => false,
                Some(n) => self
                    .structs
                    .get(&n)
                    .is_none_or(|s| s.fields.iter().any(|(_, t)| self.has_pointer(t))),
                None => true,
            },
            _ => true,
        }
    }
}

/// The same further on.
fn at(offset: usize, holes: Vec<(usize, usize)>) -> impl Iterator<Item = (usize, usize)> {
    holes.into_iter().map(move |(from, n)| (offset + from, n))
}

/// The text of a line of documentation.
pub(crate) fn doc_text(attr: &syn::Attribute) -> Option<String> {
    match &attr.meta.require_name_value().ok()?.value {
        syn::Expr::Lit(syn::ExprLit {
            lit: syn::Lit::Str(s),
            ..
        }) if attr.path().is_ident("doc") => Some(s.value().trim().to_owned()),
        _ => None,
    }
}

/// The name of a type that is a plain word.
pub fn name_of(ty: &Type) -> Option<String> {
    match ty {
        Type::Path(p) => p.path.get_ident().map(ToString::to_string),
        _ => None,
    }
}

fn layout(input: ParseStream<'_>) -> syn::Result<Layout> {
    let mut l = Layout {
        size: 0,
        align: 0,
        offsets: Vec::new(),
    };
    while !input.is_empty() {
        let key: Ident = input.parse()?;
        input.parse::<Token![=]>()?;
        match key.to_string().as_str() {
            "size" => l.size = input.parse::<LitInt>()?.base10_parse()?,
            "align" => l.align = input.parse::<LitInt>()?.base10_parse()?,
            "offsets" => {
                let inner;
                syn::bracketed!(inner in input);
                let list = inner.parse_terminated(|i| i.parse::<LitInt>(), Token![,])?;
                l.offsets = list
                    .iter()
                    .map(LitInt::base10_parse)
                    .collect::<syn::Result<_>>()?;
            }
            _ => return Err(syn::Error::new(key.span(), "size, align or offsets")),
        }
        if !input.is_empty() {
            input.parse::<Token![,]>()?;
        }
    }
    Ok(l)
}
