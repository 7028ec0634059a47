//! What goes wrong before a program runs: one sentence that says what to do, soon, and the exit
//! status that the README names.

use busbar_e2e::proc::Watchdog;
use busbar_e2e::program::{Running, clear, printed};
use busbar_e2e::server::{Options, Server};
use busbar_e2e::tree::tree;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_driver_program");

/// A second more than what is promised: a loaded machine is not what is tested.
const SOON: Duration = Duration::from_secs(6);

/// `busbar run` with these arguments.
fn run(server: &str, args: &[&str]) -> Command {
    let mut c = Command::new(&tree().busbar);
    clear(&mut c);
    c.args(["run", "--server", server]).args(args);
    c
}

/// The command fails soon, with this exit status and one line on stderr; returns the line.
fn fails(c: &mut Command, status: i32, words: &[&str]) {
    let c = c.stdin(Stdio::null()).stdout(Stdio::piped());
    let child = c.stderr(Stdio::piped()).spawn().expect("busbar starts");
    let watchdog = Watchdog::start(child.id(), SOON);
    let out = child.wait_with_output().expect("it can be waited for");
    drop(watchdog);
    let err = String::from_utf8_lossy(&out.stderr);
    assert_eq!(
        out.status.code(),
        Some(status),
        "{c:?}: {}: {err}",
        out.status
    );
    assert!(out.stdout.is_empty(), "{c:?}");
    assert_eq!(err.lines().count(), 1, "{c:?}: {err}");
    assert!(err.starts_with("busbar: "), "{err}");
    for w in words {
        assert!(err.contains(w), "{w:?} is not in {err:?}");
    }
}

#[test]
fn an_address_where_no_server_is() {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr());
    let nobody = port.expect("a free port").to_string();
    fails(
        &mut run(&nobody, &["--", "true"]),
        125,
        &[&nobody, "is `busbar serve` running?"],
    );
    fails(
        &mut run("no-such-host.invalid:7400", &["--", "true"]),
        125,
        &["no-such-host.invalid"],
    );
    fails(
        &mut run("127.0.0.1:99999", &["--", "true"]),
        125,
        &["127.0.0.1:99999"],
    );
    fails(&mut run("", &["--", "true"]), 125, &["--server HOST:PORT"]);
    for what in ["devices", "ps"] {
        let mut c = Command::new(&tree().busbar);
        clear(&mut c);
        fails(c.args([what, "--server", &nobody]), 125, &[&nobody]);
    }
}

#[test]
fn what_is_written_wrong_is_named() {
    let check = |server: &str, args: &[&str], words: &[&str]| {
        fails(
            &mut run(server, &[args, &["--", "true"]].concat()),
            125,
            words,
        );
    };
    let words = ["an address for http", "such as gpu-host:7400"];
    check("http://gpu-host:8080/", &[], &words);
    check("gpu-host:port", &[], &["no port from 1 to 65535"]);
    check("token@gpu-host", &[], &["begins with busbar://"]);
    let server = Server::start();
    let mut c = run(&server.address, &["--", "sh", "-c", "true"]);
    let wrong = ["BUSBAR", "TOKENFILE"].join("_");
    c.env(&wrong, "x").stderr(Stdio::piped());
    let out = c.output().expect("it runs");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}");
    assert_eq!(
        said,
        format!("busbar: there is no variable {wrong}: did you mean BUSBAR_TOKEN_FILE?\n")
    );
    for (flag, value, right) in [
        ("-m", "16GB", "say 16GiB"),
        ("-m", "16GG", "`GG` is no unit of memory"),
        ("-n", "x", "say one from 1 to 1024"),
        ("-n", "0", "say one from 1 to 1024"),
        ("--wait", "5", "say 90s, 10m, 2h or 7d"),
        ("--rdma", "maybe", "auto, on and off"),
        ("--filter", "memory >", "it ends where something is missing"),
    ] {
        check(&server.address, &[flag, value], &[right]);
    }
    let all = |args: &[&str], words: &[&str]| {
        let mut c = Command::new(&tree().busbar);
        clear(&mut c);
        fails(c.args(args), 125, words);
    };
    all(&["run"], &["<CMD>... is missing", "`busbar run --help`"]);
    all(
        &["run", "--serve", "a", "true"],
        &["`--serve`", "did you mean `--server`?"],
    );
    all(&["devics"], &["`devics`", "did you mean `devices`?"]);
    all(
        &["run", "--spread", "--pack", "true"],
        &["--spread", "--pack"],
    );
    all(&["completions", "xsh"], &["xsh", "zsh"]);
    all(
        &["token", "new"],
        &["is missing", "`busbar token new --help`"],
    );
    let mut c = run(&server.address, &["--", "true"]);
    let wrong = c.env("BUSBAR_SHM", "maybe").stderr(Stdio::piped());
    let out = wrong.output().expect("it runs");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}");
    assert_eq!(said, "busbar: BUSBAR_SHM=maybe means nothing: say 0 or 1\n");
}

