//! `busbar devices` and `busbar ps`: what servers have, and who uses it.

use crate::login::{self, Access};
use anyhow::{Result, bail};
use busbar_client::config::Config;
use busbar_client::hello;
use busbar_control::hello::{Change, HOLDINGS, Hello, Intent, with_port};
use busbar_control::holding::list;
use busbar_control::status::{Listed, Session, Status, Time};
use busbar_control::{share, size};
use serde_json::json;
use std::thread::JoinHandle;

/// Flags of `busbar devices` and `busbar ps`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  busbar devices --server gpu-host                # what it has, and who uses it
  busbar ps --server gpu-a,gpu-b                  # the sessions of two servers
  busbar devices --json | jq '.[].status.devices' # for programs")]
pub struct Args {
    /// Servers to ask, with commas between [default: those of `busbar login`, else 127.0.0.1:7400]
    #[arg(long, value_name = "HOST:PORT", env = "BUSBAR_SERVER")]
    server: Option<String>,
    #[command(flatten)]
    access: Access,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Flags of `busbar ps`.
#[derive(clap::Args)]
pub struct PsArgs {
    #[command(flatten)]
    servers: Args,
    /// Print what each session holds: objects by kind, and device memory
    #[arg(long)]
    objects: bool,
}

/// Asks one server what it has.
pub(crate) fn ask(server: &str) -> Result<Status> {
    ask_for(server, &[])
}

fn ask_for(server: &str, features: &[&str]) -> Result<Status> {
    hello::status(&Config::from_env(), server, features).map_err(anyhow::Error::msg)
}

fn ask_all(a: &Args, features: &'static [&str]) -> Result<Vec<(String, Result<Status>)>> {
    let mut servers = login::choose(a.server.as_deref(), &a.access, true)?.servers;
    if servers.is_empty() {
        servers.push(with_port("127.0.0.1"));
    }
    // All at once: one that does not answer takes its time.
    let asked: Vec<_> = servers
        .into_iter()
        .map(|s| (s.clone(), std::thread::spawn(move || ask_for(&s, features))))
        .collect();
    let answer = |(s, t): (String, JoinHandle<Result<Status>>)| {
        let r = t.join().unwrap_or_else(|_| bail!("{s}: asking it failed"));
        (s, r)
    };
    Ok(asked.into_iter().map(answer).collect())
}

fn print_json(answers: &[(String, Result<Status>)]) {
    let list: Vec<_> = answers
        .iter()
        .map(|(s, r)| match r {
            Ok(v) => json!({ "server": s, "status": v }),
            Err(e) => json!({ "server": s, "error": format!("{e:#}") }),
        })
        .collect();
    println!(
        "{}",
        serde_json::to_string_pretty(&list).unwrap_or_default()
    );
}

/// Fails when a server did not answer; says which did not.
fn judge(answers: Vec<(String, Result<Status>)>) -> Result<()> {
    let mut errors: Vec<_> = answers.into_iter().filter_map(|(_, r)| r.err()).collect();
    let last = errors.pop();
    for e in errors {
        eprintln!("busbar: {e:#}");
    }
    last.map_or(Ok(()), Err)
}

fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64)
}

/// Asks all servers and prints what they say: as JSON, or under `header` with `rows` of each.
fn show(
    a: &Args,
    features: &'static [&str],
    header: &str,
    rows: impl Fn(&str, &Status),
) -> Result<()> {
    let answers = ask_all(a, features)?;
    if a.json {
        print_json(&answers);
    } else if answers.iter().any(|(_, r)| r.is_ok()) {
        println!("{header}");
        for (server, r) in &answers {
            if let Ok(v) = r {
                rows(server, v);
            }
        }
    }
    judge(answers)
}

/// `busbar devices`.
pub fn devices(a: &Args) -> Result<()> {
    let header = format!(
        "{:<24} {:<7} {:>2}  {:<40} {:>10}  USED BY",
        "SERVER", "API", "#", "DEVICE", "MEMORY"
    );
    show(a, &[], &header, |server, v| {
        for Listed {
            device: d,
            used_by,
            promised,
            promised_share,
            lease,
            ..
        } in &v.devices
        {
            let used = match (lease, used_by) {
                (Some(holder), _) => format!("leased to {holder}"),
                (None, 0) => "-".into(),
                (None, 1) => "1 session".into(),
                (None, n) => format!("{n} sessions"),
            };
            let used = match promised {
                0 => used,
                n => format!("{used}, {} promised", size::show(*n)),
            };
            let used = match promised_share {
                0 => used,
                n => format!("{used}, {} of its time promised", share::show(*n)),
            };
            println!(
                "{server:<24} {:<7} {:>2}  {:<40} {:>10}  {used}",
                d.api,
                d.ordinal,
                d.name,
                gib(d.memory),
            );
        }
        if v.devices.is_empty() {
            println!("{server:<24} no accelerator");
        }
    })
}

