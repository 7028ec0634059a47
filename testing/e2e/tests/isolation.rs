//! What a worker has given up, and what its server does not let near it.

use busbar_e2e::guarded::Guarded;
use busbar_e2e::program::{Running, native, printed, remote};
use busbar_e2e::server::{Options, Server};
use busbar_e2e::tree::over_verbs;
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
fn a_program_tells_its_servers_driver_what_it_would_tell_its_own() {
    let server = Server::start();
    let told = |name: &str, value: &str| -> bool {
        let mut c = remote(&server, program());
        let mut client = Running::start(c.args(["hold", "1"]).env(name, value));
        client.line_with("holding");
        let has = proc_file(worker(&server), "environ").contains(&format!("{name}={value}\0"));
        client.goes_on_holding();
        server.wait_for_sessions(0);
        has
    };
    assert!(told("CUDA_DEVICE_MAX_CONNECTIONS", "1"));
    // Nor does the next one have it.
    assert!(!told("CUDA_CACHE_PATH", "/tmp"));
    let mut next = Running::start(remote(&server, program()).args(["hold", "1"]));
    next.line_with("holding");
    let environment = proc_file(worker(&server), "environ");
    assert!(!environment.contains("CUDA_DEVICE_MAX"), "{environment}");
    next.goes_on_holding();
    server.wait_for_sessions(0);
    assert!(!told("CUDA_DEVICE_MAX_CONNECTIONS", "1/2"));
    assert!(!told("LD_PRELOAD_", "1"));
}

