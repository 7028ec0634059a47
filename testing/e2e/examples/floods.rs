//! Floods a server that encrypts, and prints what that costs it and others: its memory, how long an
//! honest client waits for a session, and whether a session that is open goes on.
//!
//! ```text
//! cargo run -p busbar-e2e --example floods -- [SECONDS] [FLOOD ...]
//! ```
//! Each flood lasts so many seconds (10 if left out); it comes from 40 networks, whose processors
//! are the server's own. `BUSBAR_TREE` names the tree to test, as for the tests.

use busbar_control::hello::{Hello, Intent, Welcome};
use busbar_e2e::guarded::Guarded;
use busbar_e2e::hostile::{frame_of, record_of};
use busbar_e2e::proc;
use busbar_transport::Connection;
use busbar_transport::stream::Stream;
use busbar_transport::tcp::Tcp;
use busbar_transport::tls::{self, Trust};
use busbar_wire::codec::Request;
use busbar_wire::frame::{self, Kind};
use busbar_wire::generated::cuda;
use busbar_wire::record::{Notice, Records};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::os::fd::FromRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The threads of a flood, and its networks.
const THREADS: usize = 4;
const NETWORKS: u64 = 40;
/// The most connections of a flood that are open at a time.
const OPEN: usize = 10_000;
const PATIENCE: Duration = Duration::from_secs(20);
const MIB: f64 = 1024.0;

type Flood = fn(&Target, &AtomicU64, &AtomicBool);

const FLOODS: &[(&str, Flood)] = &[
    ("nothing", |_, _, _| ()),
    ("silence", |t, n, end| half_open(t, n, end, |_| &[])),
    ("half-handshakes", |t, n, end| {
        half_open(t, n, end, |_| HALF)
    }),
    // Of each network as many of the one kind as of the other.
    ("both", |t, n, end| {
        half_open(t, n, end, |n| match n / NETWORKS % 2 {
            0 => HALF,
            _ => &[],
        })
    }),
    ("handshakes", |t, n, end| {
        each(t, n, end, &|conn| _ = t.encrypt(conn))
    }),
    ("clear-hellos", |t, n, end| {
        each(t, n, end, &|conn| clear_hello(conn))
    }),
    ("hellos", |t, n, end| {
        let hello = Hello {
            token: "x".repeat(43),
            ..t.hello(Intent::Open, "")
        };
        each(t, n, end, &|conn| _ = t.greet(conn, &hello));
    }),
    ("opens", |t, n, end| {
        let hello = t.hello(Intent::Open, &t.flooder);
        each(t, n, end, &|conn| _ = t.say(conn, &hello));
    }),
    ("sessions", |t, n, end| {
        let hello = t.hello(Intent::Open, &t.flooder);
        each(t, n, end, &|conn| _ = t.greet(conn, &hello));
    }),
    ("resumes", |t, n, end| {
        let hello = Hello {
            session: "0".repeat(12),
            ..t.hello(Intent::Resume, &t.flooder)
        };
        each(t, n, end, &|conn| _ = t.greet(conn, &hello));
    }),
    ("status", |t, n, end| {
        let hello = t.hello(Intent::Status, &t.flooder);
        each(t, n, end, &|conn| _ = t.greet(conn, &hello));
    }),
    ("records", |t, n, end| records(t, n, end)),
];

/// A server, and who comes to it.
struct Target {
    address: SocketAddrV4,
    pid: u32,
    tls: tls::Client,
    /// Tokens of three tenants.
    flooder: String,
    honest: String,
    neighbour: String,
}

impl Target {
    fn hello(&self, intent: Intent, token: &str) -> Hello {
        let mut hello = Hello::new(intent);
        hello.api = "cuda".into();
        hello.token = token.into();
        // As from another machine: no process is looked for.
        hello.client.boot_id = "another".into();
        hello
    }

    fn encrypt(&self, conn: TcpStream) -> io::Result<Stream> {
        let tls = self.tls.connect(Tcp::new(conn)?, PATIENCE)?;
        Ok(Stream::Encrypted(Box::new(tls)))
    }

