//! Attacks that have succeeded once, by strangers and by clients with the token; each must fail.

use busbar_control::hello::{Hello, Intent, Job};
use busbar_control::text::is_plain;
use busbar_e2e::hostile::{
    Offer, Raw, Recording, Tap, frame_of, greet, read_frame, record_of, records,
};
use busbar_e2e::http::Caller;
use busbar_e2e::program::{LIMIT, clear, finished, printed};
use busbar_e2e::server::{Options, Server};
use busbar_e2e::tree::tree;
use busbar_e2e::{opencl, patient, proc, until};
use busbar_wire::Writer;
use busbar_wire::codec::Message;
use busbar_wire::frame::Kind;
use busbar_wire::generated::{cuda, opencl as wire};
use busbar_wire::record::Header;
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Plays a recorded session back, as a client that no library of ours holds back: what is said in
/// the place of each record `says` tells. Every call is waited for before what was added behind it
/// is sent; whether all were answered.
fn play(address: &str, r: &Recording, says: impl Fn(&Header, &[u8]) -> Vec<Vec<u8>>) -> bool {
    let (mut to, _) = greet(address, &r.hello).expect("the server takes it");
    let mut from = to.try_clone().expect("a copy");
    let _ = from.set_read_timeout(Some(patient(LIMIT)));
    let mut answered = move |call: u32| {
        while let Some((h, body)) = read_frame(&mut from) {
            let all = records(&[body]);
            if h.kind == Kind::Data && all.iter().any(|(r, _)| r.op == 1 && r.call == call) {
                return true;
            }
        }
        false
    };
    let mut seq = 0;
    for (h, payload) in records(&r.bodies) {
        for (i, record) in says(&h, &payload).into_iter().enumerate() {
            seq += 1;
            let _ = to.write_all(&frame_of(Kind::Data, seq, 0, &record));
            if i == 0 && h.call != 0 && !answered(h.call) {
                return false;
            }
        }
    }
    true
}

/// A record as it was.
fn as_it_was(h: &Header, payload: &[u8]) -> Vec<u8> {
    record_of(h.op, h.call, h.aux, payload)
}

/// What an honest client of OpenCL says in which a kernel of its source runs, recorded where its
/// build is of no use to anybody else.
fn honest(program: &Path) -> Recording {
    let elsewhere = opencl::Server::start();
    let tap = Tap::start(&elsewhere.address);
    opencl::run(opencl::remote(&tap.address, program).arg("build"));
    until("the end of what was recorded", || tap.recordings().pop())
}

#[test]
fn bytes_are_never_taken_for_an_object_that_a_kernel_works_on() {
    let program = opencl::compile("opencl_faults");
    let recording = honest(&program);
    let server = opencl::Server::start();
    // The address of a buffer of nobody's, as the bytes of an argument.
    let mut args = Vec::new();
    let mut w = Writer::new(&mut args);
    w.u32(0);
    w.u8(0);
    w.bytes(&0x4141_4141_4141_4141u64.to_le_bytes());
    let launched = Cell::new(0);
    let forge = |h: &Header, payload: &[u8]| {
        if h.op != wire::op::LAUNCH_KERNEL {
            return vec![as_it_was(h, payload)];
        }
        launched.set(launched.get() + 1);
        let m = wire::LaunchKernel::decode(&mut busbar_wire::Reader::new(payload));
        let mut forged = Vec::new();
        let m = wire::LaunchKernel {
            args: &args,
            ..m.expect("a launch")
        };
        m.encode(&mut Writer::new(&mut forged));
        vec![record_of(h.op, h.call, h.aux, &forged)]
    };
    assert!(
        play(&server.address, &recording, forge),
        "the worker went on"
    );
    assert_eq!(launched.get(), 1);
    // It is the argument alone that is refused.
    assert!(play(&server.address, &recording, |h, p| vec![as_it_was(
        h, p
    )]));
}

