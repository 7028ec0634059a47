//! Measures the relay beside a direct connection over loopback, on the machine it is to be used on.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::relay::{Options, Relay};
use crate::shaper::Nanos;
use crate::sock;
use crate::stats::Report;
use crate::units::{LinkSpec, show_rate};

const MESSAGE: usize = 64;
const PINGS: usize = 3000;
const PING_TIME: Duration = Duration::from_secs(3);
/// Bulk transfers run this long; the first part is not counted.
const BULK_TIME: Duration = Duration::from_millis(1500);
const BULK_SKIP: Duration = Duration::from_millis(300);
const BLOCK: usize = 256 << 10;
/// What the link may be off by: this, or this part of a long delay, in which the caches of both
/// ends go cold as they do not on the direct connection it is compared with.
const DELAY_LIMIT_NS: f64 = 10_000.0;
const DELAY_LIMIT_PART: f64 = 0.005;
const RATE_LIMIT: f64 = 0.02;

const ECHO: u8 = b'e';
const TAKE: u8 = b't';
const GIVE: u8 = b'g';

/// Bytes a second of one transfer.
fn drain(mut from: impl Read) -> io::Result<f64> {
    let mut buffer = vec![0; BLOCK];
    let begin = Instant::now();
    let (mut first, mut last, mut bytes) = (None, begin, 0u64);
    loop {
        let len = from.read(&mut buffer)?;
        if len == 0 {
            break;
        }
        let now = Instant::now();
        if now - begin < BULK_SKIP {
            continue;
        }
        // What came with the first counted read came before it.
        if first.is_none() {
            first = Some(now);
        } else {
            bytes += len as u64;
        }
        last = now;
    }
    let seconds = first.map_or(0.0, |first| (last - first).as_secs_f64());
    Ok(if seconds > 0.0 {
        bytes as f64 / seconds
    } else {
        0.0
    })
}

fn fill(mut to: impl Write) -> io::Result<()> {
    let block = vec![0; BLOCK];
    let begin = Instant::now();
    while begin.elapsed() < BULK_TIME {
        to.write_all(&block)?;
    }
    Ok(())
}

/// The far end: each connection says with its first byte what it wants.
fn serve(mut socket: TcpStream, rates: &Sender<io::Result<f64>>) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let mut kind = [0];
    socket.read_exact(&mut kind)?;
    match kind[0] {
        ECHO => echo(&mut socket)?,
        // The receiver is gone only if the test has failed already.
        TAKE => drop(rates.send(drain(socket))),
        _ => fill(socket)?,
    }
    Ok(())
}

fn connect(to: SocketAddr, kind: u8) -> io::Result<TcpStream> {
    let mut socket = TcpStream::connect(to)?;
    socket.set_nodelay(true)?;
    socket.write_all(&[kind])?;
    Ok(socket)
}

/// Reads one message; returns when its last byte reached this side's kernel, so the time that a
/// sleeping thread takes to wake up is not counted as the link's.
fn receive(socket: &TcpStream, message: &mut [u8; MESSAGE]) -> io::Result<Nanos> {
    let (mut len, mut at) = (0, 0);
    while len < MESSAGE {
        let (read, stamp) = sock::receive(socket, &mut message[len..], true)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        (len, at) = (len + read, stamp);
    }
    Ok(at)
}

