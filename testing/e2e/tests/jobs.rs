//! Jobs of many ranks: started as launchers start them, on one server and on two, by one machine
//! and by several; what they print is what they print natively.

use busbar_e2e::guarded::refused;
use busbar_e2e::proc::cells_reach_servers;
use busbar_e2e::program::{Running, clear, finished, native, printed};
use busbar_e2e::server::{Options, Server};
use busbar_e2e::tree::tree;
use busbar_e2e::until;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/job.py");
/// Launchers, by the variables that they set. `accelerate launch` starts `torchrun`.
const ALL: [&str; 8] = [
    "torchrun",
    "mpirun",
    "hydra",
    "horovodrun",
    "deepspeed",
    "mvapich",
    "script",
    "srun",
];

/// A server with devices and NCCL. Servers of one host are two to NCCL if they say so.
fn isolated(devices: u32, name: &str, level: Option<&str>) -> Options {
    let library = tree().fakedev.join("libnccl.so.2");
    let options = Options::default()
        .arg("--nccl-library", library.to_str().expect("a path"))
        .env("FAKEDEV_DEVICES", &devices.to_string())
        .env("NCCL_HOSTID", name);
    match level {
        Some(level) => options.arg("--isolation", level),
        None => options,
    }
}

/// As it is by default, where ranks at two servers reach each other so.
fn options(devices: u32, name: &str) -> Options {
    let open = !cells_reach_servers();
    isolated(devices, name, open.then_some("off"))
}

fn server(devices: u32, name: &str) -> Server {
    options(devices, name).start()
}

/// A launcher of so many ranks, natively.
fn launched(n: u32, args: &[&str]) -> String {
    let mut c = native(Path::new("python3"));
    c.env("FAKEDEV_DEVICES", n.to_string());
    c.args([PROGRAM, "launch", "-n", &n.to_string()]).args(args);
    printed(&mut c)
}

/// `busbar run` at these servers.
fn run(servers: &[&Server], flags: &[&str], args: &[&str]) -> Command {
    let mut c = Command::new(&tree().busbar);
    clear(&mut c);
    let at: Vec<_> = servers.iter().map(|s| s.address.clone()).collect();
    // A machine that is busy with many ranks may take long to answer the next one.
    c.env("BUSBAR_CONNECT_TIMEOUT", "30");
    c.args(["run", "--server", &at.join(",")]);
    c.args(flags).args(["--", "python3", PROGRAM, "launch"]);
    c.args(args);
    c
}

#[test]
fn ranks_of_each_launcher_compute_as_natively() {
    let (a, b, all) = (server(2, "a"), server(2, "b"), server(4, "all"));
    let expected = launched(4, &["sum"]);
    assert!(expected.contains("rank 3: sums [10.0, 2.0]"), "{expected}");
    for style in ALL {
        for servers in [&[&all][..], &[&a, &b]] {
            let args = ["-n", "4", "--style", style, "sum"];
            let got = printed(&mut run(servers, &["-n", "4"], &args));
            assert_eq!(got, expected, "{style}, {} servers", servers.len());
        }
    }
    // The simulated driver shows all devices whatever is asked for, Busbar does not.
    let args = ["-n", "4", "--visible", "sum"];
    let got = printed(&mut run(&[&a, &b], &["-n", "4"], &args));
    let alone = |rank| format!("rank {rank} of 4: 1 devices, mine is 0\nrank {rank}: sums [10.0");
    assert!((0..4).all(|rank| got.contains(&alone(rank))), "{got}");
}

#[test]
fn ranks_have_a_part_of_a_device_each() {
    let (a, b) = (server(2, "a"), server(2, "b"));
    let expected = launched(4, &["sum"]);
    // Of one device only one has as much: nobody has another's.
    let flags = ["-n", "4", "-m", "3GiB"];
    let got = printed(&mut run(&[&a, &b], &flags, &["-n", "4", "sum"]));
    assert_eq!(got, expected);
    let mut held = Running::start(&mut run(
        &[&a, &b],
        &flags,
        &["-n", "4", "--follow", "look"],
    ));
    held.line_with("process 3");
    for s in [&a, &b] {
        let mut devices: Vec<_> = s
            .wait_for_sessions(2)
            .iter()
            .map(|s| s["devices"].clone())
            .collect();
        devices.sort_by_key(Value::to_string);
        assert_eq!(devices, [serde_json::json!([0]), serde_json::json!([1])]);
    }
    held.finish();
}

