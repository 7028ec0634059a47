//! A pool of several servers: GPUs of all of them are reserved or none, clients wait in line for
//! them, and leases outlive commands.

use busbar_e2e::guarded::{Guarded, refused};
use busbar_e2e::program::{Running, clear, finished, printed};
use busbar_e2e::server::{Options, Server};
use busbar_e2e::tree::tree;
use busbar_e2e::until;
use serde_json::Value;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_driver_program");

fn server(devices: &str) -> Server {
    let options = Options::default().env("FAKEDEV_MEMORY_MIB", "2048");
    options.env("FAKEDEV_DEVICES", devices).start()
}

fn busbar(args: &[&str]) -> Command {
    let mut c = Command::new(&tree().busbar);
    clear(&mut c);
    c.args(args);
    c
}

/// `busbar run` at these servers, with these flags.
fn run(servers: &str, flags: &[&str], program: &[&str]) -> Command {
    let start = ["run", "--server", servers];
    busbar(&[&start[..], flags, &["--", PROGRAM], program].concat())
}

fn holds(servers: &str, flags: &[&str]) -> Running {
    let mut held = Running::start(&mut run(servers, flags, &["hold", "1"]));
    held.line_with("holding");
    held
}

/// How many devices a program sees.
fn sees(servers: &str, flags: &[&str]) -> String {
    let out = printed(&mut run(
        servers,
        flags,
        &["random-devices", "1", "10", "4096"],
    ));
    out.lines().next().unwrap_or_default().into()
}

fn json(c: &mut Command) -> Value {
    serde_json::from_str(&printed(c)).expect("JSON")
}

fn leases(s: &Server) -> Vec<Value> {
    let all = s.status()["leases"].as_array().cloned();
    all.unwrap_or_default()
}

/// Waits until these are the leases that each server has, with a session of each.
fn left<const N: usize>(servers: &[Server; N], leased: [usize; N]) {
    for (s, n) in servers.iter().zip(leased) {
        until("the end of leases", || (leases(s).len() == n).then_some(()));
        s.wait_for_sessions(n);
    }
}

fn no_leases<const N: usize>(servers: &[Server; N]) {
    left(servers, [0; N]);
}

/// A program that waits for GPUs, and what it says meanwhile.
struct Waiter {
    program: Running,
    said: PathBuf,
    _folder: TempDir,
}

impl Waiter {
    fn start(servers: &str, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let said = folder.path().join("said");
        let mut c = run(servers, flags, &["hold", "1"]);
        c.stderr(File::create(&said).expect("a file"));
        Self {
            program: Running::start(&mut c),
            said,
            _folder: folder,
        }
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap_or_default()
    }

    /// Waits until it has said these words.
    fn says(&self, words: &[&str]) {
        until(&format!("a waiter that says {words:?}"), || {
            let said = self.said();
            words.iter().all(|w| said.contains(w)).then_some(())
        });
    }

    fn holds_and_ends(mut self) {
        self.program.line_with("holding");
        self.program.goes_on_holding();
    }
}

#[test]
fn gpus_of_all_servers_are_reserved_or_none() {
    let servers = [server("2"), server("2")];
    let both = servers.each_ref().map(|s| s.address.clone()).join(",");
    let held = holds(&servers[0].address, &["-n", "1"]);
    refused(
        &mut run(&both, &["-n", "4"], &["work", "1"]),
        &["4 wanted, 3 free", "driver_program hold", "--wait"],
    );
    left(&servers, [1, 0]);
    assert_eq!(sees(&both, &["-n", "3"]), "devices 3");
    left(&servers, [1, 0]);
    // One server has enough, and is taken whole; or one of each.
    let of = |how: &str| {
        let program = holds(&both, &["-n", "2", how]);
        let own = servers.each_ref().map(|s| leases(s).len());
        program.goes_on_holding();
        left(&servers, [1, 0]);
        own
    };
    assert_eq!(of("--pack"), [1, 1]);
    assert_eq!(of("--spread"), [2, 1]);
    refused(
        &mut run(&both, &["-n", "5"], &["work", "1"]),
        &["5 GPUs wanted, but the servers have 4"],
    );
    held.goes_on_holding();
    no_leases(&servers);
}

