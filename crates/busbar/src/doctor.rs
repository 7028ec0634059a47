//! `busbar doctor`: why does it not work? Each check says what it found and what to do.

use crate::opencl::Loader;
use crate::servers::{Servers, Which, told};
use crate::{launch, program, status, variables};
use crate::{table, trial};
use anyhow::{Result, bail};
use busbar_client::config::Config;
use busbar_client::servers;
use busbar_control::hello::with_port;
use busbar_control::status::{Listed, Status};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Flags of `busbar doctor`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  busbar doctor                                   # this tree, and a server on this machine
  busbar doctor --server gpu-host -- python       # that server, and whether python can use it")]
pub struct Args {
    #[command(flatten)]
    servers: Servers,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// A program that does not work
    #[arg(trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// The most pairs of servers that are tried.
const MOST_PAIRS: usize = 6;

struct Check {
    what: &'static str,
    good: bool,
    found: String,
    /// What it cost, as JSON has it.
    measured: Option<Value>,
}

impl Check {
    fn new(what: &'static str, r: Result<String>) -> Self {
        let good = r.is_ok();
        let found = r.unwrap_or_else(|e| format!("{e:#}"));
        Self {
            what,
            good,
            found,
            measured: None,
        }
    }
}

/// Runs every check; fails when one failed.
pub fn run(a: &Args) -> Result<()> {
    let config = a.servers.known(Which::Last)?;
    let mut checks = Vec::new();
    let mut check = |what, r| checks.push(Check::new(what, r));
    check(
        "libraries",
        launch::shims().map(|s| {
            let opencl = s
                .opencl
                .map_or("no OpenCL driver".into(), |p| p.display().to_string());
            format!("{}, {opencl}", s.cuda.join("libcuda.so.1").display())
        }),
    );
    check(
        "opencl",
        launch::shims().map(|s| match s.opencl {
            Some(_) => Loader::find(&launch::other_folders()).describe(),
            None => "this tree has no OpenCL driver".into(),
        }),
    );
    check("token", token());
    let mut servers = config.servers.clone();
    let none = servers.is_empty();
    if none {
        servers.push(with_port("127.0.0.1"));
    }
    let mut with_gpus = Vec::new();
    for s in servers {
        match status::ask(&s) {
            Err(e) if none => {
                let e = e.context("no server is named (--server HOST:PORT), and none is here");
                checks.push(Check::new("server", Err(e)));
            }
            Err(e) => checks.push(Check::new("server", Err(e))),
            Ok(v) => {
                checks.push(Check::new("server", offers(&s, &v)));
                checks.extend(calls(&config, &s, &v));
                let n = v.devices.iter().filter(|d| usable(d)).count();
                if n > 0 {
                    with_gpus.push((s, n));
                }
            }
        }
    }
    checks.extend(links(&config, &with_gpus));
    let mut check = |what, r| checks.push(Check::new(what, r));
    if let Some(cmd) = a.command.first() {
        let r = program::find(cmd).and_then(|p| {
            program::check(&p, 0)?;
            Ok(format!("{} can load Busbar's libraries", p.display()))
        });
        check("program", r);
    }
    check("environment", environment());
    let failed = checks.iter().filter(|c| !c.good).count();
    if a.json {
        let list: Vec<_> = checks
            .iter()
            .map(|c| {
                let mut one = json!({ "check": c.what, "ok": c.good, "found": c.found });
                if let Some(cost) = &c.measured {
                    one["measured"] = cost.clone();
                }
                one
            })
            .collect();
        table::print_json(&list);
    } else {
        for c in &checks {
            println!(
                "{:<5} {:<12} {}",
                if c.good { "ok" } else { "FAIL" },
                c.what,
                c.found
            );
        }
    }
    if failed > 0 {
        bail!("{failed} of {} checks failed", checks.len());
    }
    Ok(())
}

/// Makes some calls at a server, if it has a device for them.
fn calls(config: &Config, server: &str, v: &Status) -> Option<Check> {
    let library = launch::shims().ok()?.cuda.join("libcuda.so.1");
    if !v.devices.iter().any(usable) {
        return None;
    }
    Some(match trial::cost(&told(config, server), &library) {
        Ok(cost) => Check {
            measured: Some(json!(cost)),
            ..Check::new("calls", Ok(format!("{server}: {cost}")))
        },
        Err(e) => Check::new("calls", Err(e.context(server.to_string()))),
    })
}

/// Whether a program gets a device by CUDA.
fn usable(d: &Listed) -> bool {
    d.device.api == "cuda" && d.yours
}

/// How copies go between each two of some servers, which have so many GPUs for us.
fn links(config: &Config, servers: &[(String, usize)]) -> Vec<Check> {
    let Ok(shims) = launch::shims() else {
        return Vec::new();
    };
    let library = shims.cuda.join("libcuda.so.1");
    let pairs = servers.iter().enumerate().flat_map(|(i, a)| {
        let others = servers[i + 1..].iter();
        others.map(move |b| (a, b))
    });
    let check = |((a, n), (b, _)): (&(String, usize), &(String, usize))| {
        let both = [told(config, a), told(config, b)].join(",");
        match trial::across(&both, &library, *n) {
            Ok(cost) => Check {
                measured: Some(json!(cost)),
                ..Check::new("links", Ok(format!("{a} and {b}: {cost}")))
            },
            Err(e) => Check::new("links", Err(e.context(format!("{a} and {b}")))),
        }
    };
    pairs.take(MOST_PAIRS).map(check).collect()
}

/// What a server offers.
fn offers(server: &str, v: &Status) -> Result<String> {
    let names: Vec<_> = v.devices.iter().map(|d| d.device.name.as_str()).collect();
    if names.is_empty() {
        let why = v.missing.iter().map(|(api, why)| format!("{api}: {why}"));
        let why: Vec<_> = why.collect();
        bail!("{server} has no accelerator ({})", why.join("; "));
    }
    let mut counted = Vec::<(&str, usize)>::new();
    for name in names {
        match counted.iter_mut().find(|(known, _)| *known == name) {
            Some((_, n)) => *n += 1,
            None => counted.push((name, 1)),
        }
    }
    let say = |(name, n): &(&str, usize)| match n {
        1 => (*name).to_string(),
        n => format!("{n} times {name}"),
    };
    let names: Vec<_> = counted.iter().map(say).collect();
    Ok(format!(
        "{server} runs Busbar {} and offers {}",
        v.version,
        names.join(", ")
    ))
}

/// Whether the token that the environment names can be shown.
fn token() -> Result<String> {
    let config = Config::from_env();
    let private = |path: &Path, others| match std::fs::metadata(path)?.permissions().mode() & others
    {
        0 => Ok(()),
        _ => bail!(
            "others on this machine can read a token: chmod 600 {}",
            path.display()
        ),
    };
    let listed = config.list.as_deref().filter(|p| p.exists());
    if let Some(list) = listed {
        private(list, 0o077)?;
        servers::Servers::read(list).map_err(anyhow::Error::msg)?;
    }
    let file = config
        .token_file
        .as_ref()
        .filter(|_| config.token.is_none());
    let Some(path) = file else {
        return Ok(match (&config.token, listed) {
            (Some(_), _) => "from BUSBAR_TOKEN".into(),
            (_, Some(list)) => format!("as {} says for each server", list.display()),
            _ => "none: nobody has logged in here, and BUSBAR_TOKEN_FILE is not set (only needed \
                  where a server asks)"
                .into(),
        });
    };
    let token = config.token().map_err(anyhow::Error::msg)?;
    if token.len() < 16 {
        bail!("the first line of {path} is too short to be a token: copy the server's token file");
    }
    private(path.as_ref(), 0o004)?;
    Ok(format!("from {path}"))
}

/// What in the environment keeps programs from finding the shims.
fn environment() -> Result<String> {
    if let Some(why) = variables::mistakes().into_iter().next() {
        bail!("{why}");
    }
    if let Some(p) = std::env::var_os("LD_PRELOAD").filter(|p| !p.is_empty()) {
        let p = p.to_string_lossy();
        if p.contains("libcuda.so") {
            bail!("LD_PRELOAD names {p}, which hides Busbar's libcuda.so.1: unset it");
        }
    }
    if std::env::var("CUDA_VISIBLE_DEVICES").is_ok_and(|v| v.is_empty() || v == "-1") {
        bail!("CUDA_VISIBLE_DEVICES hides every GPU: unset it");
    }
    let path = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    if let Some(other) = std::env::split_paths(&path).find(|d| d.join("libcuda.so.1").exists())
        && launch::shims().is_ok_and(|s| s.cuda != other)
    {
        // `busbar run` puts its own first, so this matters only to programs started without it.
        return Ok(format!(
            "nothing stands in the way of `busbar run` (without it, programs use {})",
            other.join("libcuda.so.1").display()
        ));
    }
    Ok("nothing stands in the way".into())
}