#[test]
fn what_the_driver_has_compiled_is_there_for_the_tenants_next_session_and_for_no_other_ones() {
    let g = Guarded::start_with(|o, folder| {
        let cache = folder.join("cache").display().to_string();
        o.arg("--isolation", "best").arg("--cache-dir", &cache)
    });
    let program = env!("CARGO_BIN_EXE_semantics_program");
    let (compiled, found) = ("compiled\ncompiled\n", "found\nfound\n");
    for (name, tenant, said) in [
        ("ann", "lab", compiled),
        ("ben", "lab", found),
        ("cid", "fab", compiled),
        ("dan", "fab", found),
    ] {
        g.login(&g.line(name, &["--tenant", tenant]));
        assert_eq!(printed(&mut g.run(program, &["compiles"])), said, "{name}");
        g.wait_for_sessions(0);
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

/// What a server says that it has of isolation, and of the parts that a test is about those that
/// this machine lacks.
fn lacks(server: &Server, wanted: &[&str]) -> bool {
    let log = server.log();
    let line = log.lines().find_map(|l| l.split_once("isolation best: "));
    let (_, line) = line.unwrap_or_else(|| panic!("it says nothing of isolation: {log}"));
    let has = line.split("; missing").next().unwrap_or_default();
    let has: Vec<_> = has.split(", ").map(str::trim).collect();
    let missing: Vec<_> = wanted.iter().filter(|w| !has.contains(w)).collect();
    if !missing.is_empty() {
        eprintln!("not tested: this machine has no {missing:?}: {line}");
    }
    !missing.is_empty()
}

fn namespace(pid: u64, name: &str) -> String {
    let link = std::fs::read_link(format!("/proc/{pid}/ns/{name}")).expect("it lives");
    link.display().to_string()
}

/// The user of a process.
fn user(pid: u64) -> u32 {
    let status = proc_file(pid, "status");
    let ids: Vec<_> = field(&status, "Uid:").split_whitespace().collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    ids[0].parse().expect("a number")
}

#[test]
fn a_worker_has_nothing_of_the_machine_but_what_its_driver_needs() {
    let server = Server::start();
    let mut client = Running::start(remote(&server, program()).args(["hold", "1"]));
    client.line_with("holding");
    let (w, of_server) = (worker(&server), u64::from(server.pid()));
    let status = proc_file(w, "status");
    assert_eq!(field(&status, "CapEff:"), "0000000000000000");
    assert_eq!(field(&status, "CapPrm:"), "0000000000000000");
    assert_eq!(field(&status, "NoNewPrivs:"), "1");
    if !lacks(&server, &["users"]) {
        assert!((2_000_000_000..=2_000_065_535).contains(&user(w)));
        assert_eq!(field(&status, "CapBnd:"), "0000000000000000");
    }
    if !lacks(&server, &["system calls"]) {
        assert_eq!(field(&status, "Seccomp:"), "2");
    }
    for (part, name) in [("processes", "pid"), ("ipc", "ipc"), ("network", "net")] {
        if !lacks(&server, &[part]) {
            assert_ne!(namespace(w, name), namespace(of_server, name), "{part}");
        }
    }
    if is_root() && !lacks(&server, &["folders"]) {
        let root = Path::new("/proc").join(w.to_string()).join("root");
        let names = |at: &str| -> Vec<String> {
            let all = std::fs::read_dir(root.join(at)).expect("a folder");
            all.flatten()
                .map(|f| f.file_name().to_string_lossy().into_owned())
                .collect()
        };
        for hidden in ["home", "root", "mnt", "srv", "boot", "media"] {
            assert!(!names("").contains(&hidden.into()), "{:?}", names(""));
        }
        assert!(
            !root
                .join(server.path("log").strip_prefix("/").unwrap())
                .exists()
        );
        let devices = names("dev");
        let known = [
            "null", "zero", "full", "random", "urandom", "shm", "fd", "dri", "kfd",
        ];
        // An adapter's files are there where sessions move to it.
        let is_known = |d: &str| known.contains(&d) || over_verbs() && d == "infiniband";
        let odd = |d: &&String| !is_known(d) && !d.starts_with("nvidia");
        assert_eq!(devices.iter().find(odd), None, "{devices:?}");
        assert!(
            std::fs::write(root.join("usr/busbar"), "x").is_err(),
            "read only"
        );
    }
    if is_root() && !lacks(&server, &["limits"]) {
        let groups = proc_file(w, "cgroup");
        let own = |g: &str| g.contains("busbar-") && g.contains(&format!("-{of_server}-"));
        assert!(own(&groups), "{groups}");
        assert_eq!(proc_file(w, "oom_score_adj").trim(), "500");
    }
    client.goes_on_holding();
    let args = ["random", "4", "100"];
    assert_eq!(
        printed(remote(&server, program()).args(args)),
        printed(native(program()).args(args))
    );
}

#[test]
fn tenants_share_no_user_and_no_namespace_and_one_tenants_programs_do() {
    let guarded = Guarded::start();
    let mut held = Vec::new();
    for (name, tenant) in [
        ("ann", "lab"),
        ("ann2", "lab"),
        ("eve", "other"),
        ("ann", ""),
    ] {
        if !tenant.is_empty() {
            let line = guarded.line(name, &["--tenant", tenant]);
            std::fs::write(guarded.path(name), line.line()).expect("a file");
        }
        let line = std::fs::read_to_string(guarded.path(name)).expect("a line");
        guarded.login(&line.parse().expect("it is one"));
        let mut client = Running::start(&mut guarded.run(PROGRAM, &["hold", "1"]));
        client.line_with("holding");
        held.push(client);
    }
    let admin = guarded.line("root", &["--admin"]);
    guarded.login(&admin);
    let sessions = guarded.wait_for_sessions(4);
    let of = |token: &str| -> Vec<u64> {
        let theirs = sessions.iter().filter(|s| s["token"] == token);
        theirs.filter_map(|s| s["worker_pid"].as_u64()).collect()
    };
    let (ann, ann2, eve) = (of("ann"), of("ann2"), of("eve"));
    assert_eq!(
        (ann.len(), ann2.len(), eve.len()),
        (2, 1, 1),
        "{sessions:?}"
    );
    let server = &guarded.server;
    if !lacks(server, &["users"]) {
        assert_eq!(user(ann[0]), user(ann[1]));
        assert!(user(ann[0]) != user(eve[0]) && user(ann[0]) != user(ann2[0]));
    }
    for (part, name) in [("processes", "pid"), ("ipc", "ipc"), ("network", "net")] {
        if !lacks(server, &[part]) {
            assert_eq!(namespace(ann[0], name), namespace(ann[1], name), "{part}");
            assert_ne!(namespace(ann[0], name), namespace(eve[0], name), "{part}");
            assert_ne!(namespace(ann[0], name), namespace(ann2[0], name), "{part}");
        }
    }
    if !lacks(server, &["folders"]) {
        assert_ne!(namespace(ann[0], "mnt"), namespace(ann[1], "mnt"));
    }
    held.into_iter().for_each(Running::goes_on_holding);
    // With the last session its cell goes, and all that is in it.
    guarded.wait_for_sessions(0);
    assert!(!std::path::Path::new(&format!("/proc/{}", eve[0])).exists());
}

/// What a server says of its isolation that a user runs who is not root, started through `prefix`;
/// after a program has run through it.
fn said_to_a_user(prefix: &[&str]) -> String {
    let folder = tempfile::Builder::new()
        .prefix("busbar-user")
        .tempdir()
        .expect("a folder");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(folder.path(), mode).expect("it is ours");
    let busbar = folder.path().join("busbar");
    std::fs::copy(&tree().busbar, &busbar).expect("room");
    let library = folder.path().join("libcuda.so.1");
    std::fs::copy(tree().fakedev_library(), &library).expect("room");
    let mut c = std::process::Command::new("setpriv");
    busbar_e2e::program::clear(&mut c);
    c.args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .args(prefix)
        .arg(&busbar)
        .args(["serve", "--listen", "127.0.0.1:0", "--api", "cuda"])
        .arg("--cuda-library")
        .arg(&library)
        .arg("--cache-dir")
        .arg(folder.path().join("cache"))
        .current_dir("/")
        .stdin(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    let mut server = Running::start(&mut c);
    let address = server.line_with("busbar: listening on ");
    let address = address.split(' ').next_back().expect("an address");
    let said = server.line();
    let args = ["random", "4", "100"];
    let got = printed(busbar_e2e::program::remote_at(address, program()).args(args));
    server.kill();
    assert_eq!(got, printed(native(program()).args(args)));
    said
}

#[test]
fn a_server_that_is_not_root_isolates_with_what_it_may() {
    if !is_root() {
        return;
    }
    let said = said_to_a_user(&[]);
    assert!(
        said.contains("isolation best") && said.contains("missing: "),
        "{said}"
    );
    assert!(said.contains("the server is not root"), "{said}");
}

#[test]
fn a_server_with_the_capabilities_of_its_service_isolates_as_root_does() {
    if !is_root() {
        return;
    }
    // Those that packages give it.
    let service = include_str!("../../../packaging/files/busbar.service");
    let given = service
        .lines()
        .filter_map(|l| l.strip_prefix("AmbientCapabilities="));
    let list: Vec<_> = given
        .flat_map(|l| l.split(' '))
        .map(|c| c.replace("CAP_", "+").to_lowercase())
        .collect();
    assert!(!list.is_empty());
    let list = list.join(",");
    let args = [
        format!("--bounding-set=-all,{list}"),
        format!("--inh-caps={list}"),
        format!("--ambient-caps={list}"),
    ];
    let said = said_to_a_user(&args.each_ref().map(String::as_str));
    let parts = |said: &str| {
        let (has, _) = said.split_once("; missing").unwrap_or((said, ""));
        let has = has.rsplit(": ").next().unwrap_or_default();
        // Control groups are given to the user by the service manager.
        let parts = has.split(", ").filter(|p| *p != "limits");
        parts.map(String::from).collect::<Vec<_>>()
    };
    let root = Server::start();
    let line = root.log();
    let line = line.lines().find(|l| l.contains("isolation best"));
    assert_eq!(parts(&said), parts(line.expect("it says so")));
}

#[test]
fn off_is_off() {
    let server = Options::default().arg("--isolation", "off").start();
    let mut client = Running::start(remote(&server, program()).args(["hold", "1"]));
    client.line_with("holding");
    let w = worker(&server);
    for name in ["pid", "ipc", "net", "mnt"] {
        assert_eq!(namespace(w, name), namespace(server.pid().into(), name));
    }
    assert!(server.log().contains("isolation off"));
    client.goes_on_holding();
}

/// Takes a right away for good, from this process and what it starts.
fn without(right: i32) -> std::io::Result<()> {
    // SAFETY: a plain system call.
    match unsafe { libc::prctl(libc::PR_CAPBSET_DROP, right, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

#[test]
fn root_without_all_rights_isolates_with_those_it_has() {
    const SYS_ADMIN: i32 = 21;
    const SETUID: i32 = 7;
    if !is_root() {
        return;
    }
    for (right, missing) in [(SYS_ADMIN, "folders ("), (SETUID, "users (")] {
        let folder = tempfile::tempdir().expect("a folder");
        let library = folder.path().join("libcuda.so.1");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(folder.path(), mode).expect("it is ours");
        std::fs::copy(tree().fakedev_library(), &library).expect("room");
        let mut c = std::process::Command::new(&tree().busbar);
        busbar_e2e::program::clear(&mut c);
        c.args(["serve", "--listen", "127.0.0.1:0", "--api", "cuda"])
            .arg("--cuda-library")
            .arg(&library)
            .arg("--cache-dir")
            .arg(folder.path().join("cache"));
        // SAFETY: a system call alone between fork and exec.
        unsafe {
            std::os::unix::process::CommandExt::pre_exec(&mut c, move || without(right));
        }
        let mut server = Running::start(c.stderr(std::process::Stdio::null()));
        let address = server.line_with("busbar: listening on ");
        let address = address.split(' ').next_back().expect("an address");
        let said = server.line();
        let args = ["random", "4", "100"];
        let got = printed(busbar_e2e::program::remote_at(address, program()).args(args));
        assert_eq!(got, printed(native(program()).args(args)));
        let (has, lacks) = said
            .split_once("; missing: ")
            .expect("something is missing");
        assert!(lacks.contains(missing), "{said}");
        assert!(
            has.contains("landlock") || lacks.contains("landlock"),
            "{said}"
        );
        server.kill();
    }
}

#[test]
fn a_server_that_can_make_no_cell_says_so_and_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let library = folder.path().join("no_cell.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/no_cell.c");
    let mut cc = std::process::Command::new("cc");
    cc.args(["-shared", "-fPIC", "-o"]).arg(&library);
    assert!(cc.arg(source).status().expect("cc runs").success());
    let library = library.to_str().expect("a path");
    let said = Options::default().env("LD_PRELOAD", library).try_start();
    let said = said.err().expect("it does not start");
    assert!(said.contains("there is no isolation"), "{said}");
}