    /// Says hello, and does not wait for an answer.
    fn say(&self, conn: TcpStream, hello: &Hello) -> io::Result<Stream> {
        let conn = self.encrypt(conn)?;
        let body = serde_json::to_vec(hello)?;
        send(&conn, &frame_of(Kind::Hello, 0, 0, &body))?;
        Ok(conn)
    }

    /// Says hello, and hears whether there is a session.
    fn greet(&self, conn: TcpStream, hello: &Hello) -> io::Result<(Stream, Welcome)> {
        let conn = self.say(conn, hello)?;
        conn.recv_timeout(Some(PATIENCE))?;
        loop {
            let (kind, _, body) = receive(&conn)?;
            if kind == Kind::Welcome {
                return Ok((conn, serde_json::from_slice(&body)?));
            }
        }
    }

    fn dial(&self, network: u64) -> io::Result<TcpStream> {
        let from = Ipv4Addr::new(127, 1 + (network % NETWORKS) as u8, 0, 1);
        dial(from, self.address)
    }
}

/// Connects from an address of this machine.
fn dial(from: Ipv4Addr, to: SocketAddrV4) -> io::Result<TcpStream> {
    let place = |ip: Ipv4Addr, port: u16| libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from(ip).to_be(),
        },
        sin_zero: [0; 8],
    };
    let check = |rc: i32| match rc {
        ..0 => Err(io::Error::last_os_error()),
        _ => Ok(rc),
    };
    let (from, to) = (place(from, 0), place(*to.ip(), to.port()));
    let (size, yes) = (size_of_val(&to) as u32, 1i32);
    // SAFETY: plain system calls with values that live as long as they; the socket is ours.
    unsafe {
        let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
        let fd = check(libc::socket(libc::AF_INET, kind, 0))?;
        let stream = TcpStream::from_raw_fd(fd);
        // The port is chosen with the other end in mind: there are more than of one address.
        let later = libc::IP_BIND_ADDRESS_NO_PORT;
        check(libc::setsockopt(
            fd,
            libc::IPPROTO_IP,
            later,
            (&raw const yes).cast(),
            4,
        ))?;
        check(libc::bind(fd, (&raw const from).cast(), size))?;
        check(libc::connect(fd, (&raw const to).cast(), size))?;
        Ok(stream)
    }
}

fn send(conn: &Stream, bytes: &[u8]) -> io::Result<()> {
    conn.send(&mut [IoSlice::new(bytes)])
}

fn receive(conn: &Stream) -> io::Result<(Kind, u64, Vec<u8>)> {
    let mut head = [0; frame::HEADER];
    conn.recv_exact(&mut head)?;
    let h = frame::Header::parse(&head).map_err(|e| io::Error::other(format!("{e:?}")))?;
    let mut body = vec![0; h.len as usize];
    conn.recv_exact(&mut body)?;
    Ok((h.kind, h.seq, body))
}

/// Does something with one connection after the other.
fn each(t: &Target, done: &AtomicU64, end: &AtomicBool, one: &(dyn Fn(TcpStream) + Sync)) {
    while !end.load(Ordering::Relaxed) {
        let n = done.fetch_add(1, Ordering::Relaxed);
        if let Ok(conn) = t.dial(n) {
            one(conn);
        }
    }
}

/// The beginning of a handshake.
const HALF: &[u8] = b"\x16\x03\x01\x02\x00\x01";

/// Keeps connections open that say this, by their number, and no more; the oldest make room for new
/// ones.
fn half_open(t: &Target, done: &AtomicU64, end: &AtomicBool, said: fn(u64) -> &'static [u8]) {
    let mut open = VecDeque::new();
    while !end.load(Ordering::Relaxed) {
        let n = done.fetch_add(1, Ordering::Relaxed);
        if let Ok(conn) = t.dial(n) {
            let _ = io::Write::write_all(&mut &conn, said(n));
            open.push_back(conn);
        }
        if open.len() > OPEN / THREADS {
            open.pop_front();
        }
    }
}