/// Whose NCCL a program finds that loads it by name.
const WHICH: &str = "import ctypes, os
try: ctypes.CDLL('libnccl.so.2')
except OSError: print('none')
else: print([l.split()[-1] for l in open('/proc/self/maps') if 'libnccl' in l][0])";

#[test]
fn programs_of_several_devices_or_of_jobs_have_collectives() {
    let a = server(2, "a");
    let with = |flags: &[&str]| {
        let mut c = Command::new(&tree().busbar);
        clear(&mut c);
        c.args(["run", "--server", &a.address]).args(flags);
        printed(c.args(["--", "python3", "-c", WHICH]))
    };
    for one in [
        &["-n", "1"][..],
        &["--nccl=off"],
        &["--nccl=off", "-n", "2"],
    ] {
        assert_eq!(with(one), "none\n", "{one:?}");
    }
    // What shares both devices may use both.
    for several in [
        &[][..],
        &["-n", "2"],
        &["--job", "j"],
        &["--nccl"],
        &["--nccl=on"],
    ] {
        let ours = with(several);
        assert!(
            ours.ends_with("lib/nccl/libnccl.so.2\n"),
            "{several:?}: {ours}"
        );
    }
}

/// The ranks that have a session, by server, as its status says.
fn ranks(s: &Server) -> Vec<(u64, String)> {
    let of = |s: &Value| {
        let job = &s["job"];
        let name = job["name"].as_str().unwrap_or_default();
        (job["rank"].as_u64().unwrap_or(99), name.to_string())
    };
    let mut all: Vec<_> = s.sessions().iter().map(of).collect();
    all.sort();
    all
}

#[test]
fn a_rank_has_a_session_at_its_own_server_alone() {
    let (a, b) = (server(2, "a"), server(2, "b"));
    let flags = ["-n", "4", "--job", "train"];
    for style in ALL {
        let args = ["-n", "4", "--style", style, "--follow", "look"];
        let mut c = run(&[&a, &b], &flags, &args);
        let mut held = Running::start(c.env("NCCL_IB_DISABLE", "1"));
        held.line_with("process 3");
        let named = |ranks: [u64; 2]| ranks.map(|r| (r, "train".to_string())).to_vec();
        until(
            &format!("two ranks of {style} at each server, neighbours"),
            || {
                let found = (ranks(&a), ranks(&b));
                (found == (named([0, 1]), named([2, 3]))).then_some(())
            },
        );
        assert_eq!(a.sessions()[0]["network"], "socket");
        held.finish();
    }
}

/// What ranks say of devices: by rank and `cuda` or `nvml`, each one's name and place, in order.
type Names = BTreeMap<(u32, String), Vec<(String, String)>>;

fn names(said: &str) -> Names {
    let mut all = Names::new();
    for line in said.lines() {
        let words: Vec<_> = line.split([' ', ':']).filter(|w| !w.is_empty()).collect();
        if let ["rank", rank, api @ ("cuda" | "nvml"), _, name, ..] = words[..] {
            let place = line.rsplit(' ').next().expect("a place");
            let rank = rank.parse().expect("a number");
            let of = all.entry((rank, api.to_string())).or_default();
            of.push((name.to_string(), place.to_string()));
        }
    }
    all
}

/// How many different ones there are.
fn different<'a>(all: impl Iterator<Item = &'a String>) -> usize {
    all.collect::<BTreeSet<_>>().len()
}