#[test]
fn a_tenants_build_is_never_kept_as_another_build() {
    let program = opencl::compile("opencl_faults");
    let wanted = opencl::text(&opencl::run(opencl::native(&program).arg("build")));
    assert!(wanted.contains("42"), "{wanted}");
    let recording = honest(&program);
    let attacks: [fn(u32) -> Vec<u8>; 2] = [
        // The same program once more, with other options.
        |program| {
            let mut payload = Vec::new();
            let options = "-DFACTOR=1000 -cl-kernel-arg-info";
            wire::BuildLoaded { program, options }.encode(&mut Writer::new(&mut payload));
            record_of(wire::op::BUILD_LOADED, 0, 0, &payload)
        },
        // The same while the next record already asks for what to keep.
        |program| {
            let mut payload = Vec::new();
            wire::CompileProgram {
                program,
                devices: vec![1],
                options: "-DFACTOR=1000 -cl-kernel-arg-info",
                headers: vec![],
                names: &[],
                files: 0,
            }
            .encode(&mut Writer::new(&mut payload));
            record_of(wire::op::COMPILE_PROGRAM, 900_000, 0, &payload)
        },
    ];
    for attack in attacks {
        let server = opencl::Server::start();
        play(&server.address, &recording, |h, payload| {
            let mut all = vec![as_it_was(h, payload)];
            if h.op == wire::op::BUILD_PROGRAM {
                let mut reader = busbar_wire::Reader::new(payload);
                all.push(attack(reader.u32().expect("it begins with the program")));
            }
            all
        });
        let got = opencl::run(server.command(&program).arg("build"));
        assert_eq!(opencl::text(&got), wanted);
    }
}

/// A hello of a stranger.
fn stranger(address: &str, body: &[u8]) -> Vec<u8> {
    let mut to = TcpStream::connect(address).expect("the server listens");
    let _ = to.set_read_timeout(Some(Duration::from_secs(20)));
    let _ = to.write_all(&frame_of(Kind::Hello, 0, 0, body));
    let mut back = Vec::new();
    let _ = to.read_to_end(&mut back);
    back
}

#[test]
fn strangers_cannot_fill_the_log() {
    let token = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(token.path(), "a-token-of-many-letters\n").expect("a token");
    let path = token.path().to_str().expect("a path");
    let server = Options::default().arg("--token-file", path).start();
    let before = server.log().len();
    let long = format!(r#"{{"intent":"{}\n2026 forged"}}"#, "A".repeat(60_000));
    for _ in 0..300 {
        let answer = stranger(&server.address, long.as_bytes());
        assert!(answer.len() < 1000, "{} bytes", answer.len());
    }
    let log = server.log();
    let more = log.len() - before;
    assert!(more < 30_000, "{more} bytes of log");
    assert!(!log.lines().any(|l| l.starts_with("2026 forged")));
    assert!(log.contains("makes no sense"), "the first ones are there");
}

/// How nice each thread of a process is that has this name.
fn niceness(pid: u32, name: &str) -> Vec<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    let of = |stat: String| {
        let (head, rest) = stat.rsplit_once(')')?;
        let named = head.split_once('(')?.1 == name;
        let nice = rest.split_whitespace().nth(16)?.parse().ok()?;
        named.then_some(nice)
    };
    let stats = tasks.filter_map(|t| std::fs::read_to_string(t.ok()?.path().join("stat")).ok());
    stats.filter_map(of).collect()
}

#[test]
fn who_takes_clients_in_goes_first_and_who_serves_them_does_not() {
    let server = Server::start();
    // SAFETY: no preconditions.
    let (usual, root) = unsafe { (libc::getpriority(0, 0), libc::geteuid() == 0) };
    // A hello that is long enough for a thread, and does not end.
    let mut to = TcpStream::connect(&server.address).expect("the server listens");
    let hello = frame_of(Kind::Hello, 0, 0, &[b' '; 60_000]);
    to.write_all(&hello[..30_000]).expect("it is taken");
    // It begins with the priority of the one that has started it, and gives that up first of all.
    until("a thread for it, which does not go first", || {
        Some(niceness(server.pid(), "hello")).filter(|all| *all == [usual])
    });
    let taking = if root { usual - 10 } else { usual };
    // A thread has the name of the one that has started it until it says its own.
    until(
        "who takes clients in to go first, alone of its name",
        || Some(niceness(server.pid(), "busbar")).filter(|all| *all == [taking]),
    );
}