fn clear_hello(conn: TcpStream) {
    let hello = frame_of(Kind::Hello, 0, 0, &[b'{'; 60_000]);
    let _ = io::Write::write_all(&mut &conn, &hello);
    let _ = io::Read::read(&mut &conn, &mut [0; 2000]);
}

/// A session whose client waits for each of its calls.
struct Session {
    conn: Stream,
    seq: u64,
}

impl Session {
    fn open(t: &Target, token: &str, network: u64) -> io::Result<Self> {
        let (conn, welcome) = t.greet(t.dial(network)?, &t.hello(Intent::Open, token))?;
        match welcome.refusal {
            None => Ok(Self { conn, seq: 0 }),
            Some(r) => Err(io::Error::other(r.message)),
        }
    }

    fn call(&mut self) -> io::Result<()> {
        self.seq += 1;
        let record = record_of(cuda::OpenCuda::OP, self.seq as u32, 0, &[]);
        send(&self.conn, &frame_of(Kind::Data, self.seq, 0, &record))?;
        loop {
            let (kind, seq, body) = receive(&self.conn)?;
            if kind != Kind::Data {
                continue;
            }
            send(&self.conn, &frame_of(Kind::Ack, 0, seq, &[]))?;
            let mut all = Records::new(&body).flatten();
            if all.any(|(h, _)| h.op == Notice::Reply as u16 && h.call == self.seq as u32) {
                return Ok(());
            }
        }
    }
}

/// Calls without end, whose answers nobody waits for.
fn records(t: &Target, done: &AtomicU64, end: &AtomicBool) {
    let Ok(mut s) = Session::open(t, &t.flooder, done.fetch_add(1, Ordering::Relaxed)) else {
        return;
    };
    let _ = (
        s.conn.send_timeout(Some(PATIENCE)),
        s.conn.recv_timeout(Some(PATIENCE)),
    );
    let (conn, over) = (&s.conn, &AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while receive(conn).is_ok() && !end.load(Ordering::Relaxed) {}
            over.store(true, Ordering::Relaxed);
            conn.shutdown();
        });
        while !end.load(Ordering::Relaxed) && !over.load(Ordering::Relaxed) {
            let calls = (1..=100).map(|n| record_of(cuda::OpenCuda::OP, n, 0, &[]));
            let body: Vec<_> = calls.flatten().collect();
            s.seq += 1;
            if send(conn, &frame_of(Kind::Data, s.seq, 0, &body)).is_err() {
                break;
            }
            done.fetch_add(100, Ordering::Relaxed);
        }
        conn.shutdown();
    });
}

/// Times in milliseconds.
#[derive(Default)]
struct Times(Vec<f64>);

impl Times {
    fn measure<T>(&mut self, one: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let start = Instant::now();
        let done = one()?;
        self.0.push(start.elapsed().as_secs_f64() * 1e3);
        Ok(done)
    }

    fn shown(&mut self) -> String {
        self.0.sort_by(f64::total_cmp);
        let (n, worst) = (self.0.len(), self.0.last().copied().unwrap_or(f64::NAN));
        let median = self.0.get(n / 2).copied().unwrap_or(f64::NAN);
        format!("{n:>6} {median:>7.1} {worst:>7.0}")
    }
}

/// How many connections the system has dropped because a server did not take them in: whoever made
/// them asks again after a second.
fn dropped() -> u64 {
    let text = std::fs::read_to_string("/proc/net/netstat").unwrap_or_default();
    let mut of_tcp = text.lines().filter(|l| l.starts_with("TcpExt:"));
    let (names, values) = (of_tcp.next(), of_tcp.next());
    let (Some(names), Some(values)) = (names, values) else {
        return 0;
    };
    let mut all = names.split(' ').zip(values.split(' '));
    let found = all.find(|(name, _)| *name == "ListenOverflows");
    found.and_then(|(_, n)| n.parse().ok()).unwrap_or(0)
}

/// What a server and all that it has started take, in MiB: the first one's own, and their sum.
fn memory(pid: u32) -> (f64, f64) {
    fn all(pid: u32) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        let line = text
            .lines()
            .find_map(|l| l.strip_prefix("Pss:"))
            .unwrap_or_default();
        let own = line
            .split_whitespace()
            .next()
            .and_then(|w| w.parse::<u64>().ok());
        own.unwrap_or(0) + proc::children(pid).into_iter().map(all).sum::<u64>()
    }
    (proc::resident_kib(pid) as f64 / MIB, all(pid) as f64 / MIB)
}