/// Servers of one kind have their devices at the same places, and none has another's UUIDs.
#[test]
fn ranks_tell_the_devices_of_all_servers_apart() {
    let (a, b) = (server(2, "a"), server(2, "b"));
    let args = ["-n", "4", "names"];
    let said = printed(&mut run(&[&a, &b], &["-n", "4"], &args));
    assert!(!said.contains("at the place"), "{said}");
    let all = names(&said);
    let mut own = Vec::new();
    for rank in 0..4 {
        let [cuda, nvml] = ["cuda", "nvml"].map(|api| &all[&(rank, api.to_string())]);
        for devices in [cuda, nvml] {
            let (names, places) = (devices.iter().map(|d| &d.0), devices.iter().map(|d| &d.1));
            assert_eq!((different(names), different(places)), (4, 4), "{said}");
        }
        let at = rank as usize;
        assert_eq!(cuda[at], nvml[at], "{said}");
        assert_eq!(nvml, &all[&(0, "nvml".to_string())], "{said}");
        own.push(cuda[at].clone());
    }
    assert_eq!(different(own.iter().map(|d| &d.0)), 4, "{said}");
    assert_eq!(different(own.iter().map(|d| &d.1)), 4, "{said}");
    // A machine's piece is what NVML shows there, too.
    let id = printed(Command::new(&tree().busbar).args([
        "request",
        "-n",
        "4",
        "--server",
        &format!("{},{}", a.address, b.address),
    ]));
    let flags = ["--lease", id.trim(), "--node", "1/2"];
    let said = printed(&mut run(&[&a, &b], &flags, &["-n", "2", "names"]));
    let piece = &names(&said)[&(0, "nvml".to_string())];
    let name = |all: &[(String, String)]| all.iter().map(|d| d.0.clone()).collect::<Vec<_>>();
    assert_eq!(name(piece), name(&own[2..]), "{said}");
}

#[test]
fn machines_that_name_a_job_share_its_devices() {
    let (a, b) = (server(3, "a"), server(1, "b"));
    let store = tempfile::tempdir().expect("a folder");
    let machine = |node: u32| {
        let (part, number) = (format!("{node}/2"), node.to_string());
        let flags = ["-n", "2", "--job", "two", "--node", &part];
        let place = store.path().to_str().expect("a path");
        let which = ["--nodes", "2", "--node", &number, "--store", place];
        run(
            &[&a, &b],
            &flags,
            &[&["-n", "2"], &which[..], &["sum"]].concat(),
        )
    };
    let (mut second, mut first) = (machine(1), machine(0));
    let said = std::thread::scope(|s| {
        // Whichever comes first waits for the other.
        let later = s.spawn(|| printed(&mut second));
        let first = printed(&mut first);
        first + &later.join().expect("the second machine's")
    });
    for rank in 0..4 {
        let local = rank % 2;
        let line = format!("rank {rank} of 4: 2 devices, mine is {local}\n");
        assert!(said.contains(&line), "{said}");
        assert!(
            said.contains(&format!("rank {rank}: sums [10.0, 2.0]\n")),
            "{said}"
        );
    }
}

#[test]
fn a_job_has_all_its_devices_or_none() {
    let (a, b) = (server(2, "a"), server(1, "b"));
    let flags = ["-n", "2", "--job", "more", "--node", "0/2"];
    let out = finished(&mut run(&[&a, &b], &flags, &["-n", "2", "sum"]));
    let err = String::from_utf8_lossy(&out.stderr);
    assert!(err.contains("4 GPUs wanted"), "{err}");
    assert!(a.status()["leases"].as_array().is_some_and(Vec::is_empty));
    let flags = ["-n", "1", "--job", "more", "--node", "1/2", "--wait", "1s"];
    let out = finished(&mut run(&[&a], &flags, &["-n", "1", "sum"]));
    let err = String::from_utf8_lossy(&out.stderr);
    assert!(
        err.contains("the first machine of the job more has not"),
        "{err}"
    );
}

#[test]
fn what_nccl_says_is_each_ranks_and_a_job_sets_only_what_is_its_own() {
    // In a cell there is no interface to choose.
    let server = isolated(2, "a", Some("off"))
        .env("NCCL_SOCKET_IFNAME", "fabric0")
        .start();
    let mut c = run(&[&server], &["-n", "2"], &["-n", "2", "sum"]);
    c.env("NCCL_DEBUG", "INFO").env("NCCL_ALGO", "Ring");
    let said = printed(c.env("NCCL_SOCKET_IFNAME", "eth7"));
    for rank in 0..2 {
        let line = format!("NCCL INFO rank {rank} of 2: algo Ring, interface fabric0\n");
        assert!(said.contains(&line), "{said}");
    }
}