#[test]
fn whole_names_of_leases_are_not_in_the_log() {
    let server = Server::start();
    let mut c = Command::new(&tree().busbar);
    clear(&mut c);
    let out = c
        .args(["run", "--server", &server.address, "--gpus", "1", "--"])
        .args(["sh", "-c", "echo $BUSBAR_LEASE"])
        .output()
        .expect("it runs");
    let lease = String::from_utf8_lossy(&out.stdout).trim().to_string();
    assert_eq!(lease.len(), 32, "{lease}");
    until("the end of the lease", || {
        server.log().contains("lease ended").then_some(())
    });
    let log = server.log();
    assert!(
        log.contains(&lease[..8]) && !log.contains(&lease[..16]),
        "{log}"
    );
}

fn is_root() -> bool {
    // SAFETY: no preconditions.
    unsafe { libc::geteuid() == 0 }
}

#[test]
fn a_root_server_keeps_its_cache_nowhere_where_others_can_write() {
    if !is_root() {
        return;
    }
    let home = tempfile::Builder::new()
        .prefix("busbar-links")
        .tempdir()
        .expect("a folder");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(home.path(), open).expect("it is ours");
    let start = |cache: &Path| {
        let path = cache.to_str().expect("a path");
        Options::default().arg("--cache-dir", path).try_start()
    };
    // Another user's folder, and a link that another user could have made.
    let theirs = home.path().join("theirs");
    std::fs::create_dir(&theirs).expect("a folder");
    std::os::unix::fs::chown(&theirs, Some(65534), None).expect("we are root");
    let log = start(&theirs).err().expect("it is refused");
    assert!(log.contains("others than root can write"), "{log}");
    let target = home.path().join("target");
    std::fs::create_dir(&target).expect("a folder");
    std::os::unix::fs::symlink(&target, theirs.join("cache")).expect("a link");
    let log = start(&theirs.join("cache")).err().expect("it is refused");
    assert!(
        log.contains("is a link that others could have made"),
        "{log}"
    );
    let inside = std::fs::read_dir(&target).expect("it is there").count();
    assert_eq!(inside, 0, "nothing was written there");
}

/// Whether a process of the same user without rights of its own can read a process's memory.
fn can_be_read(pid: u32, uid: u32) -> bool {
    let mut c = Command::new("head");
    c.args(["-c", "0", &format!("/proc/{pid}/environ")])
        .uid(uid);
    c.stderr(Stdio::null());
    c.status().expect("it runs").success()
}

#[test]
fn no_process_of_the_server_can_be_looked_into() {
    if !is_root() {
        return;
    }
    const NOBODY: u32 = 65534;
    let home = tempfile::Builder::new()
        .prefix("busbar-hard")
        .tempdir()
        .expect("a folder");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(home.path(), open).expect("it is ours");
    let copy = |from: &Path, name: &str| {
        let to = home.path().join(name);
        std::fs::copy(from, &to).expect("room");
        to
    };
    let busbar = copy(&tree().busbar, "busbar");
    let library = copy(&tree().fakedev_library(), "libcuda.so.1");
    let mut c = Command::new(busbar);
    clear(&mut c);
    c.args([
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--api",
        "cuda",
        "--cuda-library",
    ])
    .arg(library)
    .args(["--cache-dir", "/proc/no/cache"])
    .current_dir("/")
    .uid(NOBODY)
    .stdout(Stdio::piped())
    .stderr(Stdio::null());
    let mut server = c.spawn().expect("it starts");
    let mut line = [0; 64];
    let out = server.stdout.as_mut().expect("a pipe");
    let n = out.read(&mut line).expect("it says where it listens");
    assert!(n > 0);
    let mut plain = Command::new("sleep")
        .arg("100")
        .uid(NOBODY)
        .spawn()
        .expect("it starts");
    until("a process that can be looked into", || {
        can_be_read(plain.id(), NOBODY).then_some(())
    });
    // A spare worker, and the process that reads the GPUs.
    let children = until("what the server starts", || {
        let all = proc::children(server.id());
        (all.len() >= 2).then_some(all)
    });
    std::thread::sleep(Duration::from_millis(300));
    let readable: Vec<_> = std::iter::once(server.id())
        .chain(children)
        .filter(|pid| proc::alive(*pid) && can_be_read(*pid, NOBODY))
        .collect();
    for child in [&mut server, &mut plain] {
        let _ = child.kill();
        let _ = child.wait();
    }
    assert!(readable.is_empty(), "{readable:?}");
}