#[test]
fn a_list_of_servers_that_is_not_good() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let list = folder.path().join("list.toml");
    for (text, word) in [
        ("nonsense", "line 1"),
        ("[[server]]\naddress = \"a:1\"\nkey = 3\n", "line 3"),
        ("[[server]]\nadress = \"a:1\"\n", "`adress`"),
        ("[[server]]\naddress = \"a:x\"\n", "`a:x` has no port"),
    ] {
        std::fs::write(&list, text).expect("a list");
        for args in [
            &["run", "--", "true"][..],
            &["devices"],
            &["health"],
            &["doctor"],
        ] {
            let mut c = Command::new(&tree().busbar);
            clear(&mut c);
            let c = c.args(args).env("BUSBAR_CONFIG", &list);
            fails(c, 125, &[&list.display().to_string(), word]);
        }
    }
}

/// Whether `busbar run` makes way for the program or waits for it.
#[test]
fn signals_are_the_programs() {
    let server = Server::start();
    for reserves in [&[][..], &["-n", "1"]] {
        for (number, name) in [
            (libc::SIGTERM, "TERM"),
            (libc::SIGINT, "INT"),
            (libc::SIGHUP, "HUP"),
            (libc::SIGUSR1, "USR1"),
        ] {
            let script = format!("trap 'exit 7' {name}; echo up; while :; do sleep 0.05; done");
            let mut c = run(&server.address, reserves);
            c.args(["--", "sh", "-c", &script]).stdout(Stdio::piped());
            // A shell traps no signal that was ignored before it, as in the background.
            let heeded = move || {
                // SAFETY: no function of ours is called by it.
                unsafe { libc::signal(number, libc::SIG_DFL) };
                Ok(())
            };
            // SAFETY: that one call is safe between fork and exec.
            unsafe { c.pre_exec(heeded) };
            let mut child = c.spawn().expect("busbar starts");
            let watchdog = Watchdog::start(child.id(), Duration::from_secs(30));
            let mut line = String::new();
            let out = child.stdout.take().expect("its stdout is a pipe");
            BufReader::new(out).read_line(&mut line).expect("it prints");
            assert_eq!(line, "up\n");
            signal(&child, number);
            let status = child.wait().expect("it can be waited for");
            drop(watchdog);
            assert_eq!(status.code(), Some(7), "{name}, {reserves:?}: {status}");
        }
    }
}

/// One that comes while devices are waited for ends the command.
#[test]
fn a_wait_can_be_broken_off() {
    let server = Server::start();
    let lease = ["request", "--server", &server.address];
    let mut c = Command::new(&tree().busbar);
    clear(&mut c);
    printed(c.args(lease));
    let mut c = run(&server.address, &["-n", "1", "--wait", "10m", "--", "true"]);
    let mut child = c.stderr(Stdio::piped()).spawn().expect("busbar starts");
    let watchdog = Watchdog::start(child.id(), Duration::from_secs(30));
    let mut line = String::new();
    let err = child.stderr.take().expect("its stderr is a pipe");
    BufReader::new(err)
        .read_line(&mut line)
        .expect("it says that it waits");
    signal(&child, libc::SIGTERM);
    let status = child.wait().expect("it can be waited for");
    drop(watchdog);
    assert_eq!(status.signal(), Some(libc::SIGTERM), "{line}{status}");
}