/// What each rank says of its tries to reach somebody who is of no job, with the server's isolation
/// as it is by default, or off; and whether all have reached each other.
fn tries(level: Option<&str>) -> (Vec<String>, bool) {
    let stranger = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = stranger.local_addr().expect("an address").to_string();
    let of = |name| {
        let o = isolated(1, name, level);
        o.env("FAKENCCL_STRANGER", &at).start()
    };
    let (a, b) = (of("a"), of("b"));
    let mut c = run(&[&a, &b], &["-n", "2"], &["-n", "2", "sum"]);
    let said = printed(c.env("NCCL_DEBUG", "INFO"));
    let tries = said.lines().filter(|l| l.contains("stranger: "));
    let sums = said.matches(": sums [3.0, 1.0]").count();
    (tries.map(Into::into).collect(), sums == 2)
}

#[test]
fn ranks_at_two_servers_reach_each_other_and_nobody_else() {
    let all = |own, asked, turned| {
        let line = format!("NCCL INFO stranger: own {own}, asked {asked}, turned {turned}");
        (vec![line; 2], true)
    };
    if cells_reach_servers() {
        assert_eq!(tries(None), all(false, false, false));
    }
    // Without isolation each of these ways is open.
    assert_eq!(tries(Some("off")), all(true, true, true));
}

#[test]
fn ranks_of_a_tenant_that_may_have_no_links_reach_those_of_their_own_server_alone() {
    let rules = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(rules.path(), "[default]\nlinks = false\n").expect("a policy");
    let policy = rules.path().to_str().expect("a path");
    let alone = |name| isolated(2, name, None).arg("--policy", policy).start();
    let (a, b) = (alone("a"), alone("b"));
    let args = ["-n", "2", "sum"];
    let got = printed(&mut run(&[&a], &["-n", "2"], &args));
    assert_eq!(got, launched(2, &["sum"]));
    let mut job = run(&[&a, &b], &["-n", "4"], &["-n", "4", "sum"]);
    assert!(!finished(&mut job).status.success());
}

#[test]
fn ranks_at_two_servers_without_a_lease_are_told_to_take_one() {
    let servers = [server(1, "a"), server(1, "b")];
    let both = [&servers[0], &servers[1]];
    for flags in [&["--nccl"][..], &["--job", "train"]] {
        refused(
            &mut run(&both, flags, &["ranks"]),
            &["say how many with -n"],
        );
    }
}

#[test]
fn ranks_of_one_server_need_no_lease() {
    let one = server(2, "one");
    let said = printed(&mut run(&[&one], &["--nccl"], &["-n", "2", "sum"]));
    assert!(said.contains("rank 1: sums [3.0, 1.0]"), "{said}");
}

/// A job of so many ranks that sum on and on, all of which have begun to.
struct Going {
    running: Running,
    processes: Vec<u32>,
    store: tempfile::TempDir,
}

impl Going {
    /// What is in a file of its store.
    fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.store.path().join(name)).unwrap_or_default()
    }
}

fn going(servers: &[&Server], n: u32, mode: &str) -> Going {
    let (count, store) = (n.to_string(), tempfile::tempdir().expect("a folder"));
    let place = store.path().to_str().expect("a path");
    let args = ["-n", &count, "--follow", "--store", place, mode];
    let mut c = run(servers, &["-n", &count], &args);
    // A server that is gone is soon known to be.
    let c = c.env("BUSBAR_RESUME_TIMEOUT", "1").env("BUSBAR_STALL", "1");
    let mut running = Running::start(c);
    let pid = |line: String| line.rsplit(' ').next().and_then(|p| p.parse().ok());
    let start = |rank| format!("process {rank} ");
    let processes = (0..n).map(|rank| pid(running.line_with(&start(rank))).expect("a process"));
    let processes = processes.collect();
    for rank in 0..n {
        until(&format!("rank {rank} to go on"), || {
            let said = std::fs::read_to_string(store.path().join(rank.to_string()));
            said.ok().filter(|s| s.contains("goes on"))
        });
    }
    Going {
        running,
        processes,
        store,
    }
}

