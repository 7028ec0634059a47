//! `busbar token`: who may use this machine's server.

use crate::table::{self, Column, Mood, Table};
use crate::vault::{Token, Vault, now};
use anyhow::{Result, anyhow, bail};
use busbar_client::servers::Server;
use busbar_control::hello::with_port;
use busbar_control::text::host_name;
use busbar_control::time;
use busbar_transport::tls;
use clap::Subcommand;
use std::path::PathBuf;
use std::time::Duration;

/// Flags of `busbar token`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  busbar token new alice                            # prints the line for alice to paste
  busbar token new ci --tenant builds --expires 30d
  busbar token new root --admin                     # sees the sessions of all tenants
  busbar token list
  busbar token revoke alice                         # her sessions end within a second

A running server notices all of it. Run this as the server's user.")]
pub struct Args {
    #[command(subcommand)]
    what: What,
    /// Where the server keeps its key and tokens, as for `busbar serve`
    #[arg(long, value_name = "DIR", global = true)]
    state_dir: Option<PathBuf>,
}

#[derive(Subcommand)]
enum What {
    /// Make a token, and print the line to log in with; the token is not shown again
    New {
        /// What to call it
        name: String,
        /// Whose sessions it opens
        #[arg(long, value_name = "NAME", default_value = "default")]
        tenant: String,
        /// When it ends: 30d, 12h, 45m or 90s from now [default: never]
        #[arg(long, value_name = "TIME", value_parser = time::parse)]
        expires: Option<Duration>,
        /// Where clients reach the server [default: where it was last]
        #[arg(long, value_name = "HOST:PORT")]
        server: Option<String>,
        /// Let it list the sessions and leases of all tenants
        #[arg(long)]
        admin: bool,
    },
    /// List all tokens
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// End a token, and the sessions that were opened with it
    Revoke {
        /// What it is called
        name: String,
    },
}

fn state(t: &Token) -> String {
    match (t.revoked, t.expires) {
        (Some(_), _) => "revoked".into(),
        (_, None) => "good".into(),
        (_, Some(e)) => match e.checked_sub(now()) {
            None | Some(0) => "expired".into(),
            Some(s) if s >= 172_800 => format!("good for {} days", s / 86400),
            Some(s) if s >= 7200 => format!("good for {} hours", s / 3600),
            Some(s) => format!("good for {s} seconds"),
        },
    }
}

/// Runs the command.
pub fn run(a: Args) -> Result<()> {
    let vault = Vault::open(a.state_dir.as_deref())?;
    match a.what {
        What::New {
            name,
            tenant,
            expires,
            server,
            admin,
        } => {
            let (at, key) = match vault.place()? {
                Some(place) => place,
                None => {
                    let own = tls::Server::new(vault.own()?, None);
                    (with_port(&host_name()), own.map_err(|e| anyhow!(e))?.key())
                }
            };
            let until = expires.map(|t| now().saturating_add(t.as_secs()));
            let token = vault.add(&name, &tenant, until, admin)?;
            let line = Server {
                address: server.map_or(at, |s| with_port(&s)),
                token: token.to_string(),
                key: key.to_string(),
                ..Server::default()
            };
            println!("busbar login '{}'", line.line());
        }
        What::List { json: true } => {
            table::print_json(&vault.tokens()?);
        }
        What::List { json: false } => {
            let mut table = Table::new(&["NAME", "TENANT", "STATE"].map(Column::text));
            for t in vault.tokens()? {
                let admin = if t.admin { ", admin" } else { "" };
                let state = state(&t);
                let mood = match state.starts_with("good") {
                    true => Mood::Plain,
                    false => Mood::Bad,
                };
                table.row([t.name, t.tenant, state + admin], mood);
            }
            table::print(&table.text());
        }
        What::Revoke { name } => {
            if name.is_empty() {
                bail!("say which token: `busbar token list` shows all");
            }
            vault.revoke(&name)?;
        }
    }
    Ok(())
}