fn put(message: &mut [u8; MESSAGE], at: usize, value: Nanos) {
    message[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn get(message: &[u8; MESSAGE], at: usize) -> Nanos {
    message[at..at + 8]
        .iter()
        .rev()
        .fold(0, |value, &byte| value << 8 | Nanos::from(byte))
}

/// Answers each message with the time it took to get here, and when the answer was sent.
fn echo(socket: &mut TcpStream) -> io::Result<()> {
    sock::prepare(socket)?;
    let mut message = [0; MESSAGE];
    while let Ok(arrived) = receive(socket, &mut message) {
        let took = arrived.saturating_sub(get(&message, 0));
        put(&mut message, 8, took);
        put(&mut message, 0, sock::now());
        socket.write_all(&message)?;
    }
    Ok(())
}

/// Times in nanoseconds, sorted: of one way (both ways together), and of the round trip as the
/// program sees it.
fn pings(to: SocketAddr) -> io::Result<(Vec<f64>, Vec<f64>)> {
    let mut socket = connect(to, ECHO)?;
    sock::prepare(&socket)?;
    let mut message = [7; MESSAGE];
    let (mut one_way, mut round_trip) = (Vec::new(), Vec::new());
    let begin = Instant::now();
    while round_trip.len() < PINGS && begin.elapsed() < PING_TIME {
        let sent = sock::now();
        put(&mut message, 0, sent);
        socket.write_all(&message)?;
        let arrived = receive(&socket, &mut message)?;
        round_trip.push((sock::now() - sent) as f64);
        one_way.push(get(&message, 8) as f64);
        one_way.push(arrived.saturating_sub(get(&message, 0)) as f64);
    }
    for times in [&mut one_way, &mut round_trip] {
        // The first ones warm things up.
        times.drain(..times.len() / 10);
        times.sort_by(f64::total_cmp);
    }
    Ok((one_way, round_trip))
}

fn quantile(sorted: &[f64], q: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * q) as usize]
}

/// What one path, direct or through the link, was measured to do.
#[derive(Debug, Serialize)]
struct Measured {
    one_way_p50_ns: f64,
    one_way_p90_ns: f64,
    one_way_p99_ns: f64,
    rtt_p50_ns: f64,
    rtt_p99_ns: f64,
    up_bytes_per_s: f64,
    down_bytes_per_s: f64,
}

fn measure(to: SocketAddr, rates: &Receiver<io::Result<f64>>) -> io::Result<Measured> {
    let (one_way, round_trip) = pings(to)?;
    let upload = connect(to, TAKE)?;
    fill(&upload)?;
    drop(upload);
    let up = rates.recv().map_err(io::Error::other)??;
    let down = drain(connect(to, GIVE)?)?;
    Ok(Measured {
        one_way_p50_ns: quantile(&one_way, 0.5),
        one_way_p90_ns: quantile(&one_way, 0.9),
        one_way_p99_ns: quantile(&one_way, 0.99),
        rtt_p50_ns: quantile(&round_trip, 0.5),
        rtt_p99_ns: quantile(&round_trip, 0.99),
        up_bytes_per_s: up,
        down_bytes_per_s: down,
    })
}

/// The whole result.
#[derive(Debug, Serialize)]
struct Outcome {
    link: LinkSpec,
    direct: Measured,
    relayed: Measured,
    added_one_way_ns: f64,
    delay_error_ns: f64,
    /// Relative errors of the rate, up and down; `None` without a limit.
    rate_errors: Option<[f64; 2]>,
    report: Report,
    passed: bool,
}

/// Measures the link described by `options`; false if it is not as exact as it should be.
pub fn run(mut options: Options, as_json: bool) -> anyhow::Result<bool> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let server = listener.local_addr()?;
    let (sender, rates) = channel();
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let sender = sender.clone();
            thread::spawn(move || serve(socket, &sender));
        }
    });
    options.to = server.to_string();
    let link = options.link;
    let relay = Relay::start(options)?;
    let direct = measure(server, &rates)?;
    let relayed = measure(relay.address(), &rates)?;
    let added = relayed.one_way_p50_ns - direct.one_way_p50_ns;
    // A message takes its sending time too.
    let sending = link
        .rate_bps
        .map_or(0.0, |bps| MESSAGE as f64 * 8e9 / bps as f64);
    let delay_error = added - link.delay_ns as f64 - sending;
    let rate_errors = link.rate_bps.map(|bps| {
        let rate = bps as f64 / 8.0;
        [
            relayed.up_bytes_per_s / rate - 1.0,
            relayed.down_bytes_per_s / rate - 1.0,
        ]
    });
    let delay_limit = DELAY_LIMIT_NS.max(link.delay_ns as f64 * DELAY_LIMIT_PART);
    let rates_fit = rate_errors.is_none_or(|errors| errors.iter().all(|e| e.abs() < RATE_LIMIT));
    let outcome = Outcome {
        link,
        passed: delay_error.abs() < delay_limit && rates_fit,
        direct,
        relayed,
        added_one_way_ns: added,
        delay_error_ns: delay_error,
        rate_errors,
        report: relay.report(),
    };
    if as_json {
        println!("{}", serde_json::to_string(&outcome)?);
    } else {
        print(&outcome);
    }
    Ok(outcome.passed)
}

