//! Copies between devices of two servers: they go from the one to the other, and what they bring is
//! what a copy on one server brings, whatever becomes of the links.

use busbar_client::hello::{Failure, connect};
use busbar_client::servers;
use busbar_control::hello::{Hello, Intent, Link, Ticket, Welcome};
use busbar_e2e::guarded::Guarded;
use busbar_e2e::program::{Running, finished, native, printed, remote_at};
use busbar_e2e::server::{Options, Server};
use busbar_e2e::until;
use busbar_harness::rng::{Rng, seeds};
use busbar_transport::Connection;
use busbar_transport::tcp::Address;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_driver_program");

fn program() -> &'static Path {
    Path::new(PROGRAM)
}

/// Two servers of two devices each, with more flags.
fn two(flags: &[&str]) -> [Server; 2] {
    [(); 2].map(|()| {
        let mut options = Options::default().env("FAKEDEV_DEVICES", "2");
        options.args.extend(flags.iter().map(ToString::to_string));
        options.start()
    })
}

fn both(servers: &[Server; 2]) -> String {
    servers.each_ref().map(|s| s.address.clone()).join(",")
}

/// What a program prints on one machine with four devices.
fn wanted(args: &[&str]) -> String {
    let mut c = native(program());
    printed(c.env("FAKEDEV_DEVICES", "4").args(args))
}

/// Bytes that the client has sent, received and shared with a worker, of all its sessions.
fn moved(out: &Output) -> u64 {
    let err = String::from_utf8_lossy(&out.stderr);
    let lines = err.lines().filter_map(|l| l.strip_prefix("busbar-stats: "));
    let all = lines.map(|l| serde_json::from_str::<serde_json::Value>(l).expect("JSON"));
    let of = |v: &serde_json::Value, name: &str| v[name].as_u64().expect("a number");
    let each = all.map(|v| {
        let names = ["bytes_sent", "bytes_received", "bytes_shared"];
        names.map(|name| of(&v, name)).iter().sum::<u64>()
    });
    let each: Vec<_> = each.collect();
    assert_eq!(each.len(), 2, "a line for each session: {err}");
    each.iter().sum()
}

/// Runs a program that says in the log what becomes of its copies: what it printed, how many bytes
/// the client moved, and the log.
fn run(mut c: Command, args: &[&str]) -> Said {
    c.args(args)
        .env("BUSBAR_STATS", "1")
        .env("BUSBAR_LOG", "info");
    let out = finished(&mut c);
    let log = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{}: {log}", out.status);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    (text, moved(&out), log)
}

/// What a run said: what it printed, how many bytes the client moved, the log.
type Said = (String, u64, String);

/// The same, until it is as it is where nothing is late: on a machine that is very busy a server
/// may not be heard from in time, and then copies rightly go through the client.
fn in_time(is: impl Fn(&Said) -> bool, run: impl Fn() -> Said) -> Said {
    let mut said = run();
    for _ in 0..4 {
        if is(&said) {
            break;
        }
        said = run();
    }
    said
}

/// Its copies went straight, and the client moved less than `most`.
fn straight(most: u64) -> impl Fn(&Said) -> bool {
    move |(_, moved, log)| log.contains(STRAIGHT) && *moved < most
}

/// It has said that its copies go through the client.
fn through((_, _, log): &Said) -> bool {
    log.contains(THROUGH)
}

const STRAIGHT: &str = " go straight";
const THROUGH: &str = " go through this machine";

/// Bytes of a copy, and how many there are.
const LEN: usize = (2 << 20) + 4096;
const ROUNDS: u64 = 9;

fn around() -> [String; 3] {
    ["around".into(), LEN.to_string(), ROUNDS.to_string()]
}

#[test]
fn big_copies_do_not_pass_the_client() {
    let args = around();
    let args = args.each_ref().map(String::as_str);
    let wanted = wanted(&args);
    let carried = ROUNDS * LEN as u64;
    assert!(wanted.contains(&format!("carried {carried} ")), "{wanted}");
    let servers = two(&[]);
    let address = both(&servers);
    let (got, moved, log) = in_time(straight(carried / 100), || {
        run(remote_at(&address, program()), &args)
    });
    assert_eq!(got, wanted);
    assert_eq!(log.matches(STRAIGHT).count(), 1, "{log}");
    assert!(moved < carried / 100, "{moved} of {carried} bytes: {log}");
    for s in &servers {
        s.wait_for_sessions(0);
    }
    // Without links all bytes are seen here, in and out.
    let mut c = remote_at(&both(&servers), program());
    c.env("BUSBAR_LINKS", "0");
    let (got, moved, log) = run(c, &args);
    assert_eq!(got, wanted);
    assert!(moved > 2 * carried && !log.contains(STRAIGHT), "{log}");
}

