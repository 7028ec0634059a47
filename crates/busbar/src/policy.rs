//! `busbar policy`: what tenants may do at this machine's server.

use anyhow::{Context, Result, anyhow};
use busbar_policy::{Policy, Rules};
use busbar_transport::rdma::ib::Choice;
use clap::Subcommand;
use std::path::{Path, PathBuf};

/// Flags of `busbar policy`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  busbar policy check /etc/busbar/policy.toml    # is it valid, and what does it say of whom?
  busbar serve --policy /etc/busbar/policy.toml  # go by it")]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Say whether a file is valid, or where it is not, and what each tenant may do
    Check {
        /// The file
        file: PathBuf,
    },
}

/// Reads a file.
pub fn read(path: &Path) -> Result<Policy> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the policy {}", path.display()))?;
    let invalid = |e: String| anyhow!("the policy {} is not valid: {e}", path.display());
    let policy = busbar_policy::parse(&text).map_err(|e| invalid(e.to_string()))?;
    for rules in policy.named().map(|(_, r)| r).chain([policy.others()]) {
        let device = rules.rdma_device.as_deref().unwrap_or_default();
        let read = device.parse::<Choice>();
        read.map_err(|e| invalid(format!("rdma_device: {e}")))?;
    }
    Ok(policy)
}

fn most(limit: Option<u64>) -> String {
    limit.map_or("-".into(), |n| n.to_string())
}

fn list<T: ToString>(all: &Option<Vec<T>>) -> String {
    match all.as_deref() {
        None => "-".into(),
        Some([]) => "none".into(),
        Some(all) => {
            let all: Vec<_> = all.iter().map(T::to_string).collect();
            all.join(",")
        }
    }
}

fn row(name: &str, r: &Rules) {
    println!(
        "{name:<24} {:<12} {:<10} {:<4} {:>8} {:>7} {:>9}  {}",
        list(&r.apis),
        list(&r.devices),
        if r.cpu { "yes" } else { "no" },
        most(r.sessions),
        most(r.leases),
        most(r.opens),
        if r.admin { "yes" } else { "no" },
    );
}

/// Runs the command.
pub fn run(a: &Args) -> Result<()> {
    let What::Check { file } = &a.what;
    let policy = read(file)?;
    println!(
        "{:<24} {:<12} {:<10} {:<4} {:>8} {:>7} {:>9}  ADMIN",
        "TENANT", "API", "DEVICES", "CPU", "SESSIONS", "LEASES", "OPENS/MIN"
    );
    for (name, rules) in policy.named() {
        row(name, rules);
    }
    row("(all others)", policy.others());
    Ok(())
}