/// Floods a server of its own, and prints a line.
fn measure(name: &str, flood: Flood, time: Duration) {
    let g = Guarded::start();
    let address = g.server.address.parse().expect("an IPv4 address");
    let line = |name: &str| g.line(name, &["--tenant", name]);
    let flooder = line("flooder");
    let key = flooder.key.parse().expect("a key");
    let t = Target {
        address,
        pid: g.server.pid(),
        tls: tls::Client::new("127.0.0.1", Trust::Key(key), None).expect("a client"),
        flooder: flooder.token,
        honest: line("honest").token,
        neighbour: line("neighbour").token,
    };
    let mut neighbour = Session::open(&t, &t.neighbour, 0).expect("a session");
    neighbour.call().expect("an answer");
    let before = dropped();
    let (own, all) = memory(t.pid);
    let (end, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut opens, mut calls) = (Times::default(), Times::default());
    let (mut most_own, mut most_all, mut failed, mut over) = (0f64, 0f64, 0, "goes on");
    let lasts = || !end.load(Ordering::Relaxed);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| flood(&t, &done, &end));
        }
        scope.spawn(|| {
            for network in 0.. {
                if !lasts() {
                    break;
                }
                // By turns from a network of the flood's and from one of its own.
                let from = NETWORKS * (network % 2);
                let from = Ipv4Addr::new(127, 1 + from as u8, 0, 9);
                let hello = t.hello(Intent::Open, &t.honest);
                let open = || match t.greet(dial(from, t.address)?, &hello)?.1.refusal {
                    None => Ok(()),
                    Some(r) => Err(io::Error::other(r.message)),
                };
                if let Err(e) = opens.measure(open) {
                    eprintln!("{name}: an honest open: {e}");
                    failed += 1;
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        scope.spawn(|| {
            while lasts() {
                if let Err(e) = calls.measure(|| neighbour.call()) {
                    eprintln!("{name}: the neighbour: {e}");
                    over = "is over";
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let start = Instant::now();
        while start.elapsed() < time {
            let (own, all) = memory(t.pid);
            (most_own, most_all) = (most_own.max(own), most_all.max(all));
            std::thread::sleep(Duration::from_millis(100));
        }
        end.store(true, Ordering::Relaxed);
    });
    let rate = done.load(Ordering::Relaxed) as f64 / time.as_secs_f64();
    println!(
        "{name:<16} {rate:>9.0} {:>7} {:>7.0} {:>7.0} {} {failed:>6} {}  {over}",
        dropped() - before,
        most_own - own,
        most_all - all,
        opens.shown(),
        calls.shown(),
    );
}

fn main() {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let seconds = args.iter().find_map(|a| a.parse().ok()).unwrap_or(10);
    let wanted: Vec<_> = args.iter().filter(|a| a.parse::<u64>().is_err()).collect();
    let limit = libc::rlimit {
        rlim_cur: 20_000,
        rlim_max: 20_000,
    };
    // SAFETY: a live structure.
    let enough = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    assert_eq!(
        enough, 0,
        "ten thousand connections take 20,000 descriptors (`ulimit -Hn`)"
    );
    println!(
        "{:<16} {:>17} {:>15} {:>29} {:>22}",
        "", "", "MiB more", "honest opens (ms)", "neighbour's calls (ms)"
    );
    println!(
        "{:<16} {:>9} {:>7} {:>7} {:>7} {:>6} {:>7} {:>7} {:>6} {:>6} {:>7} {:>7}",
        "flood of",
        "a second",
        "dropped",
        "server",
        "all",
        "all",
        "median",
        "most",
        "failed",
        "all",
        "median",
        "most"
    );
    for (name, flood) in FLOODS {
        if wanted.is_empty() || wanted.contains(&&name.to_string()) {
            measure(name, *flood, Duration::from_secs(seconds));
        }
    }
}