#[test]
fn where_a_server_makes_no_links_copies_go_through_the_client() {
    let args = ["around", "600000", "5"];
    let wanted = wanted(&args);
    let carried = 5 * 600_000;
    let servers = two(&["--no-links"]);
    let address = both(&servers);
    let (got, moved, log) = in_time(through, || run(remote_at(&address, program()), &args));
    assert_eq!(got, wanted);
    assert_eq!(log.matches(THROUGH).count(), 1, "it is said once: {log}");
    assert!(log.contains("--no-links") && moved > carried, "{log}");
    // One is enough to forbid them, since both are asked.
    let [refuses, _] = servers;
    let [takes, _] = two(&[]);
    let mixed = [refuses, takes];
    let address = both(&mixed);
    let (got, _, log) = in_time(through, || run(remote_at(&address, program()), &args));
    assert_eq!(got, wanted);
    assert_eq!(log.matches(THROUGH).count(), 1, "{log}");
}

#[test]
fn whoever_may_have_no_links_by_the_policy_copies_through_the_client() {
    let args = ["around", "600000", "5"];
    let folder = tempfile::tempdir().expect("a folder");
    let policy = folder.path().join("policy.toml");
    std::fs::write(&policy, "[default]\nlinks = false\n").expect("a file");
    // One of the two servers says so, as the one that is to be dialled or the one that dials.
    let policy = policy.display().to_string();
    let [strict, _] = two(&["--policy", &policy]);
    let [open, _] = two(&[]);
    let servers = [strict, open];
    let address = both(&servers);
    let (got, _, log) = in_time(through, || run(remote_at(&address, program()), &args));
    assert_eq!(got, wanted(&args));
    assert_eq!(log.matches(THROUGH).count(), 1, "{log}");
    assert!(log.contains("by this server's policy"), "{log}");
}

#[test]
fn encrypted_servers_link_with_the_key_that_is_theirs() {
    let args = ["around", "1200000", "5"];
    let wanted = wanted(&args);
    let devices = |o: Options, _: &Path| o.env("FAKEDEV_DEVICES", "2");
    let guarded = [(); 2].map(|()| Guarded::start_with(devices));
    let lines = guarded.each_ref().map(|g| g.line("ann", &[]));
    let run_at = |lines: [servers::Server; 2]| {
        let mut c = guarded[0].busbar(&["run", "--", PROGRAM]);
        c.env(
            "BUSBAR_SERVER",
            lines.each_ref().map(servers::Server::line).join(","),
        );
        run(c, &args)
    };
    let (got, moved, log) = in_time(straight(500_000), || run_at(lines.clone()));
    assert_eq!(got, wanted);
    assert!(log.contains(STRAIGHT) && moved < 500_000, "{moved}: {log}");
    // One that does not encrypt is not dialled by one that does; the other way round it is.
    let clear = Options::default().env("FAKEDEV_DEVICES", "2").start();
    let [ann, _] = lines;
    let (got, _, log) = in_time(straight(u64::MAX), || {
        let mut c = guarded[0].busbar(&["run", "--", PROGRAM]);
        c.env("BUSBAR_SERVER", format!("{},{}", ann.line(), clear.address));
        run(c, &args)
    });
    assert_eq!(got, wanted);
    assert!(log.contains(STRAIGHT), "{log}");
    assert!(clear.log().contains("a link is dialled"));
    assert!(!guarded[0].server.log().contains(&clear.address));
}

/// Stands before a server, and cuts links to it: each after so many bytes, and never a session.
struct Shears {
    address: String,
    cuts: Arc<AtomicUsize>,
}

impl Shears {
    fn start(server: &str, seed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let (server, cuts) = (server.to_string(), Arc::new(AtomicUsize::new(0)));
        let (rng, count) = (Arc::new(Mutex::new(Rng::new(seed))), cuts.clone());
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (server, rng, count) = (server.clone(), rng.clone(), count.clone());
                std::thread::spawn(move || _ = pass(&client, &server, &rng, &count));
            }
        });
        Self { address, cuts }
    }
}