/// What the ranks of a job say that has lost one, and that nothing is left of it.
fn end(mut job: Going, servers: &[&Server]) -> String {
    job.running.say("end");
    let (said, status) = job.running.finish();
    assert!(!status.success(), "{said}");
    for s in servers {
        s.wait_for_sessions(0);
        until("no lease", || {
            let leases = s.status()["leases"].as_array().map(Vec::len);
            (leases == Some(0)).then_some(())
        });
    }
    said
}

/// Whose ranks hear nothing of each other's end, as over NVLink.
fn deaf(devices: u32, name: &str) -> Server {
    options(devices, name).env("FAKENCCL_DEAF", "1").start()
}

/// Kills a process, and waits until its parent can know: its connections may be closed before.
fn kill(pid: u32) {
    let done = Command::new("kill").args(["-9", &pid.to_string()]).status();
    assert!(done.expect("kill runs").success());
    until("the end of a process", || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
        let state = |s: String| s.rsplit_once(") ")?.1.chars().next();
        matches!(stat.ok().and_then(state), None | Some('Z' | 'X')).then_some(())
    });
}

#[test]
fn a_rank_that_is_killed_is_named_to_those_at_all_servers() {
    let (a, b) = (deaf(2, "a"), deaf(2, "b"));
    let job = going(&[&a, &b], 4, "on");
    kill(job.processes[2]);
    let said = end(job, &[&a, &b]);
    for rank in [0, 1, 3] {
        let line = format!("rank {rank}: error 6: rank 2 of 4 at ");
        assert!(said.contains(&line), "{said}");
    }
}

#[test]
fn a_worker_that_is_killed_is_its_ranks_end_and_named() {
    let a = deaf(2, "a");
    let job = going(&[&a], 2, "on");
    let sessions = a.sessions();
    let of_one = sessions.iter().find(|s| s["job"]["rank"] == 1);
    let worker = of_one.expect("the session of rank 1")["worker_pid"].as_u64();
    kill(worker.expect("a process") as u32);
    let said = end(job, &[&a]);
    let line = "rank 0: error 6: rank 1 of 2 at ";
    assert!(
        said.contains(line) && said.contains("killed by signal 9"),
        "{said}"
    );
}

#[test]
fn a_server_that_is_gone_is_named_to_the_ranks_of_others() {
    let (a, mut b) = (deaf(1, "a"), deaf(1, "b"));
    let job = going(&[&a, &b], 2, "on");
    let name = format!("rank 0: error 6: the server {} is gone", b.address);
    b.kill();
    let said = end(job, &[&a]);
    assert!(said.contains(&name), "{said}");
}

#[test]
fn a_rank_that_asks_nothing_does_not_wait_for_ever() {
    let a = deaf(2, "a");
    let job = going(&[&a], 2, "blocked");
    kill(job.processes[1]);
    let said = end(job, &[&a]);
    assert!(said.contains("sync: "), "{said}");
}

/// As elastic launchers have it: the others go on without rank 3 of 4, which is lost; they lose
/// another one, and one takes its place. What is told of a loss, however late or often, reaches no
/// communicator that was made without the lost rank.
fn goes_on(mut job: Going, left: &[&Server]) {
    let all_say = |job: &Going, who: &[u32], what: &str| {
        for rank in who {
            let line = format!("rank {rank}: {what}");
            let said = || job.file(&rank.to_string()).contains(&line);
            until(&line, || said().then_some(()));
        }
    };
    all_say(&job, &[0, 1, 2], "round 0: error 6: ");
    job.running.say("0 1 2");
    all_say(&job, &[0, 1, 2], "round 1: goes on");
    kill(job.processes[1]);
    all_say(&job, &[0, 2], "round 1: error 6: rank 1 of 4 at ");
    job.running.say("0 1 2");
    all_say(&job, &[0, 1, 2], "round 2: goes on");
    std::fs::write(job.store.path().join("go"), "").expect("a file");
    all_say(&job, &[0, 1, 2], "round 2: ends as one of [0, 1, 2]");
    end(job, left);
}