/// Makes the kernel deny Landlock, in this process and what it starts.
fn deny_landlock() -> std::io::Result<()> {
    let step = |code: u32, jt, jf, k| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let mut program = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            0,
            1,
            libc::SYS_landlock_create_ruleset as u32,
        ),
        step(
            libc::BPF_RET | libc::BPF_K,
            0,
            0,
            libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32,
        ),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let list = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: plain system calls; the filter is live.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            &raw const list,
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

#[test]
fn strict_isolation_is_whole_or_there_is_no_server() {
    let run = |args: &[&str]| {
        let mut c = Command::new(&tree().busbar);
        clear(&mut c);
        c.args(["serve", "--listen", "127.0.0.1:0", "--api", "cuda"]);
        c.arg("--cuda-library").arg(tree().fakedev_library());
        // SAFETY: system calls alone between fork and exec.
        unsafe { c.args(args).pre_exec(deny_landlock) };
        let c = c
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        c.spawn().expect("it starts")
    };
    let refused = run(&["--isolation", "strict"]);
    let out = refused.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(125), "{said}");
    let last = said.lines().last().unwrap_or_default();
    assert!(
        last.contains("--isolation strict takes") && last.contains("Landlock"),
        "{said}"
    );
    // The best that there is has the rest, and says what it has not.
    let mut best = run(&[]);
    let mut lines =
        std::io::BufRead::lines(std::io::BufReader::new(best.stdout.take().expect("a pipe")));
    let mut line = || lines.next().expect("it says so").expect("text");
    assert!(line().contains("listening"));
    let said = line();
    let _ = (best.kill(), best.wait());
    assert!(
        said.contains("missing: ") && said.contains("landlock (this kernel has no"),
        "{said}"
    );
}

#[test]
fn a_hello_without_a_token_gets_no_more_than_a_sentence() {
    let server = Server::start();
    let mut hello = Hello::new(Intent::Open);
    hello.api = "x".repeat(200);
    let body = serde_json::to_vec(&hello).expect("JSON");
    for _ in 0..200 {
        stranger(&server.address, &body);
    }
    assert!(server.log().len() < 30_000, "{}", server.log().len());
}

#[test]
fn opens_that_are_given_up_cost_nothing_and_keep_nobody_out() {
    let server = Server::start();
    let mut hello = Hello::new(Intent::Open);
    hello.api = "cuda".into();
    let said = |h: &Hello| serde_json::to_vec(h).expect("JSON");
    let open = frame_of(Kind::Hello, 0, 0, &said(&hello));
    for _ in 0..200 {
        let mut to = TcpStream::connect(&server.address).expect("the server listens");
        let _ = to.write_all(&open);
    }
    hello.intent = Intent::Resume;
    hello.session = "none".into();
    let answer = stranger(&server.address, &said(&hello));
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.contains("the session is over"), "{answer}");
    hello.intent = Intent::Open;
    let honest = greet(&server.address, &said(&hello));
    assert!(honest.is_some(), "it gets a session");
    // Some may have been given up only after their session had begun.
    let begun = server.log().matches("session opens").count();
    assert!(begun < 50, "{begun} sessions of clients that were gone");
}

/// A record says whose it is: of an API that the session does not have there are none.
#[test]
fn a_record_of_an_api_that_the_session_does_not_have_ends_it() {
    let server = Server::start();
    // Beside CUDA, there are collectives.
    for api in [2u16, 3, u16::MAX] {
        let mut hello = Hello::new(Intent::Open);
        hello.api = "cuda".into();
        let hello = serde_json::to_vec(&hello).expect("JSON");
        let (mut to, _) = greet(&server.address, &hello).expect("a welcome");
        let mut record = record_of(0x8001, 1, 0, &[]);
        record[6..8].copy_from_slice(&api.to_le_bytes());
        to.write_all(&frame_of(Kind::Data, 1, 0, &record))
            .expect("it is sent");
        until("the end of the session", || {
            let line = "the client broke the protocol: field holds no valid API of a record";
            Some(()).filter(|()| server.log().contains(line))
        });
        server.wait_for_sessions(0);
    }
}