/// Of the servers that somebody has logged in to, where none is named.
#[test]
fn what_is_reserved_is_of_all_servers_that_are_known() {
    let servers = [server("2"), server("2")];
    let folder = TempDir::new().expect("a temporary folder");
    let list = folder.path().join("list.toml");
    let entry = |s: &Server| format!("[[server]]\naddress = \"{}\"\n", s.address);
    fs::write(&list, servers.each_ref().map(entry).concat()).expect("a list");
    let sees = |flags: &[&str]| {
        let program = ["--", PROGRAM, "random-devices", "1", "10", "4096"];
        let mut c = busbar(&[&["run"], flags, &program].concat());
        let out = printed(c.env("BUSBAR_CONFIG", &list));
        out.lines().next().unwrap_or_default().to_string()
    };
    let all = sees(&["-n", "4"]);
    no_leases(&servers);
    let second = format!("server == \"{}\"", servers[1].address);
    assert_eq!(sees(&["--filter", &second]), sees(&[]));
    assert_eq!(
        sees(&["-n", "2"]),
        sees(&[]),
        "one that shares is at one server"
    );
    assert_ne!(all, sees(&[]));
    let mut c = busbar(&["request", "-n", "3"]);
    let lease = printed(c.env("BUSBAR_CONFIG", &list));
    let leased = servers.each_ref().map(|s| leases(s).len());
    assert_eq!(leased, [1, 1]);
    let mut c = busbar(&["release", lease.trim()]);
    printed(c.env("BUSBAR_CONFIG", &list));
    no_leases(&servers);
}

#[test]
fn two_clients_that_want_the_same_in_opposite_orders_both_get_it() {
    let servers = [server("1"), server("1")];
    let [a, b] = servers.each_ref().map(|s| s.address.clone());
    let orders = [format!("{a},{b}"), format!("{b},{a}")];
    for _ in 0..3 {
        let waiters = [0, 1, 0, 1].map(|i| Waiter::start(&orders[i], &["-n", "2", "--wait", "2m"]));
        // Whoever has them lets them go at once: any of the four may be first.
        let mut waiters = waiters;
        waiters.iter_mut().for_each(|w| w.program.go_on());
        for w in waiters {
            let (rest, status) = w.program.finish();
            assert!(
                status.success(),
                "{rest}: {}",
                fs::read_to_string(&w.said).unwrap_or_default()
            );
        }
    }
    no_leases(&servers);
}

#[test]
fn who_waits_is_served_in_order_and_knows_for_whom() {
    let one = server("1");
    let at = &one.address;
    let held = holds(at, &["--gpus", "1"]);
    let wait = ["--gpus", "1", "--wait", "2m"];
    let first = Waiter::start(at, &wait);
    first.says(&[
        "waiting for 1 GPU",
        "place 1 at",
        "held by",
        "driver_program hold",
    ]);
    let second = Waiter::start(at, &wait);
    second.says(&["place 2 at", "behind"]);
    let high = Waiter::start(at, &[&wait[..], &["--priority", "1"]].concat());
    high.says(&["place 1 at"]);
    second.says(&["place 3 at"]);
    // It has no lease and no place in line.
    refused(
        &mut run(at, &["--gpus", "1"], &["work", "1"]),
        &["1 wanted, 0 free, the others are held by"],
    );
    held.goes_on_holding();
    let mut high = high;
    high.program.line_with("holding");
    first.says(&["place 1 at"]);
    // One who gives up makes room.
    let mut first = first;
    first.program.kill();
    second.says(&["place 1 at"]);
    high.program.goes_on_holding();
    second.holds_and_ends();
    no_leases(&[one]);
}

#[test]
fn a_wait_ends_and_a_server_that_is_full_is_passed_over() {
    let servers = [server("1"), server("1")];
    let both = servers.each_ref().map(|s| s.address.clone()).join(",");
    let held = servers
        .each_ref()
        .map(|s| holds(&s.address, &["--gpus", "1"]));
    refused(
        &mut run(&both, &["-n", "1", "--wait", "1s"], &["work", "1"]),
        &["1 wanted, 0 free", "as long as --wait says"],
    );
    let waiter = Waiter::start(&both, &["-n", "1", "--wait", "2m"]);
    waiter.says(&["waiting for 1 GPU"]);
    let [first, second] = held;
    second.goes_on_holding();
    waiter.holds_and_ends();
    first.goes_on_holding();
    no_leases(&servers);
}

