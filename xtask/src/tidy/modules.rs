//! The modules of a crate and what their names stand for, from the parsed sources. Tests and
//! generated files are left out.

use super::repo::{File, Repo};
use anyhow::{Context as _, Result};
use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::{self, Visit};
use syn::{Attribute, ForeignItem, Item, ItemMod, ItemUse, Meta, UseTree, Visibility};

/// A path's segments: `crate::a::B` is `["crate", "a", "B"]`.
pub type Segments = Vec<String>;

/// The modules that belong to one library or one binary, the root first.
pub struct Crate {
    pub modules: Vec<Module>,
    /// The macros of all modules.
    pub macros: BTreeMap<String, usize>,
}

/// A file, or a module written inside another.
pub struct Module {
    /// Where the module is: its file, and for a module inside another `FILE::name`.
    pub path: String,
    /// The items without tests and without modules.
    pub items: Vec<Item>,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    /// The names of the items, and whether a path can go on behind each.
    own: BTreeMap<String, bool>,
    imports: BTreeMap<String, Vec<Segments>>,
    globs: Vec<Segments>,
}

/// What a path stands for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Found {
    Module(usize),
    /// An item of this module, or something that belongs to the item: a variant, a method.
    Item(usize, String),
}

impl Crate {
    /// Reads the crate whose root is the file `root`.
    pub fn read(repo: &Repo, root: &str) -> Result<Self> {
        let mut made = Self {
            modules: Vec::new(),
            macros: BTreeMap::new(),
        };
        let file = find(repo, root).with_context(|| format!("{root} is not in the repository"))?;
        made.file(repo, file, folder(root), None)?;
        Ok(made)
    }

    fn file(
        &mut self,
        repo: &Repo,
        file: &File,
        beneath: &str,
        parent: Option<usize>,
    ) -> Result<usize> {
        let parsed = syn::parse_file(&file.text)
            .map_err(|e| anyhow::anyhow!("{}:{}: {e}", file.path, e.span().start().line))?;
        self.module(repo, file, &file.path, parsed.items, beneath, parent)
    }

    fn module(
        &mut self,
        repo: &Repo,
        file: &File,
        path: &str,
        items: Vec<Item>,
        beneath: &str,
        parent: Option<usize>,
    ) -> Result<usize> {
        let at = self.modules.len();
        let (nested, items): (Vec<_>, Vec<_>) = items
            .into_iter()
            .filter(|i| !is_test(attributes(i)))
            .partition(|i| matches!(i, Item::Mod(_)));
        let mut uses = Uses::default();
        items.iter().for_each(|i| uses.visit_item(i));
        let mut own = BTreeMap::new();
        for (name, goes_on) in items.iter().flat_map(names) {
            *own.entry(name).or_default() |= goes_on;
        }
        for item in &items {
            if let Item::Macro(m) = item
                && let Some(name) = &m.ident
            {
                self.macros.insert(name.to_string(), at);
            }
        }
        self.modules.push(Module {
            path: path.into(),
            own,
            items,
            parent,
            children: BTreeMap::new(),
            imports: uses.names,
            globs: uses.globs,
        });
        for item in nested {
            let Item::Mod(item) = item else { continue };
            let name = item.ident.to_string();
            let inside = format!("{beneath}/{name}");
            let child = if let Some((_, items)) = item.content {
                let path = format!("{path}::{name}");
                Some(self.module(repo, file, &path, items, &inside, Some(at))?)
            } else {
                let candidates = match said(&item) {
                    Some(path) => vec![format!("{}/{path}", folder(&file.path))],
                    None => vec![format!("{inside}.rs"), format!("{inside}/mod.rs")],
                };
                let child = candidates.iter().find_map(|p| find(repo, p));
                match child.filter(|c| !c.is_generated()) {
                    Some(child) => {
                        let beneath = match said(&item) {
                            Some(_) => folder(&child.path),
                            None => &inside,
                        };
                        Some(self.file(repo, child, beneath, Some(at))?)
                    }
                    None => None, // Generated, or made by a build.
                }
            };
            if let Some(child) = child {
                self.modules[at].children.insert(name, child);
            }
        }
        Ok(at)
    }

