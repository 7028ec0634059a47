//! `busbar devices` and `busbar ps`: what servers have, and who uses it.

use crate::complaint::complain;
use crate::servers::{self, Said, Servers};
use crate::table::{self, Column, Mood, Table};
use anyhow::{Context, Result, bail};
use busbar_client::config::Config;
use busbar_client::hello;
use busbar_control::checkpoint::SWAPPED;
use busbar_control::device::Device;
use busbar_control::gpu::{Gpu, Number};
use busbar_control::hello::{Change, HOLDINGS, Hello, Intent, Job, Road};
use busbar_control::holding::list;
use busbar_control::status::{Listed, Session, Status, Time};
use busbar_control::{share, size};
use serde_json::json;
use std::time::Duration;

/// Flags of `busbar devices` and `busbar ps`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  busbar devices --server gpu-host                # what it has, and who uses it
  busbar ps --watch                               # again every two seconds
  busbar ps --server gpu-a,gpu-b                  # the sessions of two servers
  busbar devices --json | jq '.[].status.devices' # for programs")]
pub struct Args {
    #[command(flatten)]
    servers: Servers,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Ask again every so many seconds [default: 2]
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2")]
    #[arg(value_parser = interval)]
    watch: Option<f64>,
}

/// A time between two looks.
fn interval(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|s| (0.1..=86400.0).contains(s));
    seconds.ok_or_else(|| format!("`{text}` is no time to wait: say seconds, from 0.1 on"))
}

/// Flags of `busbar ps`.
#[derive(clap::Args)]
pub struct PsArgs {
    #[command(flatten)]
    asked: Args,
    /// Print what each session holds: objects by kind, and device memory
    #[arg(long)]
    objects: bool,
}

/// Asks one server what it has.
pub(crate) fn ask(server: &str) -> Result<Status> {
    hello::status(&Config::from_env(), server, &[]).map_err(anyhow::Error::msg)
}

fn as_json(answers: &[Said]) -> String {
    let of = |(s, r): &Said| match r {
        Ok(v) => json!({ "server": s, "status": v }),
        Err(e) => json!({ "server": s, "error": e }),
    };
    table::json(&answers.iter().map(of).collect::<Vec<_>>())
}

/// Fails if there are errors, and says all of them.
pub(crate) fn fail_with(mut errors: Vec<String>) -> Result<()> {
    let last = errors.pop();
    for e in errors {
        complain(e);
    }
    last.map_or(Ok(()), |e| bail!("{e}"))
}

/// Asks all servers and prints what they say, again and again if that is wanted: as JSON, or as a
/// table of `columns` with the rows of each server.
fn show(
    a: &Args,
    features: &'static [&str],
    columns: &[Column],
    rows: impl Fn(&mut Table, &str, &Status),
) -> Result<()> {
    loop {
        let answers = servers::ask(&a.servers.all()?, features);
        let mut text = String::new();
        if a.json {
            text = as_json(&answers);
        } else if answers.iter().any(|(_, r)| r.is_ok()) {
            let mut table = Table::new(columns);
            for (server, r) in &answers {
                if let Ok(v) = r {
                    rows(&mut table, server, v);
                }
            }
            text = table.text();
        }
        let errors: Vec<_> = answers.into_iter().filter_map(|(_, r)| r.err()).collect();
        let Some(every) = a.watch else {
            table::print(&text);
            return fail_with(errors);
        };
        table::print_again(&text);
        // A server that is away may come back.
        for e in errors {
            complain(e);
        }
        std::thread::sleep(Duration::from_secs_f64(every));
    }
}

/// What there is of a device's memory, and what of it is used where that is known.
fn memory(d: &Device, gpu: Option<&Gpu>) -> String {
    let used = gpu.and_then(|g| g.numbers.get(Number::MemoryUsed.name()));
    let all = size::show(d.memory);
    match used {
        Some(used) => format!("{} of {all}", size::show(*used)),
        None => all,
    }
}

