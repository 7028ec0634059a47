//! The grammar of a family file: functions, messages and exported data, with their attributes.

use anyhow::{Context, Result, anyhow, bail};
use quote::ToTokens as _;
use std::path::Path;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned as _;
use syn::{Attribute, Expr, Ident, LitInt, LitStr, Token, Type, parenthesized};

/// Where an item stands, for messages.
#[derive(Debug, Clone, Default)]
pub struct Place {
    /// The spec file.
    pub file: String,
    /// Its line.
    pub line: usize,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// How a call is handled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Class {
    /// Sent, and not waited for.
    Queued,
    /// Sent, and not waited for where that condition on its arguments holds.
    QueuedIf(String),
    /// Sent, and its reply waited for.
    Waits,
    /// Waited for once per set of arguments.
    Cached,
    /// Answered by hand-written code from what the client knows.
    Local,
    /// Hand-written, with messages of its own.
    Custom,
    /// The server calls the function of its own library and tells what it says; `true` where that
    /// is only right for whoever has a whole device.
    Asked(bool),
    /// Refused, for this reason.
    Unsupported(String),
    /// Refused as a driver refuses an ordinary user, for this reason: handles are checked first.
    Forbidden(String),
    /// Does what another function of the API does, or a hand-written one of the family, with these
    /// arguments; without any, with its own.
    Is(String, Option<Vec<String>>),
}

impl Class {
    /// Whether calls of that class fail whatever they are given.
    pub fn is_refused(&self) -> bool {
        matches!(self, Self::Unsupported(_) | Self::Forbidden(_))
    }
}

/// How a call begins whose hand-written function is told of it: `#[cx]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begin {
    /// The client's function that begins it.
    pub enter: String,
    /// Whether there must be a current context.
    pub context: bool,
    /// Whether that may be said of a call which is generated as a whole, too.
    pub of_all: bool,
}

/// What a null handle is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Null {
    /// A handle that is not valid, like any other that stands for nothing.
    Invalid,
    /// An argument like any null pointer that must not be.
    Missing,
    /// Good.
    Optional,
}

/// What an attribute of a parameter says.
#[derive(Debug, Clone)]
pub enum Mark {
    /// A handle.
    Handle(Null),
    /// The call creates this handle.
    New,
    /// The call destroys this handle.
    Del,
    /// One value comes back; `true` when the pointer may be null.
    Out(bool),
    /// That many values come back.
    OutArray(Count),
    /// A structure whose first word says its version and size. For what the server is asked.
    Versioned,
    /// A structure goes in.
    InRef,
    /// That many values go in; `true` when the pointer may be null.
    InArray(Count, bool),
    /// That many handles go in.
    HandleArray(Count),
    /// That many bytes go in.
    BytesIn(Count),
    /// A C string goes in.
    CStr,
    /// A pointer that is a device address: only its value goes in.
    Address,
    /// A handle, or several, of objects that are there already come back; `true` when it is one,
    /// which is what the function brings. For lines without a message.
    Gives(bool),
    /// Handles go in, although the pointer's type would let them come back. For lines without a
    /// message.
    Takes,
}

/// What a line does to an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// It is there afterwards.
    Creates,
    /// It was there already, and has an id afterwards.
    Names,
    /// It is gone afterwards.
    Destroys,
    /// This of it is another.
    Changes(String),
}

/// An effect as a line states it: `#[creates(Kind, field)]` and its like.
#[derive(Debug, Clone)]
pub struct Statement {
    /// What is done; absent for `child_of`.
    pub act: Option<Act>,
    /// To an object of one of these kinds.
    pub kinds: Vec<String>,
    /// The parameter or field that names it, where the kind does not say.
    pub field: Option<String>,
}

/// How many items an array parameter has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Count {
    /// A fixed number.
    Fixed(usize),
    /// The value of a parameter, less a constant (never below zero).
    Param(String, usize),
}

