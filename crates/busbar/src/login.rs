//! `busbar login`: which servers are known, and by what.

use crate::complaint::complain;
use crate::discover;
use crate::table::{self, Column, Mood, Table};
use anyhow::{Context, Result, anyhow, bail};
use busbar_client::config::Config;
use busbar_client::hello;
use busbar_client::servers::{Server, Servers};
use busbar_control::hello::with_port;
use std::path::PathBuf;

/// Flags of `busbar login`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  busbar login 'busbar://TOKEN@gpu-host:7400?key=KEY'  # the line that `busbar serve` printed
  busbar login -                                       # the same, read from stdin
  busbar login --list
  busbar login --remove gpu-host
  busbar login --ca ca.pem --cert me.pem --cert-key me.key gpu-host   # with certificates
  busbar login --ca ca.pem busbar://TOKEN@srv:gpus.example.org   # all that DNS names there")]
pub struct Args {
    /// The line that the server printed, or `busbar token new` there; `-` reads it from stdin
    #[arg(value_name = "LINE", required_unless_present_any = ["list", "remove"])]
    line: Option<String>,
    /// Certificates (PEM) of the authority that vouches for the server, instead of a key
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Certificate (PEM) to show to the server
    #[arg(long, value_name = "FILE")]
    cert: Option<PathBuf>,
    /// Its private key (PEM), if that is not in the same file
    #[arg(long, value_name = "FILE", requires = "cert")]
    cert_key: Option<PathBuf>,
    /// List the servers that are known; the first is used where none is named
    #[arg(long, exclusive = true)]
    list: bool,
    /// Forget a server
    #[arg(long, value_name = "HOST:PORT", exclusive = true)]
    remove: Option<String>,
}

/// Runs the command.
pub fn run(a: Args) -> Result<()> {
    let path = Servers::path();
    let path = path.context("there is no home folder to keep servers in: set BUSBAR_CONFIG")?;
    let mut all = Servers::read(&path).map_err(anyhow::Error::msg)?;
    let write = |all: &Servers| {
        let done = all.write(&path);
        done.with_context(|| format!("cannot write to {}", path.display()))
    };
    if a.list {
        let mut table = Table::new(&["SERVER", "KNOWN BY", "SHOWN"].map(Column::text));
        for s in &all.server {
            let known = match (&*s.key, &*s.ca) {
                ("", "") => "clear text".into(),
                ("", ca) => format!("authority {ca}"),
                (key, _) => format!("key {key}"),
            };
            let shown = match (&*s.token, &*s.cert) {
                ("", "") => "nothing".into(),
                ("", cert) => cert.into(),
                _ => "a token".into(),
            };
            table.row([s.address.clone(), known, shown], Mood::Plain);
        }
        table::print(&table.text());
        return Ok(());
    }
    if let Some(server) = a.remove {
        let (address, before) = (with_port(&server), all.server.len());
        all.server.retain(|s| s.address != address);
        if all.server.len() == before {
            bail!("{address} is not known: `busbar login --list` shows what is");
        }
        return write(&all);
    }
    let mut line = a.line.unwrap_or_default();
    if line == "-" {
        line.clear();
        std::io::stdin().read_line(&mut line)?;
    }
    // The whole line, as it was printed, will do.
    let line = line.trim().trim_start_matches("busbar login ");
    let line = line.trim_matches('\'');
    let named: Server = line.parse().map_err(anyhow::Error::msg)?;
    let text = |p: Option<PathBuf>| -> Result<String> {
        let Some(p) = p else { return Ok(String::new()) };
        let whole = p
            .canonicalize()
            .with_context(|| format!("cannot read {}", p.display()))?;
        let text = whole.into_os_string().into_string();
        text.map_err(|p| anyhow!("{} is not a name in UTF-8", p.display()))
    };
    let server = Server {
        ca: text(a.ca)?,
        cert: text(a.cert)?,
        cert_key: text(a.cert_key)?,
        ..named
    };
    if server.key.is_empty() == server.ca.is_empty() {
        if server.domain().is_some() {
            bail!(
                "servers that DNS names are known by their authority: name its certificates with \
                 --ca FILE"
            );
        }
        bail!(
            "say by what the server is known: paste the whole line that it printed \
             (busbar://TOKEN@HOST:PORT?key=KEY), or name its authority with --ca FILE"
        );
    }
    // It has to work before anything is kept.
    let address = server.address.clone();
    let found = match server.domain() {
        Some(domain) => discover::servers(domain)?,
        None => vec![address.clone()],
    };
    let look = |at: &String| {
        let line = Server {
            address: at.clone(),
            ..server.clone()
        };
        let config = Config {
            lines: vec![line],
            list: None,
            token: None,
            token_file: None,
            ..Config::from_env()
        };
        hello::status(&config, at, &[])
    };
    let (mut n, mut errors) = (0, Vec::new());
    for said in found.iter().map(look) {
        match said {
            Ok(status) => n += status.devices.len(),
            Err(e) => errors.push(e),
        }
    }
    if errors.len() == found.len() {
        bail!("{}", errors.join("; "));
    }
    errors.iter().for_each(complain);
    all.server.retain(|s| s.address != address);
    all.server.insert(0, server);
    write(&all)?;
    println!(
        "busbar: {address} is known now, and offers {n} device{}; `busbar run -- PROGRAM` uses it",
        if n == 1 { "" } else { "s" }
    );
    Ok(())
}