#[test]
fn a_filter_says_which_gpus_will_do() {
    let servers = [server("1"), server("2")];
    let both = servers.each_ref().map(|s| s.address.clone()).join(",");
    let second = format!("server == \"{}\" && memory >= 1GiB", servers[1].address);
    assert_eq!(sees(&both, &["--filter", &second]), "devices 2");
    no_leases(&servers);
    assert_eq!(sees(&both, &["-n", "1", "--filter", &second]), "devices 1");
    no_leases(&servers);
    let held = holds(&both, &["--filter", &second]);
    assert_eq!(leases(&servers[0]).len(), 0);
    assert_eq!(leases(&servers[1])[0]["whole"], false);
    // It is shared.
    assert_eq!(sees(&both, &["--filter", &second]), "devices 2");
    held.goes_on_holding();
    for (filter, words) in [
        (
            "memory >= 80GiB",
            &[
                "of the 3 that the servers have 0 will do",
                "memory >= 80GiB",
            ][..],
        ),
        (
            "memroy >= 80GiB",
            &["column 1: there is no `memroy`", "memory, name"],
        ),
        ("memory >= 80GB", &["column 11", "say 80GiB"]),
        ("name ~ H200", &["column 8", "text in quotes"]),
    ] {
        refused(
            &mut run(&both, &["-n", "1", "--filter", filter], &["work", "1"]),
            words,
        );
    }
    refused(
        &mut run(&both, &["--spread"], &["work", "1"]),
        &["say how many with -n"],
    );
    no_leases(&servers);
}

#[test]
fn what_is_shared_is_of_all_servers_that_have_some() {
    let servers = [server("1"), server("2")];
    let both = servers.each_ref().map(|s| s.address.clone()).join(",");
    assert_eq!(sees(&both, &[]), "devices 3");
    assert_eq!(sees(&both, &["--filter", "memory >= 1GiB"]), "devices 3");
    no_leases(&servers);
    // One that others have to themselves is left out.
    let held = holds(&servers[0].address, &["-n", "1"]);
    let mut c = run(&both, &[], &["random-devices", "1", "10", "4096"]);
    let out = finished(&mut c);
    let (got, said) = (
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr),
    );
    assert!(got.starts_with("devices 2\n"), "{got}{said}");
    assert!(said.contains(&servers[0].address), "{said}");
    held.goes_on_holding();
}

#[test]
fn a_part_is_of_one_device_at_the_first_server_with_room() {
    let servers = [server("1"), server("2")];
    let both = servers.each_ref().map(|s| s.address.clone()).join(",");
    let part = ["-m", "1536MiB"];
    assert_eq!(sees(&both, &part), "devices 1");
    let first = holds(&both, &part);
    let second = holds(&both, &part);
    for s in &servers {
        s.wait_for_sessions(1);
    }
    let third = holds(&format!("127.0.0.1:1,{both}"), &part);
    servers[1].wait_for_sessions(2);
    refused(
        &mut run(&both, &part, &["work", "1"]),
        &["1.5 GiB of device memory wanted", "try later"],
    );
    for held in [first, second, third] {
        held.goes_on_holding();
    }
}

/// What a program has that is told to take all that there is of each device.
fn takes(servers: &str, flags: &[&str]) -> String {
    printed(&mut run(servers, flags, &["quota-each"]))
}

#[test]
fn a_program_has_its_part_of_each_device_wherever_they_are() {
    let servers = [server("2"), server("2")];
    let both = servers.each_ref().map(|s| s.address.clone()).join(",");
    // A context takes 512 MiB, and what is left has room for 21 pieces of 32 MiB.
    let parts = |n: usize| {
        let each = "total 1200 free 688 taken 672\n".repeat(n);
        format!("devices {n}\nNVML: {n}\n{each}")
    };
    let part = ["-m", "1200MiB", "-n"];
    let with = |more: &[&str]| takes(&both, &[&part[..], more].concat());
    for n in [1, 2, 3, 4] {
        assert_eq!(with(&[&n.to_string()]), parts(n));
        no_leases(&servers);
    }
    assert_eq!(with(&["2", "--spread"]), parts(2));
    no_leases(&servers);
    // The neighbour on one of the devices has the rest, and keeps it.
    let held = holds(&servers[0].address, &["-m", "800MiB"]);
    assert_eq!(with(&["4", "-p", "0.25"]), parts(4));
    assert_eq!(with(&["2", "--pack"]), parts(2));
    held.goes_on_holding();
    // What is held for later is of each, too.
    let id = printed(&mut busbar(&[
        "request", "-n", "3", "-m", "1200MiB", "--server", &both,
    ]));
    assert_eq!(takes(&both, &["--lease", id.trim()]), parts(3));
    let half = takes(&both, &["--lease", id.trim(), "-m", "600MiB"]);
    let each = "total 600 free 88 taken 64\n".repeat(3);
    assert_eq!(half, format!("devices 3\nNVML: 3\n{each}"));
    printed(&mut busbar(&["release", id.trim(), "--server", &both]));
    no_leases(&servers);
}

