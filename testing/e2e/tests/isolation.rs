//! What a worker has given up, and what its server does not let near it.

use busbar_e2e::program::{Running, native, printed, remote};
use busbar_e2e::server::{Options, Server};
use busbar_e2e::tree::tree;
use std::path::Path;

const PROGRAM: &str = env!("CARGO_BIN_EXE_driver_program");

fn program() -> &'static Path {
    Path::new(PROGRAM)
}

/// The worker of the one session.
fn worker(server: &Server) -> u64 {
    server.wait_for_sessions(1)[0]["worker_pid"]
        .as_u64()
        .expect("a session has a worker")
}

fn proc_file(pid: u64, name: &str) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/{name}")).expect("the worker lives")
}

fn field<'a>(text: &'a str, name: &str) -> &'a str {
    let line = text.lines().find_map(|l| l.strip_prefix(name));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).trim()
}

fn is_root() -> bool {
    // SAFETY: no preconditions.
    unsafe { libc::geteuid() == 0 }
}

#[test]
fn a_worker_loads_no_driver_of_an_api_that_its_server_does_not_offer() {
    let folder = tempfile::tempdir().expect("a folder");
    let library = folder.path().join("of-the-other-api.so");
    // Any library, of a name that nothing else has; once loaded, this one stays.
    std::fs::copy(tree().fakedev_library(), &library).expect("a copy");
    for (apis, loads) in [("cuda", false), ("cuda,opencl", true)] {
        let path = library.to_str().expect("a path");
        let options = Options::default().arg("--api", apis);
        let server = options.arg("--opencl-library", path).start();
        let mut client = Running::start(remote(&server, program()).args(["hold", "1"]));
        client.line_with("holding");
        let maps = proc_file(worker(&server), "maps");
        assert_eq!(maps.contains("of-the-other-api"), loads, "--api {apis}");
        client.goes_on_holding();
    }
}

#[test]
fn a_worker_has_given_up_what_it_does_not_need() {
    // A descriptor that the server inherits, as from a careless shell.
    let secret = tempfile::NamedTempFile::new().expect("a file");
    let path = secret.path().to_str().expect("a path").to_string();
    let c = std::ffi::CString::new(path.clone()).expect("no NUL");
    // SAFETY: a C string; the descriptor stays open on purpose, and is inherited by children.
    let fd = unsafe { libc::open(c.as_ptr(), libc::O_RDONLY) };
    assert!(fd > 2);
    let server = Server::start();
    // SAFETY: it was opened above.
    unsafe { libc::close(fd) };
    let mut client = Running::start(remote(&server, program()).args(["hold", "1"]));
    client.line_with("holding");
    let w = worker(&server);
    let status = proc_file(w, "status");
    assert_eq!(field(&status, "NoNewPrivs:"), "1");
    assert_eq!(field(&status, "Umask:"), "0077");
    let limits = proc_file(w, "limits");
    assert!(field(&limits, "Max core file size").starts_with("0 "));
    let fds = std::fs::read_dir(format!("/proc/{w}/fd")).expect("the worker lives");
    for f in fds.flatten() {
        let to = std::fs::read_link(f.path()).unwrap_or_default();
        assert_ne!(to.to_str(), Some(path.as_str()), "the worker has the file");
    }
    let has = std::fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("it lives");
    let has = has
        .flatten()
        .filter_map(|f| std::fs::read_link(f.path()).ok());
    assert!(
        has.into_iter().any(|f| f.to_str() == Some(path.as_str())),
        "the server itself does have it"
    );
    assert!(client.finish().1.success());
}

#[test]
fn a_sandboxed_worker_does_its_work() {
    let mut o = Options::default();
    o.args.push("--sandbox".into());
    let server = o.start();
    let args = ["random", "4", "100"];
    assert_eq!(
        printed(remote(&server, program()).args(args)),
        printed(native(program()).args(args))
    );
}

#[test]
fn workers_run_as_the_user_they_are_told_to() {
    let wanted = Options::default().arg("--worker-user", "nobody");
    if !is_root() {
        return;
    }
    // Somewhere that user can get at the binaries.
    let folder = tempfile::Builder::new()
        .prefix("busbar-user")
        .tempdir()
        .expect("a folder");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), mode).expect("it is ours");
    let library = folder.path().join("libcuda.so.1");
    std::fs::copy(tree().fakedev_library(), &library).expect("room");
    let cache = folder.path().join("cache");
    let server = wanted
        .arg("--cuda-library", library.to_str().expect("a path"))
        .arg("--cache-dir", cache.to_str().expect("a path"))
        .start();
    let mut client = Running::start(remote(&server, program()).args(["hold", "1"]));
    client.line_with("holding");
    let status = proc_file(worker(&server), "status");
    let ids: Vec<_> = field(&status, "Uid:").split_whitespace().collect();
    assert!(ids.iter().all(|id| *id == ids[0] && *id != "0"), "{ids:?}");
    assert_eq!(field(&status, "CapEff:"), "0000000000000000");
    assert!(client.finish().1.success());
    let args = ["random", "4", "100"];
    printed(remote(&server, program()).args(args));
    let kept = std::fs::read_dir(&cache).expect("it was made").count();
    assert!(kept > 0, "the store is in use");
}