/// Without `PATH` programs are those of the system, and never those of the folder one is in.
#[test]
fn an_empty_environment() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let trap = folder.path().join("printf");
    std::fs::write(&trap, "#!/bin/sh\necho trapped\n").expect("a script");
    std::fs::set_permissions(&trap, PermissionsExt::from_mode(0o755)).expect("it may be run");
    for path in [None, Some("")] {
        for reserves in [&[][..], &["-n", "1"]] {
            let mut c = run(&server.address, reserves);
            c.env_clear().current_dir(folder.path());
            c.envs(path.map(|p| ("PATH", p)));
            c.args(["--", "printf", "%s", "found"]);
            assert_eq!(printed(&mut c), "found");
            let mut c = run(&server.address, reserves);
            c.env_clear().current_dir(folder.path());
            c.envs(path.map(|p| ("PATH", p)));
            c.args(["--", "/bin/sh", "-c", "printf found; busbar --version >&2"]);
            assert_eq!(printed(&mut c), "found");
        }
    }
}

/// Somebody else listens: what it answers to each connection.
fn somebody(answer: impl Fn(&[u8]) -> Option<Vec<u8>> + Send + 'static) -> String {
    let l = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = l.local_addr().expect("its address").to_string();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for s in l.incoming() {
            let Ok(mut s) = s else { return };
            let mut hello = [0; 4096];
            let n = s.read(&mut hello).unwrap_or(0);
            match answer(&hello[..n]) {
                Some(a) => drop(s.write_all(&a)),
                // It stays silent, and does not hang up.
                None => open.push(s),
            }
        }
    });
    address
}