/// Who uses a device, and what of it is promised.
fn used(d: &Listed) -> String {
    let mut said = vec![match (&d.lease, d.used_by) {
        (Some(holder), _) => format!("leased to {holder}"),
        (None, 0) => "-".into(),
        (None, 1) => "1 session".into(),
        (None, n) => format!("{n} sessions"),
    }];
    if d.promised > 0 {
        said.push(format!("{} promised", size::show(d.promised)));
    }
    if d.promised_share > 0 {
        said.push(format!(
            "{} of its time promised",
            share::show(d.promised_share)
        ));
    }
    said.join(", ")
}

/// `busbar devices`.
pub fn devices(a: &Args) -> Result<()> {
    let columns = [
        Column::text("SERVER"),
        Column::text("API"),
        Column::number("#"),
        Column::text("DEVICE"),
        Column::number("MEMORY"),
        Column::number("LOAD"),
        Column::text("USED BY"),
    ];
    show(a, &[], &columns, |table, server, v| {
        for listed in &v.devices {
            let d = &listed.device;
            let gpu = v.gpus.gpus.get(&d.uuid);
            let busy = gpu.and_then(|g| g.numbers.get(Number::Busy.name()));
            let mood = match (&listed.lease, listed.used_by) {
                (Some(_), _) => Mood::Taken,
                (None, 0) => Mood::Good,
                _ => Mood::Plain,
            };
            let row = [
                server.into(),
                d.api.clone(),
                d.ordinal.to_string(),
                d.name.clone(),
                memory(d, gpu),
                busy.map_or("-".into(), |n| format!("{n}%")),
                used(listed),
            ];
            table.row(row, mood);
        }
        if v.devices.is_empty() {
            table.row(
                [server, "-", "-", "no accelerator"].map(Into::into),
                Mood::Bad,
            );
        }
    })
}

/// What is promised to a session of its devices' time, and how it has them.
fn promised(s: &Session) -> String {
    let share = s.share.map_or("-".into(), share::show);
    match (s.dense, s.lent) {
        (true, _) if s.share.is_none() => "dense".into(),
        (true, _) => format!("{share} dense"),
        (false, true) => format!("{share} lent"),
        (false, false) => share,
    }
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
    format!("{:.1}s", ms as f64 / 1000.0)
}

/// What it has moved, and how much of that over RDMA.
fn moved(s: &Session) -> String {
    let (all, rdma) = s.holding.traffic.bytes();
    match rdma {
        0 => size::show(all),
        n => format!("{} ({} rdma)", size::show(all), size::show(n)),
    }
}

/// Flags of `busbar set`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  busbar set 0123456789ab -p 0.5 -m 24GiB   # half of its GPU's time, and 24 GiB
  busbar set 0123456789ab -p none           # as much as others have
  busbar set 0123456789ab --path tcp        # off the fabric, while its program runs")]
pub struct SetArgs {
    /// The session, as `busbar ps` names it
    session: String,
    #[command(flatten)]
    servers: Servers,
    /// Have this share of its devices' time promised to it, or `none`
    #[arg(short = 'p', long, value_name = "SHARE", value_parser = or_none(share::parse))]
    share: Option<u32>,
    /// Have this much device memory promised to it, or `none`
    #[arg(short, long, value_name = "SIZE", value_parser = or_none(size::parse))]
    memory: Option<u64>,
    /// Go first: others with a lower priority wait while it has work
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    priority: Option<i32>,
    /// Have its bytes pass nothing but TCP, or RDMA where both ends have it: tcp, rdma
    #[arg(long, value_name = "PATH")]
    path: Option<Road>,
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
        path: a.path,
    };
    if change == Change::default() {
        bail!("say what is to change: -p SHARE, -m SIZE, --priority N or --path PATH");
    }
    let config = a.servers.all()?;
    let server = server_of(&config, &a.session)?;
    let hello = Hello {
        session: a.session,
        change,
        ..Hello::new(Intent::Set)
    };
    hello::ask(&config, &server, hello).map_err(anyhow::Error::msg)
}