#[test]
fn what_a_killed_client_had_is_free() {
    let servers = [server("1"), server("1")];
    let both = servers.each_ref().map(|s| s.address.clone()).join(",");
    let mut held = holds(&both, &["-n", "2"]);
    let waiter = Waiter::start(&both, &["-n", "2", "--wait", "2m"]);
    waiter.says(&["waiting for 2 GPUs"]);
    held.kill();
    waiter.holds_and_ends();
    no_leases(&servers);
}

#[test]
fn a_server_that_is_gone_is_said_to_be() {
    let mut servers = [server("1"), server("1")];
    let both = servers.each_ref().map(|s| s.address.clone()).join(",");
    let held = servers
        .each_ref()
        .map(|s| holds(&s.address, &["--gpus", "1"]));
    let mut waiter = Waiter::start(&both, &["-n", "2", "--wait", "2m"]);
    waiter.says(&["waiting for 2 GPUs"]);
    let gone = servers[1].address.clone();
    servers[1].kill();
    assert_eq!(waiter.program.wait().code(), Some(125));
    assert!(
        waiter.said().contains(&format!("{gone} went away")),
        "{}",
        waiter.said()
    );
    let [first, mut second] = held;
    second.kill();
    first.goes_on_holding();
    servers[0].wait_for_sessions(0);
    // The other one does where one is enough.
    let out = finished(&mut run(&both, &["-n", "1"], &["work", "1"]));
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success() && said.contains(&gone), "{said}");
    refused(
        &mut run(&both, &["-n", "2"], &["work", "1"]),
        &["2 GPUs wanted, but the servers have 1", &gone],
    );
    let out = finished(&mut busbar(&["health", "--json", "--server", &both]));
    assert_eq!(out.status.code(), Some(125));
    let said: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let up = |i: usize| said[i]["reachable"].as_bool();
    assert_eq!((up(0), up(1)), (Some(true), Some(false)));
    assert_eq!(
        (&said[0]["devices"], &said[0]["encrypted"]),
        (&1.into(), &false.into())
    );
    assert!(said[0]["answer_ms"].is_number() && said[1]["error"].is_string());
    let out = printed(&mut busbar(&["health", "--server", &servers[0].address]));
    assert!(out.contains(" up "), "{out}");
}

#[test]
fn a_lease_lasts_from_one_command_to_the_next() {
    let servers = [server("2"), server("2")];
    let both = servers.each_ref().map(|s| s.address.clone()).join(",");
    let at = ["--server", both.as_str()];
    let with = |args: &[&str]| busbar(&[args, &at].concat());
    let said = json(&mut with(&["request", "-n", "3", "--for", "10m", "--json"]));
    let id = said["lease"].as_str().expect("an id").to_string();
    assert_eq!((id.len(), &said["seconds"]), (32, &600.into()));
    let listed = |i: usize| json(&mut with(&["list", "--json"]))[i]["leases"].clone();
    assert_eq!(listed(0)[0]["lease"], id[..8]);
    assert_eq!(listed(1)[0]["whole"], true);
    assert!(
        listed(0)[0]["seconds_left"]
            .as_u64()
            .is_some_and(|s| s <= 600)
    );
    refused(
        &mut run(&both, &["-n", "2"], &["work", "1"]),
        &["2 wanted, 1 free", "busbar request"],
    );
    for _ in 0..2 {
        assert_eq!(sees(&both, &["--lease", &id]), "devices 3");
    }
    let text = printed(&mut with(&["list"]));
    assert!(text.contains(&id[..8]) && !text.contains(&id), "{text}");
    refused(
        &mut run(&both, &["--lease", &id[..8]], &["work", "1"]),
        &["there is no lease", "busbar list"],
    );
    let text = printed(&mut with(&["release", &id[..8]]));
    assert_eq!(text.lines().count(), 2, "{text}");
    refused(&mut with(&["release", &id]), &["there is no lease"]);
    refused(
        &mut run(&both, &["--lease", &id], &["work", "1"]),
        &["there is no lease"],
    );
    no_leases(&servers);
    let id = printed(&mut with(&["request", "-n", "4"]))
        .trim()
        .to_string();
    assert_eq!(sees(&both, &["--lease", &id]), "devices 4");
    printed(&mut with(&["release", "--all"]));
    no_leases(&servers);
    // One that nobody uses ends by itself.
    printed(&mut with(&["request", "--for", "1s"]));
    no_leases(&servers);
}

