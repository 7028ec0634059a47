//! Which module uses which: every path of a crate's sources, followed to where the item is defined.

use super::modules::{Crate, Found, Segments, attributes, hands_on, is_test, leaves};
use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    Attribute, Block, ExprMethodCall, FnArg, ImplItem, ImplItemFn, Item, ItemFn, ItemStatic,
};
use syn::{ItemUse, Macro, PatIdent, TraitItem, Type, VisRestricted};

/// What the paths of a crate say.
#[derive(Default)]
pub struct Paths {
    /// For each module and each other one whose items it uses: which of them, and on which line
    /// first.
    pub edges: BTreeMap<(usize, usize), BTreeMap<String, usize>>,
    /// For each module the lines of its `static` items that can change, and of constant tables.
    pub state: BTreeMap<usize, Vec<usize>>,
    pub tables: BTreeMap<usize, Vec<usize>>,
}

impl Paths {
    pub fn of(krate: &Crate) -> Self {
        let methods = Methods::of(krate);
        let mut found = Self::default();
        for (module, m) in krate.modules.iter().enumerate() {
            let mut walk = Walk {
                krate,
                methods: &methods,
                module,
                bound: Vec::new(),
                calls: Vec::new(),
                found: &mut found,
            };
            m.items.iter().for_each(|i| walk.visit_item(i));
            walk.count_calls();
        }
        found
    }
}

/// Methods that a module gives to the type of another module. Whoever calls one of them uses that
/// module, not only the type's.
struct Methods {
    /// By the module and the name of the type, and the method's name.
    given: BTreeMap<(usize, String, String), usize>,
    /// Of each such method that is the only one of its name in the crate: the type's module, and
    /// the method's.
    unique: BTreeMap<String, (usize, usize)>,
}

impl Methods {
    fn of(krate: &Crate) -> Self {
        let mut given = BTreeMap::new();
        // How often each name stands in the crate as a method's.
        let mut times: BTreeMap<String, usize> = BTreeMap::new();
        for (module, m) in krate.modules.iter().enumerate() {
            for item in &m.items {
                let functions: Vec<_> = match item {
                    Item::Impl(i) => i.items.iter().filter_map(in_impl).collect(),
                    Item::Trait(t) => t.items.iter().filter_map(in_trait).collect(),
                    _ => continue,
                };
                for name in &functions {
                    *times.entry(name.clone()).or_default() += 1;
                }
                if let Item::Impl(i) = item
                    && i.trait_.is_none()
                    && let Type::Path(p) = &*i.self_ty
                    && let Some(Found::Item(home, ty)) = krate.resolve(module, &segments(&p.path))
                    && home != module
                {
                    let key = |name| (home, ty.clone(), name);
                    given.extend(functions.into_iter().map(|f| (key(f), module)));
                }
            }
        }
        let alone = |name: &String| times[name] == 1;
        let unique = given.iter().filter(|((_, _, name), _)| alone(name));
        let unique = unique.map(|((home, _, name), module)| (name.clone(), (*home, *module)));
        Self {
            unique: unique.collect(),
            given,
        }
    }
}

fn in_impl(item: &ImplItem) -> Option<String> {
    match item {
        ImplItem::Fn(f) if !is_test(&f.attrs) => Some(f.sig.ident.to_string()),
        _ => None,
    }
}

fn in_trait(item: &TraitItem) -> Option<String> {
    match item {
        TraitItem::Fn(f) => Some(f.sig.ident.to_string()),
        _ => None,
    }
}

/// Goes through one module.
struct Walk<'a> {
    krate: &'a Crate,
    methods: &'a Methods,
    module: usize,
    /// The names that are bound to values in the functions around.
    bound: Vec<BTreeSet<String>>,
    /// Calls of methods that may be of another module's: the module of the type, that of the
    /// method, how it is called and where.
    calls: Vec<(usize, usize, String, usize)>,
    found: &'a mut Paths,
}