#[test]
fn memory_is_handed_on_to_whoever_knows_its_secret_and_for_as_long_as_it_is_there() {
    const SIZE: u64 = 4 << 20;
    let server = Server::start();
    let (mut owner, mut other) = (Raw::open(&server.address), Raw::open(&server.address));
    assert_eq!(owner.create(1, SIZE), 0);
    let offer = owner.offer(1);
    assert_eq!(other.take(1, &offer), 0);
    for bit in [0, 77, 127] {
        let mut guess = Offer { ..offer };
        guess.secret[bit / 8] ^= 1 << (bit % 8);
        assert_ne!(other.take(2, &guess), 0, "bit {bit} of the secret");
    }
    // A worker of no such name.
    let mut nobody = Offer { ..offer };
    nobody.tag[0] ^= 1;
    assert_ne!(other.take(2, &nobody), 0);
    assert_eq!(other.take(3, &offer), 0);
    owner.give_up(1);
    assert_eq!(owner.create(2, SIZE), 0);
    assert_ne!(other.take(4, &offer), 0, "it was given up");
    let next = owner.offer(2);
    assert_ne!(next.secret, offer.secret);
    // The session goes on after all of it.
    assert_eq!(other.take(5, &next), 0);
}

/// A driver's name of an event is bytes that only the driver understands: none comes from a client.
#[test]
fn an_event_is_handed_on_by_its_secret_and_a_clients_bytes_are_no_name_of_one() {
    let dir = tempfile::tempdir().expect("a folder");
    let log = dir.path().join("calls");
    let server = Options::default().writes("FAKEDEV_LOG", &log).start();
    let opened = || {
        let all = std::fs::read_to_string(&log).unwrap_or_default();
        all.lines().filter(|l| *l == "cuIpcOpenEventHandle").count()
    };
    let (mut owner, mut other) = (Raw::open(&server.address), Raw::open(&server.address));
    // Without timing, for other processes.
    let event = cuda::CuEventCreate {
        ph_event: 5,
        flags: 6,
    };
    assert_eq!(owner.call(1, &event).0, 0);
    let offer = owner.offer_event(5);
    assert_eq!(offer.len(), 64);
    for bytes in [
        &[][..],
        &[0; 64],
        &[0xff; 64],
        b"fakedev-event",
        &offer[..23],
    ] {
        assert_ne!(other.take_event(1, bytes), 0, "{bytes:?}");
    }
    for at in [0, 8, 23] {
        let mut guess = offer.clone();
        guess[at] ^= 1;
        assert_ne!(other.take_event(1, &guess), 0, "byte {at}");
    }
    // What is memory is no event, and the other way round.
    assert_eq!(owner.create(1, 4 << 20), 0);
    let memory = owner.offer(1);
    let named = [&memory.tag[..], &memory.secret].concat();
    assert_ne!(other.take_event(1, &named), 0);
    let (tag, secret) = offer[..24].split_at(8);
    let as_memory = Offer {
        tag: tag.try_into().expect("8 bytes"),
        secret: secret.try_into().expect("16 bytes"),
    };
    assert_ne!(other.take(1, &as_memory), 0);
    assert_eq!(opened(), 0, "the driver was asked");
    assert_eq!(other.take_event(1, &offer), 0);
    assert_eq!(opened(), 1);
    owner.queue(1, &cuda::CuEventDestroyV2 { h_event: 5 });
    assert_eq!(owner.create(2, 4 << 20), 0);
    assert_ne!(other.take_event(2, &offer), 0, "it is gone");
    assert_eq!(opened(), 1);
}