#[test]
fn a_server_that_is_none() {
    let http =
        somebody(|_| Some(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n".to_vec()));
    fails(
        &mut run(&http, &["--", "true"]),
        125,
        &[
            &http,
            "a web server (HTTP) answers there",
            "the right port?",
        ],
    );
    let ssh = somebody(|_| Some(b"SSH-2.0-OpenSSH_9.6p1 and so on, and so on\r\n".to_vec()));
    fails(
        &mut run(&ssh, &["--", "true"]),
        125,
        &[&ssh, "an SSH server answers there", "the right port?"],
    );
    let curt = somebody(|_| Some(Vec::new()));
    fails(
        &mut run(&curt, &["--", "true"]),
        125,
        &[&curt, "is it the right port?"],
    );
    let silent = somebody(|_| None);
    fails(
        &mut run(&silent, &["--", "true"]),
        125,
        &[&silent, "no answer in time"],
    );
}

/// A welcome as a server of another release sends it.
fn welcome(json: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let kind = busbar_wire::frame::Kind::Welcome;
    let h = busbar_wire::frame::Header::plain(kind, json.len());
    out.extend_from_slice(&h.to_bytes());
    out.extend_from_slice(json.as_bytes());
    out
}

#[test]
fn a_server_of_another_version() {
    let newer = somebody(|_| Some(welcome(r#"{"protocol": 99, "version": "9.9.9"}"#)));
    let words = ["9.9.9", "protocol 99", "install the same release"];
    fails(&mut run(&newer, &["--", "true"]), 125, &words);
    let says = r#"{"refusal": {"code": "version", "message": "upgrade the client"}}"#;
    let refusing = somebody(|_| Some(welcome(says)));
    fails(
        &mut run(&refusing, &["--", "true"]),
        125,
        &["upgrade the client"],
    );
}

#[test]
fn a_token_that_is_missing_or_wrong() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let p = folder.path().join(name);
        std::fs::write(&p, text).expect("a file");
        p.display().to_string()
    };
    let (good, bad) = (
        file("good", "the right one, and long enough\n"),
        file("bad", "the wrong one, and long enough\n"),
    );
    let server = Options::default().arg("--token-file", &good).start();
    let with = |token: Option<&str>| {
        let mut c = run(&server.address, &["--", "true"]);
        if let Some(t) = token {
            c.env("BUSBAR_TOKEN_FILE", t);
        }
        c
    };
    fails(
        &mut with(None),
        125,
        &["asks for a token", "BUSBAR_TOKEN_FILE"],
    );
    fails(
        &mut with(Some(&bad)),
        125,
        &["another token", "BUSBAR_TOKEN_FILE"],
    );
    fails(&mut with(Some("/no/such/file")), 125, &["/no/such/file"]);
    assert!(with(Some(&good)).status().expect("it runs").success());
}

#[test]
fn of_several_tokens_the_one_that_was_said_last_is_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let (good, bad) = (
        "the right one, and long enough",
        "the wrong one, and long enough",
    );
    for (name, text) in [("good", good), ("bad", bad)] {
        std::fs::write(folder.path().join(name), text).expect("a file");
    }
    let file = |name: &str| folder.path().join(name).display().to_string();
    let server = Options::default()
        .arg("--token-file", &file("good"))
        .start();
    let list = |name: &str, token: &str| {
        let text = format!(
            "[[server]]\naddress = \"{}\"\ntoken = \"{token}\"\n",
            server.address
        );
        std::fs::write(folder.path().join(name), text).expect("a file");
        file(name)
    };
    let (good_list, bad_list) = (list("good.toml", good), list("bad.toml", bad));
    // From the first to the last: what says it, and how.
    type Way = for<'a> fn(&'a mut Command, &str) -> &'a mut Command;
    let ways: [(&str, Way, [&str; 2]); 4] = [
        (
            "--token-file",
            |c, v| c.args(["--token-file", v]),
            [&file("good"), &file("bad")],
        ),
        ("BUSBAR_TOKEN", |c, v| c.env("BUSBAR_TOKEN", v), [good, bad]),
        (
            "BUSBAR_TOKEN_FILE",
            |c, v| c.env("BUSBAR_TOKEN_FILE", v),
            [&file("good"), &file("bad")],
        ),
        (
            "login",
            |c, v| c.env("BUSBAR_CONFIG", v),
            [&good_list, &bad_list],
        ),
    ];
    for first in 0..ways.len() {
        for right in [true, false] {
            let mut c = run(&server.address, &[]);
            for (i, (_, way, [good, bad])) in ways.iter().enumerate().skip(first) {
                way(&mut c, if (i == first) == right { good } else { bad });
            }
            let status = c.args(["--", "true"]).stderr(Stdio::null()).status();
            let name = ways[first].0;
            assert_eq!(status.expect("it runs").success(), right, "{name}, {right}");
        }
    }
}

#[test]
fn what_is_relative_holds_in_any_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let token = "a token, and long enough";
    std::fs::write(folder.path().join("token"), token).expect("a file");
    let file = folder.path().join("token").display().to_string();
    let server = Options::default().arg("--token-file", &file).start();
    let list = format!(
        "[[server]]\naddress = \"{}\"\ntoken = \"{token}\"\n",
        server.address
    );
    std::fs::write(folder.path().join("list.toml"), list).expect("a file");
    let program = format!("cd / && exec {PROGRAM} work 1");
    for (name, value) in [
        ("BUSBAR_TOKEN_FILE", "token"),
        ("BUSBAR_CONFIG", "list.toml"),
    ] {
        let mut c = run(&server.address, &["--", "sh", "-c", &program]);
        c.current_dir(&folder).env(name, value);
        c.env("BUSBAR_LOG", "debug:log");
        printed(&mut c);
    }
    let log = std::fs::read_to_string(folder.path().join("log"));
    assert!(!log.expect("a log").is_empty());
    let mut c = run(&server.address, &["--token-file", "token", "--"]);
    printed(c.args(["sh", "-c", &program]).current_dir(&folder));
}