impl Walk<'_> {
    /// Notes what `path` leads to, if that is in another module of the crate.
    fn path(&mut self, path: &Segments, line: usize) {
        if let [name] = &path[..]
            && self.bound.iter().any(|b| b.contains(name))
        {
            return;
        }
        let Some(Found::Item(mut home, mut name)) = self.krate.resolve(self.module, path) else {
            return;
        };
        if let [.., ty, method] = &path[..]
            && let Some(module) = self
                .methods
                .given
                .get(&(home, name.clone(), method.clone()))
        {
            (home, name) = (*module, format!("{ty}::{method}"));
        }
        self.edge(home, name, line);
    }

    /// Notes what a macro's path leads to: macros are known by their names without an import, too.
    fn macro_path(&mut self, path: &Segments, line: usize) {
        match (&path[..], self.krate.resolve(self.module, path)) {
            ([name], None) => {
                if let Some(home) = self.krate.macros.get(name) {
                    self.edge(*home, format!("{name}!"), line);
                }
            }
            _ => self.path(path, line),
        }
    }

    fn edge(&mut self, to: usize, name: String, line: usize) {
        if to != self.module && self.krate.has_items(self.module) {
            let names = self.found.edges.entry((self.module, to)).or_default();
            names.entry(name).or_insert(line);
        }
    }

    fn method(&mut self, name: &str, line: usize) {
        if let Some(&(home, module)) = self.methods.unique.get(name)
            && !STANDARD.contains(&name)
        {
            self.calls.push((home, module, format!(".{name}()"), line));
        }
    }

    /// A call is of the method that is known if the module knows the method's type, too: other
    /// types may have methods of that name that are not to be seen here.
    fn count_calls(&mut self) {
        for (home, module, name, line) in std::mem::take(&mut self.calls) {
            if home == self.module || self.found.edges.contains_key(&(self.module, home)) {
                self.edge(module, name, line);
            }
        }
    }

    fn within(&mut self, bound: BTreeSet<String>, go: impl FnOnce(&mut Self)) {
        self.bound.push(bound);
        go(self);
        self.bound.pop();
    }

    /// What looks like a path or a call in the tokens of a macro, which nothing can parse.
    fn tokens(&mut self, tokens: TokenStream, counts: bool) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            let line = tokens[at].span().start().line;
            match &tokens[at] {
                TokenTree::Group(g) => self.tokens(g.stream(), counts),
                TokenTree::Ident(_) => {
                    let (path, end) = path_at(&tokens, at);
                    let before = |c| at > 0 && is_punct(&tokens[at - 1], c);
                    let next = tokens.get(end);
                    let called = next.is_some_and(is_call);
                    if before('.') {
                        if called {
                            self.method(&path[0], line);
                        }
                    } else if path == ["static"] && !before('\'') {
                        let types = |i: usize| tokens.get(i).is_some_and(|t| is_punct(t, ':'));
                        if counts && (types(end + 1) || types(end + 2)) {
                            self.found.state.entry(self.module).or_default().push(line);
                        }
                    } else if path[0] == "crate" || !before('$') {
                        let named = path.len() > 1 || called || path[0].starts_with(is_upper);
                        if next.is_some_and(|t| is_punct(t, '!')) {
                            self.macro_path(&path, line);
                        } else if named {
                            self.path(&path, line);
                        }
                    }
                    at = end - 1;
                }
                _ => {}
            }
            at += 1;
        }
    }
}

impl<'ast> Visit<'ast> for Walk<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test(attributes(item)) && !matches!(item, Item::Mod(_)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, f: &'ast ImplItemFn) {
        if !is_test(&f.attrs) {
            let bound = bound(&f.block, f.sig.inputs.iter());
            self.within(bound, |s| visit::visit_impl_item_fn(s, f));
        }
    }

    fn visit_item_fn(&mut self, f: &'ast ItemFn) {
        let bound = bound(&f.block, f.sig.inputs.iter());
        self.within(bound, |s| visit::visit_item_fn(s, f));
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let line = item.span().start().line;
        for leaf in leaves(item) {
            let (home, name) = match self.krate.resolve(self.module, &leaf.path) {
                Some(Found::Item(home, name)) => (home, name),
                // What else a glob brings is seen where it is used.
                Some(Found::Module(home)) if leaf.name.is_none() && hands_on(item) => {
                    (home, "*".into())
                }
                _ => continue,
            };
            // A parent may hand on what its children have without using it.
            if !hands_on(item) || self.krate.ancestors(home).all(|m| m != self.module) {
                self.edge(home, name, line);
            }
        }
    }

    fn visit_item_static(&mut self, item: &'ast ItemStatic) {
        let constant = is_constant(self.krate, self.module, &item.ty, 0);
        let kind = if constant && matches!(item.mutability, syn::StaticMutability::None) {
            &mut self.found.tables
        } else {
            &mut self.found.state
        };
        let line = item.static_token.span().start().line;
        kind.entry(self.module).or_default().push(line);
        visit::visit_item_static(self, item);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            self.path(&segments(path), path.span().start().line);
        }
        visit::visit_path(self, path);
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        self.method(&call.method.to_string(), call.method.span().start().line);
        visit::visit_expr_method_call(self, call);
    }

    fn visit_macro(&mut self, m: &'ast Macro) {
        self.macro_path(&segments(&m.path), m.path.span().start().line);
        let own = m
            .path
            .segments
            .last()
            .is_some_and(|s| s.ident == "thread_local");
        self.tokens(m.tokens.clone(), !own);
    }

    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_vis_restricted(&mut self, _: &'ast VisRestricted) {}
}

