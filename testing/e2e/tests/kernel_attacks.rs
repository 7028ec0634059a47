//! On a CPU device a client's kernels are machine code in its worker. They can do to that worker
//! what they like, and nothing to the server and to other sessions.

use busbar_e2e::opencl::{self, Server};
use busbar_e2e::{proc, tree, until};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The results of the system calls that a kernel makes, each `TIMES NUMBER A B C D`.
fn calls(server: &Server, calls: &[[&str; 6]]) -> Vec<i64> {
    let program = opencl::compile("opencl_calls");
    let out = opencl::run(server.command(program).args(calls.concat()));
    let lines = opencl::text(&out);
    let results: Vec<_> = lines.lines().map_while(|l| l.parse().ok()).collect();
    let errors = String::from_utf8_lossy(&out.stderr);
    assert_eq!(results.len(), calls.len(), "{lines}{errors}");
    results
}

/// A server whose log is in a file, and more flags.
fn logging(log: &Path, args: &[&str]) -> Server {
    let file = std::fs::File::create(log).expect("a file");
    Server::start_with(|c| {
        c.args(args).stdin(Stdio::null()).stderr(file);
    })
}

#[test]
fn a_kernel_cannot_forge_cut_or_flood_the_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let server = logging(&log, &[]);
    let read = || std::fs::read_to_string(&log).expect("a log");
    let before = until("a log", || Some(read()).filter(|l| l.contains("listening")));
    let forged = "\n2026-01-01T00:00:00Z  INFO session opens session=\"forged\"\n\u{1b}[2J\n";
    let length = forged.len().to_string();
    let long = "x".repeat(4000) + "\n";
    let results = calls(
        &server,
        &[
            // ftruncate(2, 0)
            ["1", "77", "2", "0", "0", "0"],
            // write(2, forged, length)
            ["1", "1", "2", forged, &length, "0"],
            // write(2, long, 4001), 5000 times
            ["5000", "1", "2", &long, "4001", "0"],
        ],
    );
    assert!(results[0] < 0, "a log cannot be cut");
    until("the session's end", || {
        read().contains("session ended").then_some(())
    });
    let after = until("what it wrote", || {
        Some(read()).filter(|l| l.contains("forged") && l.contains("xxx"))
    });
    assert!(after.starts_with(&before), "{after}");
    // The server says of each session what its program was called with.
    let of_server = |l: &&str| l.contains("session opens");
    let forged = after.lines().filter(|l| l.contains("forged"));
    let forged: Vec<_> = forged.filter(|l| !of_server(l)).collect();
    assert!(!after.contains('\u{1b}'));
    for line in forged {
        assert!(!line.starts_with("2026-01-01"), "{line}");
        assert!(line.contains("a worker says"), "{line}");
        assert!(line.contains(" session="), "it says whose it is: {line}");
    }
    assert!(after.len() < 200_000, "{} bytes of log", after.len());
}

#[test]
fn a_kernel_has_no_sockets_and_sees_no_other_process() {
    let server = Server::start();
    let server_pid = server.pid().to_string();
    let results = calls(
        &server,
        &[
            // socket(AF_INET, SOCK_DGRAM), (AF_INET6, SOCK_STREAM), (AF_PACKET, SOCK_RAW)
            ["1", "41", "2", "2", "0", "0"],
            ["1", "41", "10", "1", "0", "0"],
            ["1", "41", "17", "3", "0", "0"],
            // The same by the numbers of x32.
            ["1", "1073741865", "2", "2", "0", "0"],
            // io_uring_setup(8, text), ptrace(PTRACE_ATTACH, server)
            ["1", "425", "8", "x", "0", "0"],
            ["1", "101", "16", &server_pid, "0", "0"],
            // unshare(CLONE_NEWUSER)
            ["1", "272", "268435456", "0", "0", "0"],
            // socket(AF_UNIX, SOCK_STREAM), which drivers need
            ["1", "41", "1", "1", "0", "0"],
        ],
    );
    let (may, may_not) = results.split_last().expect("results");
    assert!(may_not.iter().all(|r| *r < 0), "{results:?}");
    assert!(*may >= 0, "{results:?}");
}

/// By what number the worker that waits for a server's next session knows the socket to the server.
fn control_of_spare(server: &Server) -> Option<String> {
    let flag = |pid: u32, flag: &str| {
        let words = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
        words
            .split('\0')
            .find_map(|w| Some(w.strip_prefix(flag)?.to_string()))
    };
    let all = proc::descendants(server.pid());
    let mut workers = all.iter().filter(|pid| flag(**pid, "--warm=").is_some());
    let one = workers.next().filter(|_| workers.next().is_none())?;
    flag(*one, "--control-fd=")
}

