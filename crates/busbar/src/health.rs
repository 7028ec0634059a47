//! `busbar health`: whether each server is there, for people and for monitoring.

use crate::servers::Servers;
use crate::table::{self, Column, Mood, Table};
use anyhow::{Result, bail};
use busbar_client::config::Config;
use busbar_client::hello;
use busbar_control::hello::LAST_READINGS;
use busbar_transport::tcp::Address;
use serde_json::json;
use std::thread;
use std::time::Instant;

/// Flags of `busbar health`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  busbar health                                   # every server of `busbar login`
  busbar health --server a,b --json | jq '.[] | select(.reachable | not)'")]
pub struct Args {
    #[command(flatten)]
    servers: Servers,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What is known of a server.
struct Health {
    server: String,
    encrypted: Option<bool>,
    ms: f64,
    said: Result<(String, usize, u64), String>,
}

fn look(config: &Config, server: String) -> Health {
    let route = config.route(Address::new(&server));
    let start = Instant::now();
    let said = hello::status(config, &server, &[LAST_READINGS]);
    let ms = start.elapsed().as_secs_f64() * 1000.0;
    Health {
        server,
        encrypted: route.ok().map(|r| r.is_encrypted()),
        ms: (ms * 10.0).round() / 10.0,
        said: said.map(|s| (s.version, s.devices.len(), s.uptime_seconds)),
    }
}

/// For people.
fn shown(all: &[Health]) -> String {
    let mut table = Table::new(&[
        Column::text("SERVER"),
        Column::text("STATE"),
        Column::text("VERSION"),
        Column::number("DEVICES"),
        Column::text("TLS"),
        Column::number("ANSWER"),
        Column::number("UP FOR"),
        Column::text("ERROR"),
    ]);
    for h in all {
        let tls = match h.encrypted {
            Some(true) => "yes",
            Some(false) => "no",
            None => "-",
        };
        let (rest, mood) = match &h.said {
            Ok((version, devices, seconds)) => {
                let (answer, age) = (format!("{} ms", h.ms), table::age(*seconds));
                let n = devices.to_string();
                let rest = ["up".into(), version.clone(), n, tls.into(), answer, age];
                ([&rest[..], &[String::new()]].concat(), Mood::Good)
            }
            Err(e) => {
                let rest = ["down", "-", "-", tls, "-", "-", e].map(Into::into);
                (rest.to_vec(), Mood::Bad)
            }
        };
        table.row([vec![h.server.clone()], rest].concat(), mood);
    }
    table.text()
}

/// Runs the command.
pub fn run(a: &Args) -> Result<()> {
    let config = a.servers.all()?;
    let all: Vec<Health> = thread::scope(|s| {
        let each = config.servers.iter().cloned();
        let asked: Vec<_> = each
            .map(|server| s.spawn(|| look(&config, server)))
            .collect();
        let known = asked.into_iter().filter_map(|t| t.join().ok());
        known.collect()
    });
    if a.json {
        let of = |h: &Health| {
            let said = h.said.as_ref().ok();
            json!({
                "server": h.server,
                "reachable": said.is_some(),
                "version": said.map(|s| &s.0),
                "devices": said.map(|s| s.1),
                "uptime_seconds": said.map(|s| s.2),
                "encrypted": h.encrypted,
                "answer_ms": said.map(|_| h.ms),
                "error": h.said.as_ref().err(),
            })
        };
        let list: Vec<_> = all.iter().map(of).collect();
        table::print_json(&list);
    } else {
        table::print(&shown(&all));
    }
    let down: Vec<_> = all.iter().filter(|h| h.said.is_err()).collect();
    if !down.is_empty() {
        let names: Vec<_> = down.iter().map(|h| h.server.as_str()).collect();
        bail!(
            "{} of {} servers did not answer: {}",
            down.len(),
            all.len(),
            names.join(", ")
        );
    }
    Ok(())
}
