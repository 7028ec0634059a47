//! Which servers a command is about, and how they are talked to: said here for all commands.

use crate::discover;
use anyhow::{Result, bail};
use busbar_client::config::Config;
use busbar_client::hello;
use busbar_client::servers::{self, Server};
use busbar_control::hello::with_port;
use busbar_control::status::Status;
use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::thread;

/// Flags of all commands that talk to servers.
#[derive(Clone, clap::Args)]
pub struct Servers {
    /// Servers, with commas between [default: those of `busbar login`, else 127.0.0.1:7400]
    #[arg(
        short = 'l',
        long,
        alias = "server_list",
        value_name = "HOST:PORT",
        env = "BUSBAR_SERVER"
    )]
    server: Option<String>,
    /// Talk in clear to servers whose key is not known: everybody on the way reads and changes it
    #[arg(long)]
    plaintext: bool,
    /// File whose first line is the token to show; it goes before BUSBAR_TOKEN, BUSBAR_TOKEN_FILE
    /// and `busbar login`
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// Which of the servers that are known a command is about, where it names none.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// All.
    All,
    /// That of the last login; of a domain its first.
    Last,
}

impl Servers {
    /// These in place of those that the flag names, if there are any.
    pub fn instead(&self, hosts: &[String]) -> Self {
        let mut servers = self.clone();
        if !hosts.is_empty() {
            servers.server = Some(hosts.join(","));
        }
        servers
    }

    /// All that were named, else all that are known, else this very machine.
    pub fn all(&self) -> Result<Config> {
        let mut config = self.known(Which::All)?;
        if config.servers.is_empty() {
            config.servers.push(with_port("127.0.0.1"));
        }
        Ok(config)
    }

    /// Those that were named, else of those that are known which there are, if any. What was said
    /// is in the environment afterwards, for the programs that are started.
    pub fn known(&self, which: Which) -> Result<Config> {
        for (name, value) in absolute_files(self.token_file.as_deref())? {
            // SAFETY: this program has no other thread yet.
            unsafe { std::env::set_var(name, value) };
        }
        let list = servers::Servers::path().filter(|p| p.exists());
        // Bitfusion's lists have semicolons.
        let named = self.server.as_deref().unwrap_or_default();
        let mut named = named.trim().replace(';', ",");
        let most = match which {
            Which::Last if named.is_empty() => 1,
            _ => usize::MAX,
        };
        if named.is_empty()
            && let Some(path) = &list
        {
            let known = servers::Servers::read(path).map_err(anyhow::Error::msg)?;
            let each = known.server.into_iter().take(most).map(|s| s.address);
            named = each.collect::<Vec<_>>().join(",");
        }
        let named = expanded(&named, most)?;
        let mut set = vec![("BUSBAR_SERVER", named.into())];
        if self.plaintext {
            set.push(("BUSBAR_PLAINTEXT", "1".into()));
        }
        if let Some(path) = list {
            // The program may have another home.
            set.push(("BUSBAR_CONFIG", std::path::absolute(path)?.into_os_string()));
        }
        for (name, value) in set {
            // SAFETY: this program has no other thread yet.
            unsafe { std::env::set_var(name, value) };
        }
        let config = Config::from_env();
        match &config.mistake {
            Some(why) => bail!("{why}"),
            None => Ok(config),
        }
    }
}

/// What a server says, or why it says nothing.
pub type Said = (String, Result<Status, String>);

/// What each server says of itself, in their order. All are asked at once: one that does not answer
/// takes its time.
pub fn ask(config: &Config, features: &[&str]) -> Vec<Said> {
    thread::scope(|scope| {
        let each = config.servers.iter();
        let asked: Vec<_> = each
            .map(|server| {
                let said = move || hello::status(config, server, features);
                (server, thread::Builder::new().spawn_scoped(scope, said))
            })
            .collect();
        let answers = asked.into_iter().map(|(server, asked)| {
            let said = match asked {
                Ok(thread) => thread
                    .join()
                    .unwrap_or_else(|_| Err(format!("{server}: asking it failed"))),
                Err(e) => Err(format!("cannot ask {server}: {e}")),
            };
            (server.clone(), said)
        });
        answers.collect()
    })
}

/// A server as a program is told of it: with what was said of its key and token, which may be
/// nowhere else.
pub fn told(config: &Config, server: &str) -> String {
    let line = config.lines.iter().find(|l| l.address == server);
    let more = line.filter(|l| !l.key.is_empty() || !l.token.is_empty());
    more.map_or_else(|| server.into(), |l| l.line())
}

/// What variables say of files, as it holds in any folder: a program may change its own.
fn absolute_files(token_file: Option<&Path>) -> Result<Vec<(&'static str, OsString)>> {
    let said = |name| std::env::var_os(name).filter(|v| !v.is_empty());
    let whole = |path: OsString| std::path::absolute(path).map(PathBuf::into_os_string);
    let mut set = Vec::new();
    for name in ["BUSBAR_TOKEN_FILE", "BUSBAR_CONFIG", "BUSBAR_LIB_DIR"] {
        if let Some(path) = said(name) {
            set.push((name, whole(path)?));
        }
    }
    if let Some(path) = token_file {
        set.push(("BUSBAR_TOKEN_FILE", whole(path.into())?));
        // It would go before that.
        set.push(("BUSBAR_TOKEN", OsString::new()));
    }
    if let Some(log) = said("BUSBAR_LOG").and_then(|l| l.into_string().ok())
        && let Some((level, file)) = log.split_once(':')
        && !file.is_empty()
    {
        let mut log = OsString::from(format!("{level}:"));
        log.push(whole(file.into())?);
        set.push(("BUSBAR_LOG", log));
    }
    Ok(set)
}

/// Servers in place of the domains among those that are named, at most so many of each; each once.
fn expanded(named: &str, most: usize) -> Result<String> {
    let mut all = Vec::new();
    for text in named.split(',').filter(|t| !t.trim().is_empty()) {
        // What is no server is said to be none where it is read.
        let Ok(server) = text.parse::<Server>() else {
            all.push((text.into(), text.into()));
            continue;
        };
        let Some(domain) = server.domain() else {
            all.push((server.address, text.to_string()));
            continue;
        };
        for address in discover::servers(domain)?.into_iter().take(most) {
            let own = Server {
                address: address.clone(),
                ..server.clone()
            };
            all.push(match own.token.is_empty() {
                true => (address.clone(), address),
                false => (address, own.line()),
            });
        }
    }
    let mut there = HashSet::new();
    all.retain(|(address, _)| there.insert(address.clone()));
    let lines: Vec<_> = all.into_iter().map(|(_, line)| line).collect();
    Ok(lines.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_named_twice_is_one() {
        let once = |text| expanded(text, usize::MAX).unwrap();
        assert_eq!(once("a, ,b,a:7400,,b:7401"), "a,b,b:7401");
        assert_eq!(once("busbar://t@a,a"), "busbar://t@a");
        assert_eq!(once("http://a,http://a"), "http://a");
    }
}