#[test]
fn ranks_go_on_without_one_that_is_killed_and_with_one_in_its_place() {
    let a = deaf(4, "a");
    let job = going(&[&a], 4, "elastic");
    kill(job.processes[3]);
    goes_on(job, &[&a]);
}

#[test]
fn ranks_go_on_when_one_of_their_servers_is_gone() {
    let (a, mut b) = (deaf(3, "a"), deaf(1, "b"));
    let job = going(&[&a, &b], 4, "elastic");
    b.kill();
    goes_on(job, &[&a]);
}

#[test]
fn what_nccl_says_at_one_server_of_a_lost_network_the_ranks_at_others_hear() {
    // As where the network between them is cut: NCCL's connections at one end are lost, and ranks
    // that have none of those hear nothing. The simulated ranks meet at the first server.
    let cut = options(2, "b").env("FAKENCCL_DEAF", "1");
    let (a, b) = (
        deaf(2, "a"),
        cut.env("FAKENCCL_FAULTS", "ncclAllReduce@5=2").start(),
    );
    let job = going(&[&a, &b], 4, "on");
    let said = end(job, &[&a, &b]);
    for rank in [2, 3] {
        assert!(said.contains(&format!("rank {rank}: error 2: ")), "{said}");
    }
    let at = format!(" of 4 at {} has lost others: ", name_of(&b));
    for rank in [0, 1] {
        let begins = format!("rank {rank}: error 6: rank ");
        let line = said.lines().find(|l| l.starts_with(&begins));
        assert!(line.is_some_and(|l| l.contains(&at)), "{said}");
    }
}

/// A job of four ranks at two servers of which the last one keeps the others: what each rank is
/// told.
fn kept(mode: &str, why: &str) {
    let audit = tempfile::tempdir().expect("a folder");
    let file = audit.path().join("audit");
    let (a, b) = (
        options(2, "a")
            .arg("--audit", file.to_str().expect("a path"))
            .start(),
        server(2, "b"),
    );
    let mut job = going(&[&a, &b], 4, mode);
    let begins = "busbar: rank 3 of 4 at ";
    let told = |rank: u32| {
        let said = job.file(&format!("{rank}.err"));
        said.lines().find(|l| l.starts_with(begins)).map(Into::into)
    };
    for rank in 0..4 {
        let said: String = until(&format!("a word to rank {rank}"), || told(rank));
        let server = format!("{begins}{}", name_of(&b));
        assert!(said.starts_with(&server), "{said}");
        let call = " s in ncclAllReduce (number 2): ";
        assert!(said.contains(call) && said.contains(why), "{said}");
    }
    let stall = |s: &Value| s["stall"].as_str().unwrap_or_default().contains(why);
    assert!(a.sessions().iter().all(stall), "{:?}", a.sessions());
    let noted = std::fs::read_to_string(&file).expect("an audit");
    assert!(b.sessions().iter().all(stall) && !noted.contains("rank 3 of 4 has waited"));
    std::fs::write(job.store.path().join("go"), "").expect("a file");
    for s in [&a, &b] {
        until("all to go on", || {
            let still = s.sessions().iter().any(stall);
            (!still).then_some(())
        });
    }
    job.running.say("end");
    let (said, status) = job.running.finish();
    assert!(status.success(), "{said}");
    assert_eq!(
        said.matches(": sums again [40.0, 8.0]").count(),
        4,
        "{said}"
    );
}

/// What a server calls itself.
fn name_of(s: &Server) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let port = s.address.rsplit(':').next().expect("a port");
    format!("{}:{port}", host.trim())
}

#[test]
fn who_waits_for_a_rank_that_does_not_come_is_told_for_which() {
    kept(
        "late",
        "it has not called it: its last was number 1, ncclAllReduce",
    );
}

#[test]
fn who_waits_for_a_rank_that_computes_is_told_so_and_that_rank_is_not_said_to_wait() {
    kept("computes", "its device still computes what comes before");
}