/// The server that has a session.
pub fn server_of(config: &Config, session: &str) -> Result<String> {
    let has = |server: &&String| {
        let said = ask(server);
        said.is_ok_and(|v| v.sessions.iter().any(|s| s.session == session))
    };
    match config.servers.as_slice() {
        [one] => Ok(one.clone()),
        many => many.iter().find(has).cloned().with_context(|| {
            format!(
                "none of {} has a session `{session}` that is yours: `busbar ps` lists those that \
                 are",
                many.join(", ")
            )
        }),
    }
}

/// Flags of `busbar kill`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  busbar kill 0123456789ab              # its program hears who has ended it
  busbar kill --server gpu-host 0123456789ab ba9876543210")]
pub struct KillArgs {
    /// The sessions, as `busbar ps` names them
    #[arg(required = true, value_name = "SESSION")]
    sessions: Vec<String>,
    #[command(flatten)]
    servers: Servers,
}

/// `busbar kill`.
pub fn kill(a: KillArgs) -> Result<()> {
    let config = a.servers.all()?;
    let end = |session: &String| {
        let hello = Hello {
            session: session.clone(),
            ..Hello::new(Intent::Kill)
        };
        let server = server_of(&config, session)?;
        hello::ask::<()>(&config, &server, hello).map_err(anyhow::Error::msg)
    };
    // One that cannot be ended keeps no other.
    let errors = a.sessions.iter().filter_map(|s| end(s).err());
    fail_with(errors.map(|e| format!("{e:#}")).collect())
}

/// `busbar ps`.
pub fn ps(a: &PsArgs) -> Result<()> {
    let columns = [
        Column::text("SERVER"),
        Column::text("SESSION"),
        Column::text("API"),
        Column::text("PATH"),
        Column::number("BYTES"),
        Column::number("RATE"),
        Column::text("DEVICES"),
        Column::number("AGE"),
        Column::number("MEMORY"),
        Column::number("OF"),
        Column::number("SHARE"),
        Column::number("1S/60S %"),
        Column::number("WAITED"),
        Column::text("JOB"),
        Column::text("NET"),
        Column::text("USER@HOST"),
        Column::number("PID"),
        Column::text("PROGRAM"),
    ];
    show(&a.asked, &[HOLDINGS], &columns, |table, server, v| {
        for s in &v.sessions {
            let devices: Vec<_> = s.devices.iter().map(ToString::to_string).collect();
            let (lost, mood) = match s.connected {
                true => ("", Mood::Plain),
                false => (" (link lost)", Mood::Bad),
            };
            let row = [
                server.into(),
                s.session.clone(),
                s.api.clone(),
                s.path.clone(),
                moved(s),
                s.rate
                    .map_or("-".into(), |r| format!("{}/s", size::show(r))),
                devices.join(","),
                table::age(s.seconds),
                size::show(s.holding.bytes()),
                s.memory_limit.map_or("-".into(), size::show),
                promised(s),
                had(s),
                waited(s),
                s.job.as_ref().map_or("-".into(), Job::shown),
                if s.network.is_empty() {
                    "-"
                } else {
                    &s.network
                }
                .into(),
                format!("{}@{}", s.user, s.host),
                s.pid.to_string(),
                format!("{}{lost}", s.program),
            ];
            table.row(row, mood);
            if s.checkpoint == SWAPPED {
                table.note(format!(
                    "    {SWAPPED}: what it has is in the server's memory while it is idle; it \
                     goes on by itself"
                ));
            } else if !s.checkpoint.is_empty() {
                table.note(format!(
                    "    {}: it waits until `busbar restore`, or the program that has it wait, \
                     lets it go on",
                    s.checkpoint
                ));
            }
            if !s.stall.is_empty() {
                table.note(format!("    {}", s.stall));
            }
            if a.objects {
                table.note(format!("    objects: {}", list(&s.holding.objects)));
                let (device, host) = (&s.holding.memory, &s.holding.host_memory);
                for (of, kinds) in [("memory: ", device), ("host:   ", host)] {
                    for (kind, m) in kinds {
                        table.note(format!(
                            "    {of} {kind}: {} bytes in {} pieces, {} at most",
                            m.bytes, m.pieces, m.most
                        ));
                    }
                }
            }
        }
        if v.sessions_left_out > 0 {
            table.note(format!("{server}: and {} more", v.sessions_left_out));
        }
    })
}