#[test]
fn what_a_kernel_says_to_the_server_in_the_workers_place_is_bounded() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let server = logging(&log, &[]);
    calls(&server, &[["1", "39", "0", "0", "0", "0"]]);
    until("the end of the session", || {
        server.sessions().is_empty().then_some(())
    });
    let control = until("a worker for the next session", || {
        control_of_spare(&server)
    });
    let lie = r#""memory":{"a":{"bytes":18446744073709551615},"b":{"bytes":18446744073709551615}}"#;
    let names = r#""objects":{"forged":7,"x\nroot@server":1}"#;
    let says = [
        ("5000", r#"{"kind":"late","what":"is late"}"#.to_string()),
        (
            "5000",
            r#"{"kind":"failed","comm":7,"why":"it failed"}"#.into(),
        ),
        ("5000", r#"{"kind":"member","comm":7,"yes":true}"#.into()),
        ("1", r#"{"kind":"attached","path":"x\nroot@server"}"#.into()),
        ("999999999", format!(r#"{{"kind":"holds",{names},{lie}}}"#)),
    ];
    let lengths = says.each_ref().map(|(_, text)| text.len().to_string());
    // write(control, text, length)
    let writes = says.iter().zip(&lengths);
    let writes = writes.map(|((n, text), len)| [*n, "1", &control, text, len, "0"]);
    let program = opencl::compile("opencl_calls");
    let mut program = server.command(program);
    program.args(writes.flatten()).stdout(Stdio::null());
    let mut running = program.spawn().expect("the program starts");
    let mut ps = Command::new(&tree::tree().busbar);
    ps.args(["ps", "--objects", "--server", &server.address]);
    let shown = until("what the kernel has said", || {
        let out = opencl::text(&opencl::run(&mut ps));
        Some(out).filter(|t| t.contains("7 forged"))
    });
    let forged = shown.lines().any(|l| l.starts_with("root@server"));
    let threads = proc::threads(server.pid());
    let _ = (running.kill(), running.wait());
    assert!(!forged, "{shown}");
    assert!(threads < 300, "{threads} threads of the server");
    let log = std::fs::read_to_string(&log).expect("a log");
    let lines = log.lines().filter(|l| l.contains("is late")).count();
    assert!(lines < 300, "{lines} lines of the log");
}

/// The files in a store.
fn kept(store: &Path) -> Vec<PathBuf> {
    let files = |p: PathBuf| std::fs::read_dir(p).into_iter().flatten().flatten();
    let folders = files(store.into()).map(|f| f.path());
    folders.flat_map(files).map(|f| f.path()).collect()
}

#[test]
fn a_kernel_cannot_change_what_other_sessions_run() {
    // Not in /tmp, where compilers write; the tree may lie there.
    let home = std::env::var("HOME").expect("a home");
    let base = [tree::built(), home.into()]
        .into_iter()
        .find(|p| {
            !["/tmp", "/var/tmp", "/dev/shm"]
                .iter()
                .any(|t| p.starts_with(t))
        })
        .expect("a folder that workers may not write");
    let store = tempfile::tempdir_in(&base).expect("a folder");
    let other = tempfile::tempdir_in(&base).expect("a folder");
    let server = Server::start_with(|c| {
        c.arg("--cache-dir").arg(store.path());
    });
    let honest = opencl::compile("opencl_faults");
    let out = opencl::text(&opencl::run(server.command(&honest).arg("build")));
    assert!(out.contains("42"), "{out}");
    let file = until("a build that is kept", || kept(store.path()).pop());
    let text = |p: &Path| p.display().to_string();
    let before = std::fs::read(&file).expect("it is there");
    let (old, new) = (text(&file), text(&file.with_file_name("forged")));
    // Where PoCL keeps what it has compiled when nothing else is said.
    let kernel = match base == tree::built() {
        true => base.join("e2e-kernels/forged"),
        false => other.path().join("forged"),
    };
    let kernel = text(&kernel);
    let results = calls(
        &server,
        &[
            // openat(AT_FDCWD, path, O_CREAT | O_WRONLY, 0600), twice, and O_RDWR
            ["1", "257", "-100", &new, "65", "384"],
            ["1", "257", "-100", &kernel, "65", "384"],
            ["1", "257", "-100", &old, "2", "0"],
            // truncate(path, 0), unlink(path), rename(path, other)
            ["1", "76", &old, "0", "0", "0"],
            ["1", "87", &old, "0", "0", "0"],
            ["1", "82", &old, &new, "0", "0"],
        ],
    );
    assert!(results.iter().all(|r| *r < 0), "{results:?}");
    assert_eq!(std::fs::read(&file).expect("it is there"), before);
}
