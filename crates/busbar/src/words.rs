//! Words of others for what Busbar has by another name, Bitfusion's above all: who writes one is
//! told what to write. docs/book/bitfusion.md compares them.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Commands that there are not, and what is there for them.
const COMMANDS: [(&str, &str); 17] = [
    (
        "client",
        "`busbar run --lease ID -- CMD` runs a program on what `busbar request` has reserved",
    ),
    (
        "release_gpus",
        "`busbar release ID` ends a lease, `busbar release --all` all of one's own",
    ),
    (
        "dealloc",
        "`busbar release ID` ends a lease, `busbar kill SESSION` a session",
    ),
    (
        "init",
        "`busbar login LINE` gets to know a server, by the line that it printed",
    ),
    (
        "register",
        "`busbar login LINE` gets to know a server, by the line that it printed",
    ),
    ("tokens", "`busbar token` makes, lists and revokes tokens"),
    (
        "user",
        "`busbar token` makes, lists and revokes tokens, and a policy says who may do what",
    ),
    ("license", "Busbar needs no license key"),
    ("version", "`busbar --version` says which release this is"),
    ("netperf", "`busbar doctor` measures round trip and rate"),
    ("net_perf", "`busbar doctor` measures round trip and rate"),
    (
        "crash_report",
        "`busbar doctor` says what is wrong, and BUSBAR_LOG=debug:FILE notes what a program does",
    ),
    (
        "resource_scheduler",
        "`busbar serve` offers this machine's accelerators",
    ),
    (
        "server",
        "`busbar serve` offers this machine's accelerators",
    ),
    (
        "dispatcher",
        "`busbar serve` offers this machine's accelerators",
    ),
    (
        "local",
        "`busbar serve --listen 127.0.0.1:7400` and `busbar run` on the same machine",
    ),
    (
        "limit",
        "`busbar serve --policy FILE` says what tenants may have",
    ),
];

/// Flags, likewise.
const FLAGS: [(&str, &str); 8] = [
    ("--parts", "-n N"),
    ("--timeout", "--wait TIME, such as --wait 5m"),
    ("-t", "--wait TIME, such as --wait 5m"),
    (
        "--servers",
        "--server A,B, or `busbar login` once for each server",
    ),
    ("-s", "--server A,B, or `busbar login` once for each server"),
    ("--partial_memory", "-m SIZE, such as -m 16GiB"),
    ("--host_id", "--filter 'server == \"HOST\"'"),
    ("--device", "--filter 'ordinal == 0'"),
];

fn of(words: &[(&str, &str)], word: &str) -> Option<String> {
    let found = words.iter().find(|(w, _)| *w == word);
    found.map(|(_, instead)| (*instead).into())
}

/// Words that the parser says with an error.
fn said(e: &clap::Error, kind: ContextKind) -> Option<String> {
    match e.get(kind)? {
        ContextValue::String(s) => Some(s.clone()),
        ContextValue::Strings(all) => Some(all.join(", ")),
        _ => None,
    }
}

/// One sentence about a command line that cannot be understood; none where its author asks for
/// help.
pub fn sentence(e: &clap::Error) -> Option<String> {
    let of = |kind| said(e, kind);
    let meant = |kind| of(kind).map_or(String::new(), |s| format!(", did you mean `{s}`?"));
    if let Some(why) = instead(e) {
        return Some(why);
    }
    let text = e.to_string();
    let what = match (e.kind(), of(ContextKind::InvalidArg)) {
        (ErrorKind::DisplayHelp | ErrorKind::DisplayVersion, _) => return None,
        (ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand, _) => return None,
        (ErrorKind::MissingRequiredArgument, Some(all)) => format!("{all} is missing"),
        (ErrorKind::UnknownArgument, Some(flag)) => {
            format!(
                "there is no flag `{flag}`{}",
                meant(ContextKind::SuggestedArg)
            )
        }
        (ErrorKind::InvalidSubcommand, _) => format!(
            "there is no command `{}`{}",
            of(ContextKind::InvalidSubcommand)?,
            meant(ContextKind::SuggestedSubcommand)
        ),
        (ErrorKind::ValueValidation, Some(flag)) => {
            let why = std::error::Error::source(e).map(ToString::to_string);
            format!("{flag}: {}", why.unwrap_or_default())
        }
        // The parser's own words, without what it says in further paragraphs.
        _ => {
            let lines = text.split("\n\n").next().unwrap_or(&text).lines();
            let lines: Vec<_> = lines.map(str::trim).collect();
            lines.join(" ").trim_start_matches("error: ").into()
        }
    };
    // Where it says how a command is used, it names that.
    let usage = text.lines().find_map(|l| l.strip_prefix("Usage: "));
    let words = usage.unwrap_or("busbar COMMAND").split(' ');
    let name: Vec<_> = words
        .take_while(|w| !w.starts_with(['[', '<', '-']))
        .collect();
    Some(format!(
        "{what}; `{} --help` shows how it is used",
        name.join(" ")
    ))
}

/// What to write instead, where something of others' was written.
fn instead(e: &clap::Error) -> Option<String> {
    let said = |kind| said(e, kind);
    match e.kind() {
        ErrorKind::InvalidSubcommand => {
            let word = said(ContextKind::InvalidSubcommand)?;
            let instead = of(&COMMANDS, &word)?;
            Some(format!("there is no command `{word}`: {instead}"))
        }
        ErrorKind::UnknownArgument => {
            let word = said(ContextKind::InvalidArg)?;
            let word = word.split('=').next().unwrap_or(&word);
            let instead = of(&FLAGS, word)?;
            Some(format!("there is no flag `{word}`: say {instead}"))
        }
        _ => None,
    }
}

/// Bitfusion's names in filters, and Busbar's. Sizes are in MB there.
const NAMES: [(&str, &str); 10] = [
    ("device.index", "ordinal == 0"),
    ("device.name", "name ~ \"H200\""),
    ("device.mem", "memory >= 16GiB"),
    ("device.capability", "compute >= 8.0"),
    ("server.addr", "server == \"10.0.0.1\""),
    ("server.hostname", "server == \"gpu-host\""),
    ("server.cuda-version", "cuda >= 12.0"),
    ("server.driver-version", "driver >= 580"),
    ("server.has-rdma", ""),
    ("server.id", "server == \"gpu-host\""),
];

/// What to write instead of a filter of Bitfusion's.
pub fn filter(text: &str) -> Option<String> {
    let text = text.trim();
    let (name, instead) = NAMES.iter().find(|(n, _)| text.starts_with(n))?;
    Some(match instead.is_empty() {
        true => format!(
            "there is no `{name}`: sessions move to RDMA where both ends can, and --rdma on insists"
        ),
        false => format!("there is no `{name}`: say, for example, --filter '{instead}'"),
    })
}