/// Passes on what one says to the server, and back.
fn pass(
    client: &TcpStream,
    server: &str,
    rng: &Mutex<Rng>,
    cuts: &Arc<AtomicUsize>,
) -> std::io::Result<()> {
    let behind = TcpStream::connect(server)?;
    client.set_nodelay(true)?;
    behind.set_nodelay(true)?;
    // A hello is short, and comes at once.
    let mut first = vec![0; 1 << 16];
    let n = (&*client).read(&mut first)?;
    first.truncate(n);
    let text = String::from_utf8_lossy(&first);
    let most = match text.contains("\"intent\":\"link\"") {
        true => 2000 + rng.lock().expect("nobody panics").magnitude(1 << 20),
        false => u64::MAX,
    };
    (&behind).write_all(&first)?;
    let left = Arc::new(Mutex::new(most));
    for (from, to) in [(client, &behind), (&behind, client)] {
        let (mut from, mut to) = (from.try_clone()?, to.try_clone()?);
        let (left, cuts) = (left.clone(), cuts.clone());
        std::thread::spawn(move || {
            let mut room = vec![0; 1 << 16];
            while let Ok(n) = from.read(&mut room)
                && n > 0
            {
                let mut left = left.lock().expect("nobody panics");
                let may = n.min(*left as usize);
                *left -= may as u64;
                let cut = *left == 0;
                drop(left);
                if to.write_all(&room[..may]).is_err() {
                    break;
                }
                if cut {
                    cuts.fetch_add(1, Ordering::Relaxed);
                    break;
                }
            }
            let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
        });
    }
    Ok(())
}

#[test]
fn links_that_are_cut_again_and_again_change_nothing() {
    if busbar_e2e::tree::over_verbs() {
        // They leave the connection that is cut before it is.
        return;
    }
    let (cuts, links) = (AtomicUsize::new(0), AtomicUsize::new(0));
    seeds(4, |seed| {
        let servers = two(&[]);
        let mut number = seed;
        let shears = servers.each_ref().map(|s| {
            number += 1000;
            Shears::start(&s.address, number)
        });
        let address = shears.each_ref().map(|s| s.address.clone()).join(",");
        let seed = seed.to_string();
        let args = ["random-devices", &seed, "150", "2000000"];
        let wanted = wanted(&args);
        let (got, _, log) = run(remote_at(&address, program()), &args);
        assert_eq!(got, wanted, "seed {seed}");
        let here = shears.iter().map(|s| s.cuts.load(Ordering::Relaxed));
        cuts.fetch_add(here.sum(), Ordering::Relaxed);
        links.fetch_add(log.matches(STRAIGHT).count(), Ordering::Relaxed);
    });
    // One program may have had none, but not all of them.
    let (cuts, links) = (cuts.into_inner(), links.into_inner());
    assert!(cuts > 0 && links > 0, "{cuts} cuts of {links} links");
}

#[test]
fn a_server_that_dies_takes_copies_along_and_nothing_else() {
    let mut servers = two(&[]);
    let mut c = remote_at(&both(&servers), program());
    c.env("BUSBAR_RESUME_TIMEOUT", "1");
    let mut running = Running::start(c.arg("one-is-cut-off"));
    running.line_with("ready");
    for s in &servers {
        until("a session with a link", || {
            let sessions = s.sessions();
            (sessions.first()?["objects"]["Link"] == 1).then_some(())
        });
    }
    servers[1].kill();
    let (rest, status) = running.finish();
    assert!(status.success(), "{status}: {rest}");
    assert_eq!(
        rest,
        "to the dead: true\nfrom the dead: true\nthe other: 0 true\n"
    );
}

/// Says a hello to a server, in clear; the connection lasts as long as what is returned.
fn say(server: &Server, hello: &Hello) -> Result<(Arc<dyn Connection>, Welcome), Failure> {
    connect(
        &Address::new(&server.address),
        hello,
        Duration::from_secs(60),
    )
}

/// A session of a client that says nothing more.
struct Quiet<'a> {
    server: &'a Server,
    hello: Hello,
    _conn: Arc<dyn Connection>,
}