    /// Whether a module has items of its own. One that only declares modules and imports or hands
    /// on names is nobody's dependency: a path through it leads to where the item is defined.
    pub fn has_items(&self, module: usize) -> bool {
        !self.modules[module].own.is_empty()
    }

    /// The module, its parent, and so on to the root.
    pub fn ancestors(&self, module: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(module), |m| self.modules[*m].parent)
    }

    /// What `path` stands for where it is written, if that is of this crate.
    pub fn resolve(&self, module: usize, path: &[String]) -> Option<Found> {
        self.resolve_unless(module, path, &mut BTreeSet::new())
    }

    /// `asked` has what is being looked up already: imports may go round in circles.
    fn resolve_unless(
        &self,
        module: usize,
        path: &[String],
        asked: &mut BTreeSet<(usize, String)>,
    ) -> Option<Found> {
        let (first, mut rest) = path.split_first()?;
        let mut at = match first.as_str() {
            "crate" => Found::Module(0),
            "self" => Found::Module(module),
            "super" => Found::Module(self.modules[module].parent?),
            name => self.lookup(module, name, !rest.is_empty(), asked)?,
        };
        while let (Found::Module(here), Some((name, after))) = (&at, rest.split_first()) {
            at = match name.as_str() {
                "self" => Found::Module(*here),
                "super" => Found::Module(self.modules[*here].parent?),
                name => match self.lookup(*here, name, !after.is_empty(), asked) {
                    Some(found) => found,
                    // A macro makes items that are not to be seen here; a name that comes from
                    // elsewhere is in one of the globs.
                    None if self.modules[*here].globs.is_empty()
                        && !self.modules[*here].imports.contains_key(name)
                        && self.invokes(*here) =>
                    {
                        Found::Item(*here, name.into())
                    }
                    None => return None,
                },
            };
            rest = after;
        }
        Some(at)
    }

    fn lookup(
        &self,
        module: usize,
        name: &str,
        goes_on: bool,
        asked: &mut BTreeSet<(usize, String)>,
    ) -> Option<Found> {
        if !asked.insert((module, name.into())) {
            return None;
        }
        let m = &self.modules[module];
        let child = m.children.get(name).map(|c| Found::Module(*c));
        let own = || {
            let own = m.own.get(name).filter(|o| **o || !goes_on);
            own.map(|_| Found::Item(module, name.into()))
        };
        let found = if goes_on {
            child.or_else(own)
        } else {
            own().or(child)
        };
        let imported = || m.imports.get(name).into_iter().flatten();
        let mut found = found.or_else(|| {
            imported().find_map(|path| self.resolve_unless(module, path, &mut asked.clone()))
        });
        if found.is_none() && imported().next().is_none() {
            found = m.globs.iter().find_map(|path| {
                match self.resolve_unless(module, path, &mut asked.clone())? {
                    Found::Module(from) => self.lookup(from, name, goes_on, asked),
                    Found::Item(..) => None, // The variants of an enumeration.
                }
            });
        }
        asked.remove(&(module, name.into()));
        found
    }

    fn invokes(&self, module: usize) -> bool {
        let items = &self.modules[module].items;
        items
            .iter()
            .any(|i| matches!(i, Item::Macro(m) if m.ident.is_none()))
    }
}

/// The names that a module imports, also inside its functions.
#[derive(Default)]
struct Uses {
    names: BTreeMap<String, Vec<Segments>>,
    globs: Vec<Segments>,
}

impl<'ast> Visit<'ast> for Uses {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test(attributes(item)) && !matches!(item, Item::Mod(_)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        for leaf in leaves(item) {
            match leaf.name {
                Some(name) => self.names.entry(name).or_default().push(leaf.path),
                None => self.globs.push(leaf.path),
            }
        }
    }
}

/// One name of a `use`: under which name the path is known, which no glob has.
pub struct Leaf {
    pub name: Option<String>,
    pub path: Segments,
}