fn print(outcome: &Outcome) {
    println!(
        "{:<24}{:>12}{:>12}{:>12}{:>12}",
        "", "direct", "link", "asked", "error"
    );
    print_times(outcome);
    print_rates(outcome);
    print_lateness(&outcome.report);
    for warning in &outcome.report.warnings {
        println!("warning: the machine does not keep up: {warning}");
    }
    let verdict = if outcome.passed {
        "exact enough"
    } else {
        "NOT exact enough"
    };
    let link = &outcome.link;
    let delay = link.delay_ns as f64 / 1e3;
    println!("{delay} us, {}: {verdict}", show_rate(link.rate_bps));
}

/// What a row of the table is called, and where its figure is.
type Row = (&'static str, fn(&Measured) -> f64);

fn print_times(outcome: &Outcome) {
    let rows: [Row; 5] = [
        ("one way p50, us", |m| m.one_way_p50_ns),
        ("one way p90, us", |m| m.one_way_p90_ns),
        ("one way p99, us", |m| m.one_way_p99_ns),
        ("round trip p50, us", |m| m.rtt_p50_ns),
        ("round trip p99, us", |m| m.rtt_p99_ns),
    ];
    for (name, of) in rows {
        let (direct, relayed) = (of(&outcome.direct) / 1e3, of(&outcome.relayed) / 1e3);
        println!("{name:<24}{direct:>12.1}{relayed:>12.1}");
    }
    println!(
        "{:<24}{:>12}{:>12.1}{:>12.2}{:>+12.1}",
        "added one way p50, us",
        "",
        outcome.added_one_way_ns / 1e3,
        outcome.link.delay_ns as f64 / 1e3,
        outcome.delay_error_ns / 1e3
    );
}

fn print_rates(outcome: &Outcome) {
    let rows: [Row; 2] = [
        ("rate up, MB/s", |m| m.up_bytes_per_s),
        ("rate down, MB/s", |m| m.down_bytes_per_s),
    ];
    let rate = outcome.link.rate_bps;
    let asked = rate.map_or("-".into(), |bps| format!("{:.1}", bps as f64 / 8e6));
    for (way, (name, of)) in rows.into_iter().enumerate() {
        let (direct, relayed) = (of(&outcome.direct) / 1e6, of(&outcome.relayed) / 1e6);
        let error = outcome
            .rate_errors
            .map_or("-".into(), |e| format!("{:+.2} %", e[way] * 100.0));
        println!("{name:<24}{direct:>12.1}{relayed:>12.1}{asked:>12}{error:>12}");
    }
}

fn print_lateness(report: &Report) {
    for (name, late) in [
        ("late up, us", &report.forward.lateness),
        ("  after idling", &report.forward.first_lateness),
        ("late down, us", &report.backward.lateness),
        ("  after idling", &report.backward.first_lateness),
    ] {
        println!(
            "{name:<24}p50 {:.1}, p90 {:.1}, p99 {:.1}, most {:.1}",
            late.p50_ns as f64 / 1e3,
            late.p90_ns as f64 / 1e3,
            late.p99_ns as f64 / 1e3,
            late.max_ns as f64 / 1e3
        );
    }
}