impl<'a> Quiet<'a> {
    fn open(server: &'a Server) -> Self {
        let mut hello = Hello::new(Intent::Open);
        hello.api = "cuda".into();
        let opened = say(server, &hello).map_err(|e| e.to_string());
        let (conn, w) = opened.expect("a session");
        (hello.session, hello.secret) = (w.session, w.secret);
        Self {
            server,
            hello,
            _conn: conn,
        }
    }

    fn ask(&self, intent: Intent, link: Link) -> Result<Welcome, String> {
        let hello = Hello {
            intent,
            link,
            ..self.hello.clone()
        };
        let said = say(self.server, &hello).map_err(|e| match e {
            Failure::Refused(r) => format!("{}: {}", r.code, r.message),
            Failure::Unreachable(why) => panic!("{why}"),
        });
        said.map(|(_, w)| w)
    }

    fn ticket(&self) -> String {
        let w = self.ask(Intent::Ticket, Link::default()).expect("a ticket");
        let said: Ticket = w.read("it").expect("a document");
        assert!(said.key.is_empty() && said.ticket.len() == 64, "{said:?}");
        said.ticket
    }

    /// Comes to a server with a ticket, for this session.
    fn come(&self, ticket: &str) -> Result<Welcome, String> {
        let link = Link {
            ticket: ticket.into(),
            ..Link::default()
        };
        // Another server knows nothing else.
        let hello = Hello {
            secret: String::new(),
            ..self.hello.clone()
        };
        let other = Quiet {
            server: self.server,
            hello,
            _conn: self._conn.clone(),
        };
        other.ask(Intent::Link, link)
    }
}

#[test]
fn a_ticket_lets_one_link_into_one_session() {
    let server = Options::default().start();
    let (mine, other) = (Quiet::open(&server), Quiet::open(&server));
    let no = |said: Result<Welcome, String>| {
        let why = said.expect_err("it is not good");
        assert!(why.starts_with("link: the ticket"), "{why}");
    };
    for nonsense in ["", "0", &"0".repeat(64)] {
        no(mine.come(nonsense));
    }
    // Another's session; and then it is used up.
    let ticket = mine.ticket();
    no(other.come(&ticket));
    no(mine.come(&ticket));
    let ticket = mine.ticket();
    let w = mine.come(&ticket).expect("a link");
    assert!(w.secret.is_empty(), "no server hears a session's secret");
    no(mine.come(&ticket));
    // Who cannot resume a session gets no ticket for it, and has nobody dialled for it.
    let stranger = Quiet {
        server: &server,
        hello: Hello {
            secret: other.hello.secret.clone(),
            ..mine.hello.clone()
        },
        _conn: mine._conn.clone(),
    };
    for intent in [Intent::Ticket, Intent::Dial] {
        let why = stranger.ask(intent, Link::default()).expect_err("no right");
        assert!(why.starts_with("session: "), "{why}");
    }
    // The session is as it was.
    server.wait_for_sessions(2);
}

#[test]
fn what_a_client_may_have_dialled_tells_it_nothing() {
    let server = Options::default().start();
    let mine = Quiet::open(&server);
    let open = TcpListener::bind("127.0.0.1:0").expect("a port");
    let closed = {
        let gone = TcpListener::bind("127.0.0.1:0").expect("a port");
        gone.local_addr().expect("its address").to_string()
    };
    let open_at = open.local_addr().expect("its address").to_string();
    // Says something, but not what a server says.
    std::thread::spawn(move || {
        for mut s in open.incoming().flatten() {
            let _ = s.write_all(b"220 secret service ready\r\n");
        }
    });
    let dial = |address: &str, key: &str| {
        let link = Link {
            number: 1,
            address: address.into(),
            key: key.into(),
            session: "00".into(),
            ticket: "00".into(),
        };
        let why = mine.ask(Intent::Dial, link).expect_err("no link");
        assert!(!why.contains("secret"), "{why}");
        why
    };
    let one = dial(&closed, "");
    assert!(one.starts_with("link: this server does not reach"), "{one}");
    let key = "ab".repeat(32);
    for (address, key) in [
        (&*open_at, ""),
        (&open_at, &key),
        (&server.address, ""),
        (&server.address, &key),
        ("169.254.169.254:80", ""),
        ("0.0.0.0:1", ""),
        ("[ff02::1]:7400", ""),
        ("nowhere", ""),
        ("", ""),
        (&closed, "no key"),
    ] {
        assert_eq!(dial(address, key), one, "{address} {key}");
    }
    server.wait_for_sessions(1);
}
