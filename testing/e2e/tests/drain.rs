//! The end of a server, and what it tells whom.

use busbar_e2e::program::{Running, clear, finished, printed, remote};
use busbar_e2e::server::{Options, Server};
use busbar_e2e::tree::tree;
use busbar_e2e::{proc, until};
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_driver_program");

fn program() -> &'static Path {
    Path::new(PROGRAM)
}

fn hold(server: &Server, log: &Path) -> Running {
    let mut c = remote(server, program());
    c.args(["hold", "1"]);
    c.env("BUSBAR_LOG", format!("warn:{}", log.display()));
    let mut client = Running::start(&mut c);
    client.line_with("holding");
    client
}

fn end(server: &Server) -> proc::Watched {
    let watched = proc::Watched::new(server.pid()).expect("it lives");
    proc::signal(server.pid(), libc::SIGTERM);
    until("a server that takes nothing new", || {
        server.log().contains("nothing new is taken").then_some(())
    });
    watched
}

#[test]
fn a_server_that_is_told_to_end_takes_nothing_new_and_waits_for_what_it_has() {
    let server = Server::start();
    let log = server.path("client");
    let client = hold(&server, &log);
    let watched = end(&server);
    // Whoever has a session hears of it; whoever comes is told.
    until("the sentence", || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        text.contains("this session may go on for 5 minutes")
            .then_some(())
    });
    let mut c = remote(&server, program());
    let out = finished(c.args(["hold", "1"]).env("BUSBAR_LOG", "error"));
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(
        !out.status.success() && said.contains("is being shut down"),
        "{said}"
    );
    let mut lease = Command::new(&tree().busbar);
    clear(&mut lease);
    lease.args([
        "run",
        "--server",
        &server.address,
        "--gpus",
        "1",
        "--",
        "true",
    ]);
    let said = finished(&mut lease);
    assert!(!said.status.success());
    assert_eq!(server.sessions().len(), 1, "who it has it still says");
    assert!(!watched.ends_within(Duration::ZERO));
    client.goes_on_holding();
    assert!(
        watched.ends_within(Duration::from_secs(60)),
        "the last one has gone"
    );
}

#[test]
fn a_session_that_does_not_end_is_ended_and_told_why() {
    let server = Options::default().arg("--drain", "1s").start();
    let log = server.path("client");
    let client = hold(&server, &log);
    let watched = end(&server);
    assert!(watched.ends_within(Duration::from_secs(60)));
    let (rest, _) = client.finish();
    assert!(!rest.starts_with("after 0"), "{rest}");
    let text = std::fs::read_to_string(&log).unwrap_or_default();
    let why = "the server was shut down, 1 second after it had said so";
    assert!(text.contains(why), "{text}");
    assert!(server.log().contains(why), "{}", server.log());
}

#[test]
fn the_second_time_it_ends_at_once_and_says_so() {
    let server = Server::start();
    let log = server.path("client");
    let client = hold(&server, &log);
    let watched = end(&server);
    proc::signal(server.pid(), libc::SIGTERM);
    assert!(watched.ends_within(Duration::from_secs(60)));
    let (rest, _) = client.finish();
    assert!(!rest.starts_with("after 0"), "{rest}");
    let text = std::fs::read_to_string(&log).unwrap_or_default();
    assert!(text.contains("told to end at once"), "{text}");
}

/// The service manager's side: it listens, and is told.
#[test]
fn a_service_manager_is_told_and_gives_its_socket() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path().join("notify");
    let manager = UnixDatagram::bind(&at).expect("a socket");
    let limit = Some(Duration::from_secs(60));
    manager.set_read_timeout(limit).expect("a socket of ours");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it has one").to_string();
    let fd = listener.as_raw_fd();
    let policy = folder.path().join("policy");
    std::fs::write(&policy, "").expect("a file");
    let mut c = Command::new("sh");
    clear(&mut c);
    c.args(["-c", "LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" \"$@\""])
        .arg(&tree().busbar)
        .args([
            "serve",
            "--listen",
            "127.0.0.1:1",
            "--api",
            "cuda",
            "--policy",
        ])
        .arg(&policy)
        .arg("--cuda-library")
        .arg(tree().fakedev_library())
        .arg("--cache-dir")
        .arg(folder.path().join("cache"))
        .env("NOTIFY_SOCKET", &at)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // SAFETY: system calls alone between fork and exec.
    unsafe {
        c.pre_exec(move || match libc::dup2(fd, 3) {
            3 => {
                libc::fcntl(3, libc::F_SETFD, 0);
                Ok(())
            }
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    let mut server = c.spawn().expect("it starts");
    let heard = || {
        let mut text = [0; 512];
        let n = manager.recv(&mut text).expect("it says something");
        String::from_utf8_lossy(&text[..n]).into_owned()
    };
    assert_eq!(heard(), "READY=1");
    drop(listener);
    let c = &mut busbar_e2e::program::remote_at(&address, program());
    printed(c.args(["random", "4", "10"]));
    proc::signal(server.id(), libc::SIGHUP);
    let reloading = heard();
    assert!(
        reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="),
        "{reloading}"
    );
    assert_eq!(heard(), "READY=1");
    proc::signal(server.id(), libc::SIGTERM);
    assert_eq!(heard(), "STOPPING=1");
    assert_eq!(server.wait().expect("it ends").code(), Some(0));
}