/// One parameter of a function, or one field of a message.
#[derive(Debug, Clone)]
pub struct Param {
    /// Its name in the spec.
    pub name: String,
    /// Its type in the spec.
    pub ty: Type,
    /// What its attribute says; plain scalars have none.
    pub mark: Option<Mark>,
}

/// What an item is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sort {
    /// A C function of the API.
    Function,
    /// A message that hand-written code sends.
    Message,
    /// Data that the API's library exports.
    Data,
}

/// One line of the spec.
#[derive(Debug, Clone)]
pub struct Item {
    /// Where it stands.
    pub place: Place,
    /// Its documentation, if any.
    pub docs: Vec<String>,
    /// Function, message or data.
    pub sort: Sort,
    /// Its name.
    pub name: String,
    /// The family whose hand-written code serves it.
    pub family: String,
    /// The pinned id, for what travels.
    pub id: Option<u16>,
    /// How it is handled.
    pub class: Class,
    /// How the call begins, where the hand-written function is not what begins it.
    pub begin: Option<Begin>,
    /// A capture that is not relaxed does not bear it, on whatever stream.
    pub disturbs: bool,
    /// The client's side is hand-written although the message is generated.
    pub by_hand_client: bool,
    /// The worker's side is hand-written although the message is generated.
    pub by_hand_worker: bool,
    /// The hand-written part is missing yet.
    pub todo: bool,
    /// What people should know of it.
    pub remark: Option<String>,
    /// Names and first versions under which the API's own lookup gives this function.
    pub get_proc: Vec<(String, u32)>,
    /// Not among the library's symbols: the API's own lookup finds it, or a table has it.
    pub unexported: bool,
    /// The suffix of the variant for per-thread default streams.
    pub per_thread: Option<String>,
    /// What it does to objects, beyond what its parameters say.
    pub statements: Vec<Statement>,
    /// The C function that the worker calls for this message, and with what.
    pub calls: Option<(String, Vec<Expr>)>,
    /// Parameters, or fields.
    pub params: Vec<Param>,
    /// Fields of a message's reply.
    pub reply: Vec<Param>,
    /// The type of exported data.
    pub data: Option<Type>,
    /// What a function returns.
    pub result: Option<Type>,
}

struct RawParam {
    attrs: Vec<Attribute>,
    name: Ident,
    ty: Type,
}

impl Parse for RawParam {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attrs = input.call(Attribute::parse_outer)?;
        let name = input.parse()?;
        input.parse::<Token![:]>()?;
        Ok(Self {
            attrs,
            name,
            ty: input.parse()?,
        })
    }
}

struct RawItem {
    attrs: Vec<Attribute>,
    name: Ident,
    params: Vec<RawParam>,
    reply: Vec<RawParam>,
    data: Option<Type>,
    result: Option<Type>,
}

impl Parse for RawItem {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attrs = input.call(Attribute::parse_outer)?;
        if input.peek(Token![static]) {
            input.parse::<Token![static]>()?;
            let name = input.parse()?;
            input.parse::<Token![:]>()?;
            let data = Some(input.parse()?);
            input.parse::<Token![;]>()?;
            return Ok(Self {
                attrs,
                name,
                params: Vec::new(),
                reply: Vec::new(),
                data,
                result: None,
            });
        }
        input.parse::<Token![fn]>()?;
        let name = input.parse()?;
        let fields = |input: ParseStream<'_>| {
            let inner;
            parenthesized!(inner in input);
            let list = Punctuated::<RawParam, Token![,]>::parse_terminated(&inner)?;
            syn::Result::Ok(list.into_iter().collect::<Vec<_>>())
        };
        let params = fields(input)?;
        let (mut reply, mut result) = (Vec::new(), None);
        if input.peek(Token![->]) {
            input.parse::<Token![->]>()?;
            if input.peek(syn::token::Paren) {
                reply = fields(input)?;
            } else {
                result = Some(input.parse()?);
            }
        }
        input.parse::<Token![;]>()?;
        Ok(Self {
            attrs,
            name,
            params,
            reply,
            data: None,
            result,
        })
    }
}

struct RawFile(Vec<RawItem>);

