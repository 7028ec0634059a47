//! How fast a connection over RDMA is: `rdma_rate DEVICE rate MEGABYTES` or `rdma_rate DEVICE
//! latency`.
//!
//! Both ends are in this process. Prints, a line of JSON each, the rate of long slices that are
//! moved in place and of such as take the ring, and half of a round trip of 8 bytes, of ends that
//! look for them and of ends that sleep. To be compared with what `ib_write_bw` and `ib_write_lat`
//! say of the same device: `./test rdma_rate`.

use busbar_transport::rdma::{Means, ib, offer, take};
use busbar_transport::tcp::Tcp;
use busbar_transport::{Connection, Kept, Memory};
use std::error::Error;
use std::io::{self, IoSlice};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

type Conn = Arc<dyn Connection>;

/// A connection over a device.
fn ends(device: &str) -> Result<(Conn, Conn), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let at = listener.local_addr()?.to_string();
    let here = Tcp::connect(&at, Duration::from_secs(60))?;
    let there = Tcp::new(listener.accept()?.0)?;
    let port = ib::find(&device.parse()?, None)?;
    let means = || Means {
        device: Ok(&port),
        plain: true,
    };
    let (a, b) = std::thread::scope(|s| {
        let worker = s.spawn(|| offer(Arc::new(there), &means()));
        let client = take(Arc::new(here), &means());
        (client, worker.join().expect("it does not panic"))
    });
    match a.why_not.or(b.why_not) {
        Some(why) => Err(why.into()),
        None => Ok((a.conn, b.conn)),
    }
}

/// Megabytes a second, in slices of `len`.
fn rate(device: &str, len: usize, total: usize, in_place: bool) -> Result<f64, Box<dyn Error>> {
    let (from, mut to) = (vec![5u8; len], vec![0u8; len]);
    let (a, b) = ends(device)?;
    let kept = Arc::new(Kept::default());
    for start in [from.as_ptr().cast_mut(), to.as_mut_ptr()] {
        // SAFETY: both are dropped after the connections.
        unsafe { kept.keep(Memory { start, len }) };
    }
    if in_place {
        a.attend(&kept);
        b.attend(&kept);
    }
    let times = (total / len).max(4);
    let took = std::thread::scope(|s| -> io::Result<Duration> {
        // One more, with which the memory is registered.
        let all = || 0..=times;
        let one = || a.send(&mut [IoSlice::new(&[1; 40]), IoSlice::new(&from)]);
        s.spawn(move || all().try_for_each(|_| one()));
        let mut begin = Instant::now();
        for i in all() {
            b.recv_exact(&mut [0; 40])?;
            b.recv_exact(&mut to)?;
            if i == 0 {
                begin = Instant::now();
            }
        }
        Ok(begin.elapsed())
    })?;
    Ok((times * len) as f64 / took.as_secs_f64() / 1e6)
}

/// How an end waits for what comes.
#[derive(Clone, Copy)]
enum Wait {
    /// It looks again and again, as `ib_write_lat` does, and a session that may.
    Look,
    /// It sleeps until there is an event.
    Sleep,
}

/// Receives 8 bytes.
fn receive(conn: &Conn, wait: Wait) -> io::Result<()> {
    let mut bytes = [0; 8];
    let mut done = 0;
    while done < bytes.len() {
        match (conn.try_recv(&mut bytes[done..])?, wait) {
            (Some(0), _) => return Err(io::ErrorKind::UnexpectedEof.into()),
            (Some(n), _) => done += n,
            (None, Wait::Look) => std::thread::yield_now(),
            (None, Wait::Sleep) => _ = conn.wait(None, None)?,
        }
    }
    Ok(())
}

/// Microseconds of half of a round trip, the median of `times`.
fn latency(device: &str, times: usize, wait: Wait) -> Result<f64, Box<dyn Error>> {
    let (a, b) = ends(device)?;
    let send = |conn: &Conn| conn.send(&mut [IoSlice::new(&[7; 8])]);
    let mut all = std::thread::scope(|s| -> io::Result<Vec<Duration>> {
        s.spawn(|| (0..times).try_for_each(|_| receive(&b, wait).and_then(|()| send(&b))));
        let one = || {
            let begin = Instant::now();
            send(&a)?;
            receive(&a, wait)?;
            Ok(begin.elapsed())
        };
        (0..times).map(|_| one()).collect()
    })?;
    all.sort();
    Ok(all[times / 2].as_secs_f64() * 1e6 / 2.0)
}

fn latencies(device: &str) -> Result<(), Box<dyn Error>> {
    let looking = latency(device, 1000, Wait::Look)?;
    let asleep = latency(device, 1000, Wait::Sleep)?;
    println!(
        r#"{{"bytes": 8, "half_round_trip_us": {looking:.1}, "half_asleep_us": {asleep:.1}}}"#
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let usage = "rdma_rate DEVICE (rate MEGABYTES | latency)";
    let (device, what) = args.next().zip(args.next()).ok_or(usage)?;
    if what == "latency" {
        return latencies(&device);
    }
    let total = args.next().ok_or(usage)?.parse::<usize>()? << 20;
    for len in [64 << 10, 256 << 10, 1 << 20, 4 << 20] {
        let direct = rate(&device, len, total, true)?;
        let ring = rate(&device, len, total, false)?;
        println!(r#"{{"bytes": {len}, "in_place_mb_s": {direct:.1}, "ring_mb_s": {ring:.1}}}"#);
    }
    Ok(())
}