#[test]
fn a_lease_of_parts_holds_against_others() {
    let one = server("2");
    let at = &one.address;
    let with = |args: &[&str]| busbar(&[args, &["--server", at]].concat());
    let id = printed(&mut with(&[
        "request", "-n", "2", "-m", "1200MiB", "-p", "0.5",
    ]));
    let id = id.trim();
    refused(
        &mut run(at, &["-m", "1200MiB"], &["work", "1"]),
        &["no device has more than 848.0 MiB"],
    );
    refused(
        &mut run(at, &["-p", "0.6"], &["work", "1"]),
        &["0.5 that is not"],
    );
    refused(
        &mut run(at, &["-n", "1"], &["work", "1"]),
        &["1 wanted, 0 free"],
    );
    let total = |flags: &[&str]| {
        let out = printed(&mut run(at, flags, &["quota", "1", "1"]));
        out.split(' ')
            .nth(1)
            .and_then(|n| n.parse::<u64>().ok())
            .expect("a number")
            >> 20
    };
    assert_eq!(total(&["--lease", id]), 1200);
    assert_eq!(total(&["--lease", id, "-m", "700MiB"]), 700);
    one.wait_for_sessions(0);
    // All of it is with one program, which needs no more to be shown its devices.
    let held = holds(at, &["--lease", id]);
    let listed = one.sessions().remove(0);
    assert_eq!(
        (&listed["promised"], &listed["share"]),
        (&true.into(), &500.into())
    );
    refused(
        &mut run(at, &["--lease", id], &["work", "1"]),
        &["are with other programs of it"],
    );
    // What runs keeps what it has.
    printed(&mut with(&["release", id]));
    refused(
        &mut run(at, &["-m", "1200MiB"], &["work", "1"]),
        &["no device has more than 848.0 MiB"],
    );
    held.goes_on_holding();
    no_leases(&[one]);
}

#[test]
fn a_tenant_sees_and_releases_its_own_leases_and_an_admin_all() {
    let policy = "[default]\nleases = 1\n[tenant.ops]\nadmin = true\n";
    let g = Guarded::start_with(|options, folder| {
        let path = folder.join("policy.toml");
        fs::write(&path, policy).expect("a file");
        let path = path.display().to_string();
        options.env("FAKEDEV_DEVICES", "3").arg("--policy", &path)
    });
    let line = |name: &str, tenant: &str| g.line(name, &["--tenant", tenant]).line();
    let [ann, bob, ops] = [
        line("ann", "lab"),
        line("bob", "school"),
        line("olga", "ops"),
    ];
    let as_who = |who: &str, args: &[&str]| g.busbar(&[args, &["--server", who]].concat());
    let id = printed(&mut as_who(&ann, &["request"])).trim().to_string();
    refused(
        &mut as_who(&ann, &["request"]),
        &["may have 1 GPU(s) reserved"],
    );
    refused(
        &mut as_who(&bob, &["request", "-n", "2"]),
        &["may have 1 GPU(s) reserved"],
    );
    let list = |who: &str| json(&mut as_who(who, &["list", "--json"]))[0]["leases"].clone();
    let count = |who: &str| list(who).as_array().map_or(0, Vec::len);
    assert_eq!((count(&ann), count(&bob), count(&ops)), (1, 0, 1));
    assert_eq!(list(&ops)[0]["tenant"], "lab");
    refused(
        &mut as_who(&bob, &["release", &id]),
        &["there is no lease", "that is yours"],
    );
    let run_as = |who: &str| {
        g.busbar(&[
            "run", "--server", who, "--lease", &id, "--", PROGRAM, "work", "1",
        ])
    };
    refused(&mut run_as(&bob), &["there is no lease"]);
    printed(&mut run_as(&ann));
    printed(&mut as_who(&bob, &["release", "--all"]));
    assert_eq!(count(&ann), 1, "those are bob's");
    printed(&mut as_who(&ops, &["release", &id[..8]]));
    assert_eq!(count(&ann), 0);
    // A token that is revoked takes its leases along.
    printed(&mut as_who(&bob, &["request"]));
    assert_eq!(count(&ops), 1);
    g.token(&["revoke", "bob"]);
    until("the end of the lease", || (count(&ops) == 0).then_some(()));
}