/// What a session has had of its devices' time, in hundredths: of the last second and minute.
fn had(s: &Session) -> String {
    let of = |time: &Option<Time>| match time {
        None => "-".into(),
        Some(t) => format!("{}/{}", t.second.div_ceil(10), t.minute.div_ceil(10)),
    };
    let all: Vec<String> = s.time.iter().map(of).collect();
    all.join(",")
}

/// How long it has waited for it.
fn waited(s: &Session) -> String {
    let ms = s.time.iter().flatten().map(|t| t.waited_ms).sum::<u64>();
    format!("{:.1} s", ms as f64 / 1000.0)
}

/// Flags of `busbar set`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  busbar set 0123456789ab -p 0.5 -m 24GiB   # half of its GPU's time, and 24 GiB
  busbar set 0123456789ab -p none           # as much as others have")]
pub struct SetArgs {
    /// The session, as `busbar ps` names it
    session: String,
    /// The server that it is at [default: the one of the last `busbar login`]
    #[arg(long, value_name = "HOST:PORT", env = "BUSBAR_SERVER")]
    server: Option<String>,
    #[command(flatten)]
    access: Access,
    /// Have this share of its devices' time promised to it, or `none`
    #[arg(short = 'p', long, value_name = "SHARE", value_parser = or_none(share::parse))]
    share: Option<u32>,
    /// Have this much device memory promised to it, or `none`
    #[arg(short, long, value_name = "SIZE", value_parser = or_none(size::parse))]
    memory: Option<u64>,
    /// Go first: others with a lower priority wait while it has work
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    priority: Option<i32>,
}

/// Reads an amount, or that there is none.
fn or_none<T: Default>(
    parse: fn(&str) -> Result<T, String>,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| match text {
        "none" => Ok(T::default()),
        text => parse(text),
    }
}

/// `busbar set`.
pub fn set(a: SetArgs) -> Result<()> {
    let change = Change {
        share: a.share,
        priority: a.priority,
        memory: a.memory,
    };
    if change == Change::default() {
        bail!("say what is to change: -p SHARE, -m SIZE or --priority N");
    }
    let config = login::choose(a.server.as_deref(), &a.access, true)?;
    let server = match config.servers.as_slice() {
        [] => with_port("127.0.0.1"),
        [one] => one.clone(),
        _ => bail!("a session is at one server: say which with --server"),
    };
    let hello = Hello {
        session: a.session,
        change,
        ..Hello::new(Intent::Set)
    };
    hello::ask(&config, &server, hello).map_err(anyhow::Error::msg)
}

/// `busbar ps`.
pub fn ps(a: &PsArgs) -> Result<()> {
    let header = format!(
        "{:<24} {:<12} {:<7} {:<8} {:>8} {:>9} {:>9} {:>5} {:>9} {:>8}  {:<20} {:>7}  PROGRAM",
        "SERVER",
        "SESSION",
        "API",
        "DEVICES",
        "SECONDS",
        "MEMORY",
        "OF",
        "SHARE",
        "1S/60S %",
        "WAITED",
        "USER@HOST",
        "PID"
    );
    show(&a.servers, &[HOLDINGS], &header, |server, v| {
        for s in &v.sessions {
            let who = format!("{}@{}", s.user, s.host);
            let devices: Vec<_> = s.devices.iter().map(ToString::to_string).collect();
            let lost = if s.connected { "" } else { " (link lost)" };
            println!(
                "{server:<24} {:<12} {:<7} {:<8} {:>8} {:>9} {:>9} {:>5} {:>9} {:>8}  {who:<20} \
                 {:>7}  {}{lost}",
                s.session,
                s.api,
                devices.join(","),
                s.seconds,
                size::show(s.holding.bytes()),
                s.memory_limit.map_or("-".into(), size::show),
                s.share.map_or("-".into(), share::show),
                had(s),
                waited(s),
                s.pid,
                s.program,
            );
            if a.objects {
                println!("    objects: {}", list(&s.holding.objects));
                let (device, host) = (&s.holding.memory, &s.holding.host_memory);
                for (of, kinds) in [("memory: ", device), ("host:   ", host)] {
                    for (kind, m) in kinds {
                        println!(
                            "    {of} {kind}: {} bytes in {} pieces, {} at most",
                            m.bytes, m.pieces, m.most
                        );
                    }
                }
            }
        }
        if v.sessions_left_out > 0 {
            println!("{server:<24} and {} more", v.sessions_left_out);
        }
    })
}