#[test]
fn a_shell_finds_busbar() {
    let server = Server::start();
    let finds = |path: &str| {
        let mut c = run(
            &server.address,
            &["--", "/bin/sh", "-c", "command -v busbar"],
        );
        printed(c.env("PATH", path)).trim().to_string()
    };
    let real = |p: &Path| p.canonicalize().expect("it is there");
    let found = finds("/usr/bin:/bin");
    assert_eq!(real(Path::new(&found)), real(&tree().busbar));
    // Another one that the user has put there stays the user's.
    let folder = tempfile::tempdir().expect("a folder");
    let other = elf(folder.path(), "busbar", 2, "");
    let path = format!("/usr/bin:{}", folder.path().display());
    assert_eq!(finds(&path), other.display().to_string());
}

#[test]
fn no_gpu_or_none_that_is_free() {
    let none = Options::default().env("FAKEDEV_DEVICES", "0").try_start();
    let log = none
        .err()
        .expect("a server without accelerators does not start");
    assert!(
        log.contains("busbar: no accelerator to offer (cuda: "),
        "{log}"
    );
    assert!(log.contains("--wait-for-devices"), "{log}");
    let server = Options::default().env("FAKEDEV_DEVICES", "2").start();
    let wish = ["--gpus", "3", "--", "true"];
    fails(
        &mut run(&server.address, &wish),
        125,
        &["3 GPUs wanted", "has 2", "fewer"],
    );
    let mut holder = run(&server.address, &["--gpus", "2", "--", "cat"]);
    let mut holder = Running::start(&mut holder);
    busbar_e2e::until("the lease", || {
        let leases = server.status()["leases"].as_array().map_or(0, Vec::len);
        (leases == 1).then_some(())
    });
    let wish = ["--gpus", "1", "--", "true"];
    fails(
        &mut run(&server.address, &wish),
        125,
        &["1 wanted, 0 free", "held by"],
    );
    fails(
        &mut run(&server.address, &["--", "true"]),
        125,
        &["every accelerator", "is leased, to", "(cat)"],
    );
    holder.go_on();
    assert!(holder.wait().success());
}

#[test]
fn what_servers_have_is_shown_again_and_again() {
    let server = Server::start();
    let mut c = Command::new(&tree().busbar);
    clear(&mut c);
    c.args(["devices", "--watch", "0.1", "--server", &server.address]);
    let mut watch = Running::start(&mut c);
    for _ in 0..3 {
        watch.line_with("SERVER");
        let line = watch.line_with(&server.address);
        assert!(!line.contains('\x1b'), "no terminal, no colours: {line}");
    }
    drop(watch);
    let out = Command::new(&tree().busbar)
        .args(["ps", "--watch", "0"])
        .output()
        .expect("it runs");
    assert_eq!(out.status.code(), Some(125));
}

#[test]
fn a_terminal_is_told_what_is_waited_for() {
    use std::os::fd::{FromRawFd, OwnedFd};
    // It takes the hello and says nothing: that is waited for some seconds.
    let silent = somebody(|_| None);
    let (mut ours, mut theirs) = (0, 0);
    let none = std::ptr::null_mut();
    // SAFETY: room for two descriptors, and nothing else is asked for.
    let (mut ours, theirs) = unsafe {
        let rc = libc::openpty(&mut ours, &mut theirs, none, none.cast(), none.cast());
        assert_eq!(rc, 0);
        (
            std::fs::File::from_raw_fd(ours),
            OwnedFd::from_raw_fd(theirs),
        )
    };
    let mut c = run(&silent, &["--", "true"]);
    let mut child = c
        .stdin(Stdio::null())
        .stderr(theirs)
        .spawn()
        .expect("it runs");
    // The command has the terminal, too, until it goes.
    drop(c);
    let (mut said, mut bytes) = (String::new(), [0; 4096]);
    // At the end of a terminal there is an error.
    while let Ok(n @ 1..) = ours.read(&mut bytes) {
        said += &String::from_utf8_lossy(&bytes[..n]);
    }
    assert_eq!(child.wait().expect("it ends").code(), Some(125), "{said}");
    let waits = format!("busbar: waiting for {silent} (");
    let (_, rest) = said.split_once(&waits).unwrap_or_else(|| panic!("{said}"));
    // And that it was taken away before the last word.
    let (_, last) = rest.rsplit_once("\r\x1b[K").expect("it is taken away");
    assert!(last.starts_with("busbar: cannot "), "{said}");
}