impl Parse for RawFile {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        input.call(Attribute::parse_inner)?;
        let mut items = Vec::new();
        while !input.is_empty() {
            items.push(input.parse()?);
        }
        Ok(Self(items))
    }
}

/// Reads one family file.
pub fn read(path: &Path) -> Result<Vec<Item>> {
    let mut last: Vec<_> = path
        .components()
        .rev()
        .take(3)
        .map(|c| c.as_os_str())
        .collect();
    last.reverse();
    let name = last.join("/".as_ref()).to_string_lossy().into_owned();
    let family = path
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let text = std::fs::read_to_string(path).with_context(|| name.clone())?;
    parse(&name, &family, &text)
}

/// Parses the text of one family file.
pub fn parse(file: &str, family: &str, text: &str) -> Result<Vec<Item>> {
    let raw: RawFile =
        syn::parse_str(text).map_err(|e| anyhow!("{file}:{}: {e}", e.span().start().line))?;
    raw.0
        .into_iter()
        .map(|r| {
            let place = Place {
                file: file.to_owned(),
                line: r.name.span().start().line,
            };
            let at = format!("{place}: {}", r.name);
            item(place, family, r).with_context(|| at)
        })
        .collect()
}

fn item(place: Place, family: &str, raw: RawItem) -> Result<Item> {
    let mut it = Item {
        place,
        docs: Vec::new(),
        sort: if raw.data.is_some() {
            Sort::Data
        } else {
            Sort::Function
        },
        name: raw.name.to_string(),
        family: family.to_owned(),
        id: None,
        class: Class::Custom,
        begin: None,
        disturbs: false,
        by_hand_client: false,
        by_hand_worker: false,
        todo: false,
        remark: None,
        get_proc: Vec::new(),
        unexported: false,
        per_thread: None,
        statements: Vec::new(),
        calls: None,
        params: raw.params.into_iter().map(param).collect::<Result<_>>()?,
        reply: raw.reply.into_iter().map(param).collect::<Result<_>>()?,
        data: raw.data,
        result: raw.result,
    };
    let mut class = None;
    for attr in &raw.attrs {
        let word = attr.path().to_token_stream().to_string();
        if let Some(c) = class_of(&word, attr)? {
            if class.replace(c).is_some() {
                bail!("two classes");
            }
            continue;
        }
        match word.as_str() {
            "doc" => it.docs.push(doc(attr)?),
            "id" => it.id = Some(attr.parse_args::<LitInt>()?.base10_parse()?),
            "message" => it.sort = Sort::Message,
            "family" => it.family = attr.parse_args::<Ident>()?.to_string(),
            "by_hand" => {
                let sides =
                    attr.parse_args_with(Punctuated::<Ident, Token![,]>::parse_terminated)?;
                for side in sides {
                    match side.to_string().as_str() {
                        "client" => it.by_hand_client = true,
                        "worker" => it.by_hand_worker = true,
                        other => bail!("no side is called `{other}`"),
                    }
                }
            }
            "cx" => it.begin = Some(begin(attr)?),
            "disturbs" => it.disturbs = true,
            "todo" => it.todo = true,
            "remark" => it.remark = Some(attr.parse_args::<LitStr>()?.value()),
            "unexported" => it.unexported = true,
            "get_proc" => it
                .get_proc
                .push(attr.parse_args_with(|input: ParseStream<'_>| {
                    let name = input.parse::<LitStr>()?.value();
                    input.parse::<Token![,]>()?;
                    Ok((name, input.parse::<LitInt>()?.base10_parse()?))
                })?),
            "per_thread" => it.per_thread = Some(attr.parse_args::<LitStr>()?.value()),
            "calls" => {
                let c: syn::ExprCall = attr.parse_args()?;
                it.calls = Some((function_name(&c.func)?, c.args.into_iter().collect()));
            }
            "creates" | "names" | "destroys" | "changes" | "child_of" => {
                it.statements.push(statement(&word, attr)?);
            }
            other => bail!("unknown attribute `{other}`"),
        }
    }
    it.class = class.context("no class")?;
    Ok(it)
}