/// What clients say of themselves is shown to people and to programs: it shows itself, and nothing
/// else, wherever it is shown.
#[test]
fn names_show_themselves_and_nothing_else() {
    let server = Options::default().arg("--http", "127.0.0.1:0").start();
    let caller = Caller::of(&server);
    let bad = "a\u{202e}b\u{2028}c\u{1b}[2Jd\u{200b}e\"} 1\nevil{x=\"";
    let mut hello = Hello::new(Intent::Open);
    hello.api = "cuda".into();
    let c = &mut hello.client;
    (c.host, c.user, c.program) = (bad.into(), bad.into(), bad.into());
    c.boot_id = "another".into();
    let said = |h: &Hello| serde_json::to_vec(h).expect("JSON");
    let (_held, welcome) = greet(&server.address, &said(&hello)).expect("a welcome");
    assert!(welcome.refusal.is_none(), "{welcome:?}");
    server.wait_for_sessions(1);
    let mut c = Command::new(&tree().busbar);
    clear(&mut c);
    let ps = printed(c.args(["ps", "--server", &server.address]));
    let listed = until("a session that is shown", || {
        let all = caller.get("/v1/sessions").body;
        all.contains("a?b").then_some(all)
    });
    let metrics = caller.get("/metrics").body;
    for (what, text) in [
        ("ps", &ps),
        ("the log", &server.log()),
        ("HTTP", &listed),
        ("metrics", &metrics),
    ] {
        let other = text.chars().find(|c| *c != '\n' && !is_plain(*c));
        assert_eq!(other, None, "{what}: {text}");
        let begins = text.lines().find(|l| l.trim_start().starts_with("evil"));
        assert_eq!(begins, None, "{what}: {text}");
    }
    assert!(ps.contains("a?b"), "{ps}");
    // What somebody is found by is no other than it looks.
    for job in ["a\u{202e}b", &"x".repeat(50_000)] {
        hello.client.job = Some(Job {
            name: job.into(),
            ..Job::default()
        });
        let answer = stranger(&server.address, &said(&hello));
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.contains("a name is too long"), "{answer}");
    }
}

/// A client has some of the driver's variables set for its worker, and no others, to nothing long
/// or odd.
#[test]
fn a_client_says_nothing_of_a_workers_environment_but_numbers_for_the_driver() {
    let server = Server::start();
    let mut hello = Hello::new(Intent::Open);
    hello.api = "cuda".into();
    let set = [
        ("CUDA_DEVICE_MAX_CONNECTIONS", "3"),
        ("CUDA_SCALE_LAUNCH_QUEUES", "2\nLD_PRELOAD=/tmp/evil.so"),
        ("CUDA_GRAPHS_USE_NODE_PRIORITY", "11111111111111111"),
        ("CUDA_MPS_PIPE_DIRECTORY", "evil"),
        ("CUDA_COREDUMP_FILE", "evil"),
        ("LD_PRELOAD", "evil"),
        ("", "evil"),
    ];
    hello.driver = set.map(|(name, value)| (name.into(), value.into())).into();
    let said = serde_json::to_vec(&hello).expect("JSON");
    let (_held, welcome) = greet(&server.address, &said).expect("a welcome");
    assert!(welcome.refusal.is_none(), "{welcome:?}");
    let worker = &server.wait_for_sessions(1)[0]["worker_pid"];
    let environment = std::fs::read_to_string(format!("/proc/{worker}/environ"));
    let environment = environment.expect("the worker lives");
    assert!(environment.contains("CUDA_DEVICE_MAX_CONNECTIONS=3\0"));
    for odd in ["evil", "CUDA_SCALE", "CUDA_GRAPHS", "CUDA_COREDUMP"] {
        assert!(!environment.contains(odd), "{odd} in {environment}");
    }
}

/// A server's refusal is a line in the terminal of whoever asked.
#[test]
fn a_refusal_is_one_line_whatever_the_server_says() {
    let said = "no\u{1b}[2J\u{202e}\n$ all is well".to_string() + &"x".repeat(5000);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound").to_string();
    std::thread::spawn(move || {
        let body = serde_json::json!({ "refusal": { "code": "policy", "message": said } });
        let body = serde_json::to_vec(&body).expect("JSON");
        for mut to in listener.incoming().flatten() {
            let _ = read_frame(&mut to);
            let _ = to.write_all(&frame_of(Kind::Welcome, 0, 0, &body));
        }
    });
    for args in [
        &["ps"][..],
        &["run", "--", "true"],
        &["run", "--gpus", "1", "--", "true"],
    ] {
        let mut c = Command::new(&tree().busbar);
        clear(&mut c);
        let at = ["--server", &address];
        let (first, rest) = args.split_first().expect("a command");
        let out = finished(c.arg(first).args(at).args(rest));
        let text = [out.stdout, out.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        let other = text.chars().find(|c| *c != '\n' && !is_plain(*c));
        assert_eq!(other, None, "{args:?}: {text}");
        assert!(
            text.len() < 2000 && !text.contains("\n$ all"),
            "{args:?}: {text}"
        );
    }
}