#[test]
fn ranks_whose_others_do_not_come_are_told_who_is_there() {
    let (a, b) = (server(1, "a"), server(1, "b"));
    let store = tempfile::tempdir().expect("a folder");
    let place = store.path().to_str().expect("a path");
    // Two of four: the others' machine never starts.
    let args = [
        "-n", "2", "--nodes", "2", "--follow", "--store", place, "sum",
    ];
    let mut c = run(&[&a, &b], &["-n", "2"], &args);
    let mut job = Running::start(c.env("BUSBAR_STALL", "1"));
    for (rank, server) in [(0, &a), (1, &b)] {
        let begins = format!("busbar: rank {rank} of 4 at {} has waited", name_of(server));
        let said = until(&format!("a word to rank {rank}"), || {
            let said = std::fs::read_to_string(store.path().join(format!("{rank}.err"))).ok()?;
            said.lines()
                .find(|l| l.starts_with(&begins))
                .map(String::from)
        });
        assert!(
            said.contains("for the other ranks of its communicator of 4"),
            "{said}"
        );
        assert!(
            said.ends_with(&format!("{} has rank {rank}", name_of(server))),
            "{said}"
        );
    }
    job.kill();
}

/// The rings of `busbar fabric check`, and what is said of them; it ends as it says.
fn rings(servers: &[&Server]) -> (Vec<Value>, Vec<Value>) {
    let mut c = Command::new(&tree().busbar);
    clear(&mut c);
    c.args([
        "fabric",
        "check",
        "--json",
        "--seconds",
        "0.1",
        "--ring",
        "1MiB",
    ]);
    // What NCCL says is no rank's word.
    c.args(servers.iter().map(|s| &s.address))
        .env("NCCL_DEBUG", "INFO");
    let out = finished(&mut c);
    let told = String::from_utf8_lossy(&out.stderr).contains("NCCL INFO");
    let v: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert_eq!(v["ok"], out.status.success());
    let list = |name: &str| v[name].as_array().expect("a list").clone();
    let ran = list("rings").iter().any(|r| r["time_us"].is_number());
    assert!(told || !ran, "NCCL was asked to say what it does");
    let mut findings = list("findings");
    findings.retain(|f| {
        f["at"]
            .as_str()
            .is_some_and(|at| at.starts_with("NCCL over "))
    });
    (list("rings"), findings)
}

#[test]
fn a_check_of_the_fabric_has_nccl_sum_up_bytes_within_servers_and_between_them() {
    let (a, b, none) = (server(2, "a"), server(1, "b"), Server::start());
    let (found, findings) = rings(&[&a, &b]);
    let [within, across] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!(within["servers"], serde_json::json!([a.address, a.address]));
    assert_eq!(across["servers"], serde_json::json!([a.address, b.address]));
    assert_eq!(
        (&within["network"], &across["network"]),
        (&"".into(), &"socket".into())
    );
    for ring in &found {
        assert_eq!(
            (&ring["bytes"], &ring["wrong"]),
            (&(1 << 20).into(), &0.into())
        );
        assert!(ring["bus_gbps"].as_f64().is_some_and(|r| r > 0.0), "{ring}");
        assert!(ring["time_us"].as_f64().is_some_and(|t| t > 0.0), "{ring}");
    }
    assert_eq!(findings, [] as [Value; 0]);
    for s in [&a, &b] {
        until("no lease", || {
            let leases = s.status()["leases"].as_array().map(Vec::len);
            (leases == Some(0)).then_some(())
        });
    }
    // One that has no NCCL is named, and a GPU that somebody has is left alone.
    let (_, findings) = rings(&[&b, &none]);
    let [one] = &findings[..] else {
        panic!("{findings:?}")
    };
    assert_eq!(one["fails"], true);
    assert!(one["at"].to_string().contains(&none.address), "{one}");
    assert!(one["what"].to_string().contains("has no NCCL"), "{one}");
    let mut held = Running::start(&mut run(
        &[&b],
        &["-n", "1"],
        &["-n", "1", "--follow", "look"],
    ));
    held.line_with("process 0");
    let (found, findings) = rings(&[&a, &b]);
    assert!(found[0]["refused"].is_null() && found[0]["time_us"].is_number());
    assert!(found[1]["refused"].is_string(), "{found:?}");
    assert!(findings.iter().all(|f| f["fails"] == false), "{findings:?}");
}