/// The class that an attribute names, if it is one.
fn class_of(word: &str, attr: &Attribute) -> Result<Option<Class>> {
    Ok(Some(match word {
        "queued" => Class::Queued,
        "queued_if" => Class::QueuedIf(words(&attr.parse_args::<Expr>()?)?),
        "waits" => Class::Waits,
        "cached" => Class::Cached,
        "local" => Class::Local,
        "custom" => Class::Custom,
        "asked" => Class::Asked(match &attr.meta {
            syn::Meta::List(_) if attr.parse_args::<Ident>()? == "whole" => true,
            syn::Meta::List(_) => bail!("`asked` knows the word `whole`"),
            _ => false,
        }),
        "unsupported" | "forbidden" => {
            let reason = attr.parse_args::<LitStr>()?.value();
            if reason.is_empty() {
                bail!("{word} without a reason");
            }
            match word {
                "unsupported" => Class::Unsupported(reason),
                _ => Class::Forbidden(reason),
            }
        }
        "is" => match attr.parse_args::<Expr>()? {
            Expr::Call(c) => {
                let args = c.args.iter().map(words);
                Class::Is(function_name(&c.func)?, Some(args.collect::<Result<_>>()?))
            }
            name => Class::Is(function_name(&name)?, None),
        },
        _ => return Ok(None),
    }))
}

/// `cx`, `cx(local)`, `cx(anywhere)`, `cx(context)`, `cx(in_functions)`, `cx(local_in_functions)`.
fn begin(attr: &Attribute) -> Result<Begin> {
    let word = match &attr.meta {
        syn::Meta::List(_) => attr.parse_args::<Ident>()?.to_string(),
        _ => String::new(),
    };
    let enter = match word.as_str() {
        "" | "context" => "enter",
        "local" => "enter_local",
        "anywhere" => "enter_anywhere",
        "in_functions" => "enter_in_functions",
        "local_in_functions" => "enter_local_in_functions",
        other => bail!("no call begins `{other}`"),
    };
    Ok(Begin {
        enter: enter.to_owned(),
        context: word == "context",
        of_all: matches!(word.as_str(), "context" | "in_functions"),
    })
}

/// An expression as it is written, on one line.
fn words(e: &Expr) -> Result<String> {
    let text = e.span().source_text().context("no expression")?;
    let words: Vec<_> = text.split_whitespace().collect();
    Ok(words.join(" "))
}

fn function_name(e: &Expr) -> Result<String> {
    let Expr::Path(p) = e else {
        bail!("`is` wants a function, with or without arguments");
    };
    let parts: Vec<_> = p
        .path
        .segments
        .iter()
        .map(|s| s.ident.to_string())
        .collect();
    Ok(parts.join("::"))
}

/// `creates(Kind)`, `destroys(This | That, field)`, `changes(Kind, field, "what")`.
fn statement(word: &str, attr: &Attribute) -> Result<Statement> {
    let (kinds, field, what) = attr.parse_args_with(|input: ParseStream<'_>| {
        let kinds = Punctuated::<Ident, Token![|]>::parse_separated_nonempty(input)?;
        let (mut field, mut what) = (None, None);
        while input.peek(Token![,]) {
            input.parse::<Token![,]>()?;
            if input.peek(LitStr) {
                what = Some(input.parse::<LitStr>()?.value());
            } else {
                field = Some(input.parse::<Ident>()?.to_string());
            }
        }
        Ok((kinds, field, what))
    })?;
    let act = match (word, what) {
        ("creates", None) => Some(Act::Creates),
        ("names", None) => Some(Act::Names),
        ("destroys", None) => Some(Act::Destroys),
        ("changes", Some(what)) => Some(Act::Changes(what)),
        ("child_of", None) => None,
        ("changes", None) => bail!("`changes` wants to know what changes"),
        _ => bail!("`{word}` takes a kind and a field"),
    };
    Ok(Statement {
        act,
        kinds: kinds.iter().map(ToString::to_string).collect(),
        field,
    })
}

