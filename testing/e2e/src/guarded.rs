//! Servers that encrypt and know who comes.

use crate::authority::Authority;
use crate::program::{clear, finished, printed};
use crate::server::{Options, Server};
use crate::tree::tree;
use crate::until;
use busbar_client::servers;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A server that encrypts, with a folder for its state and for its clients'.
pub struct Guarded {
    /// It.
    pub server: Server,
    folder: TempDir,
}

impl Guarded {
    /// Starts one.
    pub fn start() -> Self {
        Self::start_with(|o, _| o)
    }

    /// Starts one with more flags, which may name files in its folder.
    pub fn start_with(change: impl FnOnce(Options, &Path) -> Options) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let state = folder.path().join("state").display().to_string();
        let mut options = Options::default().arg("--state-dir", &state);
        options.args.push("--tls".into());
        Self {
            server: change(options, folder.path()).start(),
            folder,
        }
    }

    /// Starts one that has a certificate of an authority, and knows those whom it has signed.
    pub fn certified(of: &Authority, change: impl FnOnce(Options) -> Options) -> Self {
        let cert = of.sign("busbar://servers/one", 2100);
        Self::start_with(|o, folder| {
            let file = |name: &str, text: &str| {
                let path = folder.join(name);
                std::fs::write(&path, text).expect("a file");
                path.display().to_string()
            };
            let server = file("server.pem", &cert);
            let o = o.arg("--client-ca", &file("ca.pem", &of.pem));
            change(o.arg("--cert", &server).arg("--key", &server))
        })
    }

    /// A file in its folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A command of `busbar`, of a user who has this list of servers.
    pub fn busbar(&self, args: &[&str]) -> Command {
        let mut c = Command::new(&tree().busbar);
        clear(&mut c);
        c.args(args)
            .env("BUSBAR_CONFIG", self.path("home/config.toml"));
        c
    }

    /// `busbar token`, and what it prints.
    pub fn token(&self, args: &[&str]) -> String {
        let state = self.path("state").display().to_string();
        let all = [&["token"], args, &["--state-dir", &state]].concat();
        printed(&mut self.busbar(&all)).trim().to_string()
    }

    /// The line that a new token is told with.
    ///
    /// # Panics
    /// When it is none.
    pub fn line(&self, name: &str, more: &[&str]) -> servers::Server {
        let line = self.token(&[&["new", name], more].concat());
        let line = line
            .strip_prefix("busbar login '")
            .expect("a line to paste");
        line.trim_end_matches('\'').parse().expect("it makes sense")
    }

    /// Logs in with it.
    pub fn login(&self, line: &servers::Server) {
        printed(&mut self.busbar(&["login", &line.line()]));
    }

    /// A program, with more arguments, by somebody who has logged in.
    pub fn run(&self, program: &str, args: &[&str]) -> Command {
        self.busbar(&[&["run", "--", program], args].concat())
    }

    /// The sessions that somebody sees who has logged in.
    ///
    /// # Panics
    /// When `busbar ps` fails.
    pub fn sessions(&self) -> Vec<Value> {
        let out = printed(&mut self.busbar(&["ps", "--json"]));
        let list: Value = serde_json::from_str(&out).expect("JSON");
        let all = list[0]["status"]["sessions"].as_array().cloned();
        all.expect("a list of sessions")
    }

    /// Waits until there are so many.
    pub fn wait_for_sessions(&self, n: usize) -> Vec<Value> {
        until(&format!("{n} session(s)"), || {
            Some(self.sessions()).filter(|s| s.len() == n)
        })
    }
}

/// It fails, with one sentence that has these words.
///
/// # Panics
/// When it does not.
pub fn refused(c: &mut Command, words: &[&str]) {
    let out = finished(c);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(125), "{said}");
    assert!(words.iter().all(|w| said.contains(w)), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}