/// A server that waits for devices, and the lines that it prints.
fn waiting(library: &Path) -> (std::process::Child, impl FnMut() -> String) {
    let mut c = Command::new(&tree().busbar);
    clear(&mut c);
    c.args([
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--api",
        "cuda",
        "--wait-for-devices",
    ]);
    c.args(["--isolation", "off", "--cuda-library"])
        .arg(library);
    c.stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut server = c
        .env("HOME", library.parent().expect("a folder"))
        .spawn()
        .expect("it starts");
    let out = server.stdout.take().expect("a pipe");
    let mut lines = std::io::BufReader::new(out).lines();
    (server, move || {
        lines.next().and_then(Result::ok).unwrap_or_default()
    })
}

fn signal(server: &std::process::Child, signal: i32) {
    // SAFETY: a plain system call; it is our child.
    assert_eq!(unsafe { libc::kill(server.id() as i32, signal) }, 0);
}

#[test]
fn a_server_waits_for_devices_if_it_is_told_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let library = folder.path().join("libcuda.so.1");
    // What is there cannot be loaded yet.
    std::fs::write(&library, "").expect("a file");
    let (mut ends, mut line) = waiting(&library);
    let said = line();
    assert!(
        said.contains("no accelerator to offer") && said.contains("waiting"),
        "{said}"
    );
    signal(&ends, libc::SIGINT);
    assert!(ends.wait().expect("it ends").success());
    let (mut server, mut line) = waiting(&library);
    line();
    let new = folder.path().join("new");
    std::fs::copy(tree().fakedev_library(), &new).expect("a copy");
    std::fs::rename(&new, &library).expect("it is there at once");
    let said = line();
    let address = said.strip_prefix("busbar: listening on ");
    let address = address.unwrap_or_else(|| panic!("{said}"));
    let _isolation = line();
    let said = line();
    assert_eq!(
        said,
        format!("busbar: use it with: busbar run --server {address} -- PROGRAM")
    );
    printed(&mut run(address, &["--", PROGRAM, "work", "1"]));
    // It goes on for as long as its session.
    let mut client = run(address, &["--", PROGRAM, "hold", "1"]);
    let mut client = Running::start(&mut client);
    client.line_with("holding");
    signal(&server, libc::SIGINT);
    let said = line();
    assert!(said.contains("1 session may go on for 5 minutes"), "{said}");
    fails(
        &mut run(address, &["--gpus", "1", "--", "true"]),
        125,
        &["being shut down"],
    );
    client.goes_on_holding();
    assert_eq!(line(), "busbar: good-bye");
    assert!(server.wait().expect("it ends").success());
}

#[test]
fn one_server_of_several_that_is_down_is_a_failure_and_hides_no_other() {
    let server = Server::start();
    let nobody = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr());
    let nobody = nobody.expect("a free port").to_string();
    let both = format!("{nobody},{}", server.address);
    for (args, shows) in [
        (&["devices"][..], &server.address),
        (&["devices", "--json"], &server.address),
        (&["ps"], &"SESSION".into()),
    ] {
        let mut c = Command::new(&tree().busbar);
        clear(&mut c);
        let out = c
            .args(args)
            .args(["--server", &both])
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&out.stdout);
        let error = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(125), "{args:?}");
        assert!(said.contains(shows), "{args:?}: {said}");
        assert!(
            error.contains(&nobody) && error.lines().count() == 1,
            "{error}"
        );
    }
}

#[test]
fn programs_that_follow_each_other_at_once_find_their_devices_free() {
    let server = Options::default().env("FAKEDEV_DEVICES", "2").start();
    for _ in 0..3 {
        for share in [&["--"][..], &["--gpus", "2", "--"]] {
            let args = [share, &[PROGRAM, "work", "1"]].concat();
            let out = run(&server.address, &args).output().expect("it runs");
            let said = String::from_utf8_lossy(&out.stderr);
            assert!(out.status.success(), "{args:?}: {said}");
        }
    }
}