fn doc(attr: &Attribute) -> Result<String> {
    let value = &attr.meta.require_name_value()?.value;
    match value {
        Expr::Lit(syn::ExprLit {
            lit: syn::Lit::Str(s),
            ..
        }) => Ok(s.value()),
        _ => bail!("documentation that is not text"),
    }
}

fn param(raw: RawParam) -> Result<Param> {
    let name = raw.name.to_string();
    let mut mark = None;
    for attr in &raw.attrs {
        if mark
            .replace(param_mark(attr).with_context(|| name.clone())?)
            .is_some()
        {
            bail!("parameter `{name}` has two attributes");
        }
    }
    Ok(Param {
        name,
        ty: raw.ty,
        mark,
    })
}

fn param_mark(attr: &Attribute) -> Result<Mark> {
    let word = attr.path().to_token_stream().to_string();
    let args: Vec<Expr> = match &attr.meta {
        syn::Meta::List(_) => attr
            .parse_args_with(Punctuated::<Expr, Token![,]>::parse_terminated)?
            .into_iter()
            .collect(),
        _ => Vec::new(),
    };
    let words = |word: &str| {
        let is_it = |e: &&Expr| e.to_token_stream().to_string() == word;
        args.iter().any(|e| is_it(&e))
    };
    let (optional, one, there) = (words("optional"), words("one"), words("not_null"));
    let is_word = |e: &&Expr| {
        let text = e.to_token_stream().to_string();
        matches!(text.as_str(), "optional" | "one" | "not_null")
    };
    let counts: Vec<_> = args.iter().filter(|e| !is_word(e)).collect();
    let mut counts = counts.into_iter();
    let mut next = || {
        let e = counts
            .next()
            .with_context(|| format!("`{word}` wants a count"))?;
        count(e)
    };
    let mark = match word.as_str() {
        "handle" => Mark::Handle(match (optional, there) {
            (true, _) => Null::Optional,
            (_, true) => Null::Missing,
            _ => Null::Invalid,
        }),
        "new" => Mark::New,
        "del" => Mark::Del,
        "out" => Mark::Out(optional),
        "out_array" => Mark::OutArray(next()?),
        "versioned" => Mark::Versioned,
        "in_ref" => Mark::InRef,
        "in_array" => Mark::InArray(next()?, optional),
        "handle_array" => Mark::HandleArray(next()?),
        "bytes_in" => Mark::BytesIn(next()?),
        "cstr" => Mark::CStr,
        "address" => Mark::Address,
        "gives" => Mark::Gives(one),
        "takes" => Mark::Takes,
        other => bail!("unknown attribute `{other}`"),
    };
    let takes_optional = matches!(mark, Mark::Handle(_) | Mark::Out(_) | Mark::InArray(..));
    if optional && !takes_optional {
        bail!("`{word}` cannot be optional");
    }
    if there && !matches!(mark, Mark::Handle(Null::Missing)) {
        bail!("`{word}` cannot be `not_null`");
    }
    if counts.next().is_some() {
        bail!("`{word}` has too many arguments");
    }
    Ok(mark)
}

fn count(e: &Expr) -> Result<Count> {
    let number = |e: &Expr| match e {
        Expr::Lit(syn::ExprLit {
            lit: syn::Lit::Int(n),
            ..
        }) => Some(n.base10_parse::<usize>()),
        _ => None,
    };
    let ident = |e: &Expr| match e {
        Expr::Path(p) => p.path.get_ident().map(ToString::to_string),
        _ => None,
    };
    if let Some(n) = number(e) {
        return Ok(Count::Fixed(n?));
    }
    if let Some(name) = ident(e) {
        return Ok(Count::Param(name, 0));
    }
    if let Expr::Binary(b) = e
        && matches!(b.op, syn::BinOp::Sub(_))
        && let (Some(name), Some(n)) = (ident(&b.left), number(&b.right))
    {
        return Ok(Count::Param(name, n?));
    }
    bail!("a count is a number, a parameter, or a parameter minus a number")
}