/// What an item `use` imports; nothing where the path begins in another crate by its form.
pub fn leaves(item: &ItemUse) -> Vec<Leaf> {
    fn walk(tree: &UseTree, before: &[String], leaves: &mut Vec<Leaf>) {
        let mut path = before.to_vec();
        let mut leaf = |name: Option<String>, path| leaves.push(Leaf { name, path });
        match tree {
            UseTree::Path(p) => {
                path.push(p.ident.to_string());
                walk(&p.tree, &path, leaves);
            }
            UseTree::Group(g) => g.items.iter().for_each(|t| walk(t, &path, leaves)),
            UseTree::Glob(_) => leaf(None, path),
            UseTree::Name(n) if n.ident == "self" => leaf(path.last().cloned(), path),
            UseTree::Rename(r) if r.ident == "self" => leaf(Some(r.rename.to_string()), path),
            UseTree::Name(n) => {
                path.push(n.ident.to_string());
                leaf(path.last().cloned(), path);
            }
            UseTree::Rename(r) => {
                path.push(r.ident.to_string());
                leaf(Some(r.rename.to_string()), path);
            }
        }
    }
    let mut found = Vec::new();
    if item.leading_colon.is_none() {
        walk(&item.tree, &[], &mut found);
    }
    found
}

/// Whether an item `use` hands names on.
pub fn hands_on(item: &ItemUse) -> bool {
    !matches!(item.vis, Visibility::Inherited)
}

/// Whether an item is compiled for tests only.
pub fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|a| match &a.meta {
        Meta::List(l) if l.path.is_ident("cfg") => wants_test(l.tokens.clone()),
        Meta::Path(p) => p.is_ident("test"),
        _ => false,
    })
}

/// `test`, or `all(test, ..)`.
fn wants_test(condition: TokenStream) -> bool {
    let mut all = false;
    for token in condition {
        match token {
            TokenTree::Ident(i) if i == "test" => return true,
            TokenTree::Group(g) if all => return wants_test(g.stream()),
            TokenTree::Ident(i) => all = i == "all",
            _ => {}
        }
    }
    false
}

pub fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(i) => &i.attrs,
        Item::Enum(i) => &i.attrs,
        Item::Fn(i) => &i.attrs,
        Item::ForeignMod(i) => &i.attrs,
        Item::Impl(i) => &i.attrs,
        Item::Macro(i) => &i.attrs,
        Item::Mod(i) => &i.attrs,
        Item::Static(i) => &i.attrs,
        Item::Struct(i) => &i.attrs,
        Item::Trait(i) => &i.attrs,
        Item::Type(i) => &i.attrs,
        Item::Union(i) => &i.attrs,
        Item::Use(i) => &i.attrs,
        _ => &[],
    }
}

/// The names that an item gives to its module, and whether a path can go on behind each. What has
/// no name, and what only adds to a type, has an empty one.
fn names(item: &Item) -> Vec<(String, bool)> {
    let (ident, goes_on) = match item {
        Item::Const(i) => (&i.ident, false),
        Item::Fn(i) => (&i.sig.ident, false),
        Item::Static(i) => (&i.ident, false),
        Item::Macro(m) => match &m.ident {
            Some(ident) => (ident, false),
            None => return vec![(String::new(), false)],
        },
        Item::Enum(i) => (&i.ident, true),
        Item::Struct(i) => (&i.ident, true),
        Item::Trait(i) => (&i.ident, true),
        Item::Type(i) => (&i.ident, true),
        Item::Union(i) => (&i.ident, true),
        Item::Impl(_) => return vec![(String::new(), false)],
        Item::ForeignMod(i) => {
            let names = i.items.iter().filter_map(|i| match i {
                ForeignItem::Fn(f) => Some(f.sig.ident.to_string()),
                ForeignItem::Static(s) => Some(s.ident.to_string()),
                _ => None,
            });
            return names.map(|n| (n, false)).collect();
        }
        _ => return Vec::new(),
    };
    vec![(ident.to_string(), goes_on)]
}

/// What `#[path = ".."]` says.
fn said(item: &ItemMod) -> Option<String> {
    item.attrs.iter().find_map(|a| match &a.meta {
        Meta::NameValue(v) if v.path.is_ident("path") => match &v.value {
            syn::Expr::Lit(l) => match &l.lit {
                syn::Lit::Str(s) => Some(s.value()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    })
}

fn find<'a>(repo: &'a Repo, path: &str) -> Option<&'a File> {
    repo.files.iter().find(|f| f.path == path)
}

fn folder(path: &str) -> &str {
    path.rfind('/').map_or("", |i| &path[..i])
}