#[test]
fn devices_that_are_not_offered_are_not_listed() {
    let three = Options::default().env("FAKEDEV_DEVICES", "3");
    let server = three.arg("--devices", "1,2").start();
    let status = server.status();
    let listed = status["devices"].as_array().expect("a list").iter();
    let listed: Vec<_> = listed.map(|d| d["ordinal"].as_u64()).collect();
    assert_eq!(listed, [Some(1), Some(2)], "{status}");
}

/// A file with a head as the kernel knows programs.
fn elf(folder: &Path, name: &str, class: u8, interpreter: &str) -> PathBuf {
    let mut b = vec![0u8; 512];
    b[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, 1, 1]);
    b[16] = 2;
    b[18] = if class == 1 { 3 } else { 62 };
    // One program header, behind the file's: where the interpreter's name is.
    (b[32], b[54], b[56]) = (64, 56, 1);
    b[64] = if interpreter.is_empty() { 1 } else { 3 };
    b[72] = 128;
    b[96] = interpreter.len() as u8 + 1;
    b[128..128 + interpreter.len()].copy_from_slice(interpreter.as_bytes());
    let p = folder.join(name);
    std::fs::write(&p, b).expect("a file");
    std::fs::set_permissions(&p, std::fs::Permissions::from_mode(0o755)).expect("its mode");
    p
}

#[test]
fn a_program_that_cannot_be_run() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let at = |p: &Path| p.display().to_string();
    let check = |program: &str, status: i32, words: &[&str]| {
        fails(&mut run(&server.address, &["--", program]), status, words);
    };
    check("no-such-program", 127, &["no-such-program", "installed"]);
    check("./no/such/program", 127, &["./no/such/program"]);
    check(&at(folder.path()), 126, &["may be run"]);
    let text = folder.path().join("text");
    std::fs::write(&text, "echo\n").expect("a file");
    check(&at(&text), 126, &["chmod +x"]);
    check(&at(&elf(folder.path(), "old", 1, "")), 126, &["32-bit"]);
    let musl = elf(folder.path(), "musl", 2, "/lib/ld-musl-x86_64.so.1");
    check(&at(&musl), 126, &["musl", "glibc"]);
    // What a script is run with counts.
    let script = folder.path().join("script");
    std::fs::write(&script, format!("#!{}\n", at(&musl))).expect("a file");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("its mode");
    check(&at(&script), 126, &["musl", "glibc"]);
}

#[test]
fn a_tree_without_its_shim() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let mut c = run(&server.address, &["--", "true"]);
    c.env("BUSBAR_LIB_DIR", folder.path());
    fails(
        &mut c,
        125,
        &["libcuda.so.1 is missing", "cargo xtask dist"],
    );
}

#[test]
fn one_device_has_collectives_only_if_they_are_asked_for() {
    let server = Server::start();
    let preloaded = |args: &[&str]| {
        let all = [args, &["--", "sh", "-c", "echo :$LD_PRELOAD:"]].concat();
        let mut c = run(&server.address, &all);
        printed(c.env("LD_PRELOAD", "").env("BUSBAR_CUPTI", "0"))
    };
    for args in [&[][..], &["--nccl=off"]] {
        assert_eq!(preloaded(args), "::\n");
    }
    let text = preloaded(&["--nccl"]);
    assert!(text.ends_with("/nccl/libnccl.so.2:\n"), "{text}");
}

#[test]
fn what_the_program_says_at_its_end_is_what_busbar_says() {
    let server = Server::start();
    for args in [&["--"][..], &["--gpus", "1", "--"]] {
        let args = [args, &["sh", "-c", "exit 42"]].concat();
        let status = run(&server.address, &args).status().expect("it runs");
        assert_eq!(status.code(), Some(42));
    }
}

#[test]
fn a_cache_that_cannot_be_written_to() {
    // Not even root can make a folder there.
    let server = Options::default()
        .arg("--cache-dir", "/proc/no/cache")
        .start();
    let log = server.log();
    assert!(log.contains("the cache cannot be written to"), "{log}");
    let out = run(&server.address, &["--", "true"]).status();
    assert!(out.expect("it runs").success());
}