/// The names that the patterns of a function bind.
fn bound<'a>(block: &'a Block, inputs: impl Iterator<Item = &'a FnArg>) -> BTreeSet<String> {
    struct Bound(BTreeSet<String>);
    impl<'ast> Visit<'ast> for Bound {
        fn visit_pat_ident(&mut self, pat: &'ast PatIdent) {
            let name = pat.ident.to_string();
            // A capital is a constant, a variant: a path that a pattern compares with.
            if !name.starts_with(is_upper) {
                self.0.insert(name);
            }
            visit::visit_pat_ident(self, pat);
        }
    }
    let mut bound = Bound(BTreeSet::new());
    bound.visit_block(block);
    for input in inputs {
        if let FnArg::Typed(t) = input {
            bound.visit_pat(&t.pat);
        }
    }
    bound.0
}

fn segments(path: &syn::Path) -> Segments {
    path.segments.iter().map(|s| s.ident.to_string()).collect()
}

/// The path that begins with the identifier at `at`, and where it ends.
fn path_at(tokens: &[TokenTree], at: usize) -> (Segments, usize) {
    let mut path = Vec::new();
    let mut end = at;
    while let Some(TokenTree::Ident(i)) = tokens.get(end) {
        path.push(i.to_string());
        end += 1;
        let colons = matches!(
            (tokens.get(end), tokens.get(end + 1), tokens.get(end + 2)),
            (Some(TokenTree::Punct(a)), Some(TokenTree::Punct(b)), Some(TokenTree::Ident(_)))
                if a.as_char() == ':' && a.spacing() == Spacing::Joint && b.as_char() == ':'
        );
        if !colons {
            break;
        }
        end += 2;
    }
    (path, end)
}

fn is_punct(token: &TokenTree, c: char) -> bool {
    matches!(token, TokenTree::Punct(p) if p.as_char() == c)
}

fn is_call(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Group(g) if g.delimiter() == Delimiter::Parenthesis)
}

fn is_upper(c: char) -> bool {
    c.is_ascii_uppercase()
}

/// Whether a `static` of this type is a table: numbers, text and functions, which never change.
fn is_constant(krate: &Crate, module: usize, ty: &Type, depth: usize) -> bool {
    let inner = |ty: &Type| is_constant(krate, module, ty, depth + 1);
    match ty {
        _ if depth > 8 => false,
        Type::Array(t) => inner(&t.elem),
        Type::Slice(t) => inner(&t.elem),
        Type::Reference(t) => t.mutability.is_none() && inner(&t.elem),
        Type::Paren(t) => inner(&t.elem),
        Type::Group(t) => inner(&t.elem),
        Type::Tuple(t) => t.elems.iter().all(inner),
        Type::FnPtr(_) => true,
        Type::Path(p) => {
            let Some(last) = p.path.segments.last() else {
                return false;
            };
            let arguments = match &last.arguments {
                syn::PathArguments::AngleBracketed(a) => a
                    .args
                    .iter()
                    .all(|a| matches!(a, syn::GenericArgument::Type(t) if inner(t))),
                _ => true,
            };
            let name = last.ident.to_string();
            arguments
                && match krate.resolve(module, &segments(&p.path)) {
                    Some(Found::Item(home, name)) => made_of(krate, home, &name, depth),
                    _ => CONSTANT.contains(&name.as_str()),
                }
        }
        _ => false,
    }
}

/// Methods of the standard library's types: a call of one of them says nothing.
const STANDARD: &[&str] = &[
    "as_ref", "as_slice", "chain", "clear", "clone", "cmp", "contains", "count", "drain", "extend",
    "filter", "find", "first", "flush", "get", "get_mut", "insert", "is_empty", "iter", "join",
    "keys", "last", "len", "load", "lock", "map", "max", "min", "name", "next", "notify", "open",
    "path", "pop", "push", "read", "recv", "remove", "replace", "reset", "retain", "send", "set",
    "size", "sort", "split", "start", "status", "store", "swap", "take", "truncate", "values",
    "wait", "wake", "write",
];

/// Types from elsewhere that never change in a `static`.
const CONSTANT: &[&str] = &[
    "Option", "CStr", "Duration", "bool", "c_char", "c_int", "c_uint", "char", "f32", "f64", "i8",
    "i16", "i32", "i64", "i128", "isize", "str", "u8", "u16", "u32", "u64", "u128", "usize",
];

fn made_of(krate: &Crate, home: usize, name: &str, depth: usize) -> bool {
    let fields = |f: &syn::Fields| f.iter().all(|f| is_constant(krate, home, &f.ty, depth + 1));
    krate.modules[home].items.iter().any(|i| match i {
        Item::Struct(s) if s.ident == name => fields(&s.fields),
        Item::Enum(e) if e.ident == name => e.variants.iter().all(|v| fields(&v.fields)),
        Item::Type(t) if t.ident == name => is_constant(krate, home, &t.ty, depth + 1),
        _ => false,
    })
}
