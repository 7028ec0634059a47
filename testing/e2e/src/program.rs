//! Programs: run natively on the simulated driver, or through a server.

use crate::proc::Watchdog;
use crate::server::Server;
pub use crate::tree::clear;
use crate::tree::tree;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

/// How long any one program may take. It bounds a failing test, it measures nothing.
pub const LIMIT: Duration = Duration::from_secs(120);

/// A command that runs `program` natively.
pub fn native(program: &Path) -> Command {
    let mut c = Command::new(program);
    clear(&mut c);
    c.env("LD_LIBRARY_PATH", &tree().fakedev);
    c
}

/// A command that runs `program` through the server at `address`.
pub fn remote_at(address: &str, program: &Path) -> Command {
    let mut c = Command::new(&tree().busbar);
    clear(&mut c);
    c.args(["run", "--server", address, "--"]).arg(program);
    c
}

/// A command that runs `program` through `server`.
pub fn remote(server: &Server, program: &Path) -> Command {
    remote_at(&server.address, program)
}

/// As [`remote`], without `busbar run` in between: a program in a container is started so.
pub fn remote_directly(server: &Server, program: &Path) -> Command {
    let mut c = Command::new(program);
    clear(&mut c);
    c.env("LD_LIBRARY_PATH", &tree().cuda);
    c.env("BUSBAR_SERVER", &server.address);
    c
}

/// Runs a command to its end, and returns what it printed; it must succeed.
pub fn printed(c: &mut Command) -> String {
    let out = finished(c);
    let err = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{:?}: {}\n{err}", c, out.status);
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// As [`same`], of a server of its own, with the program on the server's host and as if elsewhere.
pub fn same_both_ways(program: &Path, word: &str) -> String {
    let server = Server::start();
    let wanted = printed(native(program).arg(word));
    for shared in ["1", "0"] {
        let mut c = remote(&server, program);
        let got = printed(c.arg(word).env("BUSBAR_SHM", shared));
        assert_eq!(wanted, got, "{word}, BUSBAR_SHM={shared}");
    }
    wanted
}

/// Runs a program natively and through `server`; both must print the same, which is returned.
pub fn same(program: &Path, server: &Server, devices: &str, args: &[&str]) -> String {
    let wanted = printed(native(program).args(args).env("FAKEDEV_DEVICES", devices));
    let got = printed(remote(server, program).args(args));
    assert_eq!(wanted, got, "{args:?}");
    got
}

/// The counters that a client told `BUSBAR_STATS=1` has printed at its end.
pub fn stats(out: &Output) -> serde_json::Value {
    let err = String::from_utf8_lossy(&out.stderr);
    let line = err.lines().find_map(|l| l.strip_prefix("busbar-stats: "));
    serde_json::from_str(line.expect("a line of counters")).expect("JSON")
}

/// Runs a command to its end.
pub fn finished(c: &mut Command) -> Output {
    let c = c.stdin(Stdio::null());
    let child = c.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.expect("the program starts");
    let _watchdog = Watchdog::start(child.id(), LIMIT);
    child.wait_with_output().expect("it can be waited for")
}

/// A program that runs, and whose lines are read as they come.
pub struct Running {
    child: Child,
    lines: BufReader<ChildStdout>,
    _watchdog: Watchdog,
}

impl Running {
    /// Starts it.
    pub fn start(c: &mut Command) -> Self {
        Self::start_for(c, LIMIT)
    }

    /// Starts it; it may take as long as `limit`.
    pub fn start_for(c: &mut Command, limit: Duration) -> Self {
        let c = c.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = c.spawn().expect("the program starts");
        let lines = BufReader::new(child.stdout.take().expect("its stdout is a pipe"));
        let _watchdog = Watchdog::start(child.id(), limit);
        Self {
            child,
            lines,
            _watchdog,
        }
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its next line; empty at the end.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("it can be read");
        line.trim_end().into()
    }

    /// Reads lines until one begins with `start`, and returns it.
    ///
    /// # Panics
    /// When the program ends before.
    pub fn line_with(&mut self, start: &str) -> String {
        loop {
            let line = self.line();
            if line.starts_with(start) {
                return line;
            }
            assert!(
                !line.is_empty(),
                "the program ended before it printed {start:?}"
            );
        }
    }

    /// Gives its stdin a line.
    ///
    /// # Panics
    /// When it has ended.
    pub fn say(&mut self, line: &str) {
        let to = self.child.stdin.as_mut().expect("its stdin is a pipe");
        writeln!(to, "{line}").expect("it reads its stdin");
    }

    /// Ends its stdin, which the programs that hold something wait for.
    pub fn go_on(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Waits for its end; what it started may live on.
    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().expect("it can be waited for")
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it can be waited for");
    }

    /// Lets it go on (its stdin ends), and waits for its end: the rest of what it prints, and how
    /// it ended.
    pub fn finish(mut self) -> (String, ExitStatus) {
        drop(self.child.stdin.take());
        let mut rest = String::new();
        self.lines
            .read_to_string(&mut rest)
            .expect("it can be read");
        let status = self.child.wait().expect("it can be waited for");
        (rest, status)
    }

    /// As [`Running::finish`], of a program that holds memory: what it has put there is there
    /// still, and it ends well.
    pub fn goes_on_holding(self) {
        let (rest, status) = self.finish();
        assert!(
            status.success() && rest.starts_with("after 0 [7, 7"),
            "{status}: {rest}"
        );
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
