//! `BUSBAR_STATS=1`: calls, round trips, bytes and time waited, by call, and which functions of the
//! API the program waited in, printed at exit for each session.

use crate::prelude::*;
use busbar_wire::record;
use std::cell::Cell;
use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

thread_local! {
    /// What runs the API's function that the thread is in, as the compiler names it.
    static RUNS: Cell<&'static str> = const { Cell::new("") };
}

/// Whether the user asked for counters.
pub fn asked() -> bool {
    crate::config::var("BUSBAR_STATS").is_some_and(|v| !v.is_empty() && v != "0")
}

/// The thread is in the function of an API that runs `f`: what it waits for is counted there.
pub fn runs<F>(_f: &F) {
    let _ = RUNS.try_with(|r| r.set(std::any::type_name::<F>()));
}

/// Who waits: a thread of ours, or the function that the program has called.
fn who() -> String {
    let thread = std::thread::current();
    if let Some(ours) = thread.name().filter(|n| n.starts_with(OURS)) {
        return ours.into();
    }
    function().unwrap_or("(the session opens)").into()
}

/// The function of an API that the thread is in, or was in last, where these are counted.
pub fn function() -> Option<&'static str> {
    let runs = RUNS.try_with(Cell::get).unwrap_or_default();
    let named = |s: &&str| !s.is_empty() && !s.starts_with('{');
    let name = runs.rsplit("::").find(named)?;
    // Where a profiler may watch, the entry point has a function beside it that makes the call.
    Some(name.strip_prefix("plain_").unwrap_or(name))
}

/// Names of our own threads begin so.
pub const OURS: &str = "busbar-";
/// How many functions people are shown.
const MOST: usize = 10;

/// What is waited for in one function: how often, and how long.
#[derive(Default)]
struct Waits {
    count: u64,
    nanos: u64,
}

/// Counters of one kind of call.
#[derive(Default)]
struct Row {
    calls: AtomicU64,
    waits: AtomicU64,
    bytes: AtomicU64,
    nanos: AtomicU64,
}

/// Counters by op, in a flat table: some megabytes, for those who ask.
pub struct Stats {
    rows: Vec<Row>,
    /// By who waits, and for which op.
    waits: Mutex<HashMap<(String, u16), Waits>>,
    name: fn(u16) -> &'static str,
}

const OPS: usize = 0x1_0000;

/// In the place of an op: a thread waits until the server has received what was sent.
pub const ARRIVAL: u16 = record::RESERVED;

impl Stats {
    /// Counters of one session, when the user asked for them. `name` tells an op's name.
    pub fn if_asked(name: fn(u16) -> &'static str) -> Option<Self> {
        asked().then(|| Self {
            rows: (0..OPS).map(|_| Row::default()).collect(),
            waits: Mutex::default(),
            name,
        })
    }

    fn name(&self, op: u16) -> &'static str {
        match op {
            ARRIVAL => "(what was sent arrives)",
            op => (self.name)(op),
        }
    }

    /// A record of `bytes` was queued.
    #[inline]
    pub fn queued(&self, op: u16, bytes: usize) {
        if let Some(r) = self.rows.get(op as usize) {
            r.calls.fetch_add(1, Relaxed);
            r.bytes.fetch_add(bytes as u64, Relaxed);
        }
    }

    /// A thread has waited for the answer to a call.
    pub fn waited(&self, op: u16, time: Duration) {
        self.waited_for(op, time, 1);
    }

    /// A thread has waited for what the worker tells by itself, in the place of a call: no round
    /// trip.
    pub fn heard(&self, op: u16, time: Duration) {
        self.waited_for(op, time, 0);
    }

    fn waited_for(&self, op: u16, time: Duration, trips: u64) {
        let nanos = time.as_nanos() as u64;
        if let Some(r) = self.rows.get(op as usize) {
            r.waits.fetch_add(trips, Relaxed);
            r.nanos.fetch_add(nanos, Relaxed);
        }
        let mut waits = lock(&self.waits);
        let w = waits.entry((who(), op)).or_default();
        w.count += trips;
        w.nanos += nanos;
    }

    /// Who has waited for what, most round trips first: a table of the first few for people, and
    /// JSON. How many of the round trips were the program's own threads'.
    fn by_function(&self, out: &mut String) -> (Vec<serde_json::Value>, u64) {
        let waits = lock(&self.waits);
        let mut rows: Vec<_> = waits.iter().collect();
        rows.sort_by_key(|((who, op), w)| (std::cmp::Reverse(w.count), who, *op));
        let mut own = 0;
        let mut json = Vec::new();
        for (i, ((who, op), w)) in rows.into_iter().enumerate() {
            let (call, ms) = (self.name(*op), w.nanos as f64 / 1e6);
            if i < MOST {
                let n = w.count;
                let _ = writeln!(out, "busbar: {who:<33} {call:<33} {n:>12} {ms:>10.2}");
            }
            own += if who.starts_with(OURS) { 0 } else { w.count };
            json.push(serde_json::json!({
                "function": who, "call": call, "round_trips": w.count, "waited_ms": ms
            }));
        }
        (json, own)
    }

    /// A table for people, and one line of JSON after `busbar-stats: ` for programs.
    pub fn report(
        &self,
        server: &str,
        [sent, received]: [u64; 2],
        shared: u64,
        resumed: u64,
        [rdma_sent, rdma_received]: [u64; 2],
        [in_place_sent, in_place_received]: [u64; 2],
    ) -> String {
        let mut rows: Vec<_> = (0..OPS)
            .map(|i| {
                let r = &self.rows[i];
                let get = |a: &AtomicU64| a.load(Relaxed);
                (
                    i as u16,
                    get(&r.calls),
                    get(&r.waits),
                    get(&r.bytes),
                    get(&r.nanos),
                )
            })
            .filter(|r| r.1 + r.2 > 0)
            .collect();
        rows.sort_by_key(|r| std::cmp::Reverse((r.2, r.1)));
        let mut out = String::new();
        let _ = writeln!(
            out,
            "busbar: {:<44} {:>10} {:>11} {:>13} {:>10}",
            "call", "calls", "round trips", "bytes", "waited ms"
        );
        let mut json = Vec::new();
        let (mut calls, mut waits) = (0, 0);
        for (op, c, w, b, n) in rows {
            let name = self.name(op);
            let ms = n as f64 / 1e6;
            let _ = writeln!(out, "busbar: {name:<44} {c:>10} {w:>11} {b:>13} {ms:>10.2}");
            calls += c;
            waits += w;
            json.push(serde_json::json!({
                "call": name, "calls": c, "round_trips": w, "bytes": b, "waited_ms": ms
            }));
        }
        let _ = writeln!(
            out,
            "busbar: {:<33} {:<33} {:>12} {:>10}",
            "waited in", "for", "round trips", "waited ms"
        );
        let (by_function, own) = self.by_function(&mut out);
        let total = serde_json::json!({
            "calls": calls, "round_trips": waits, "program_round_trips": own,
            "bytes_sent": sent, "bytes_received": received,
            "bytes_shared": shared, "resumed": resumed, "rdma_bytes_sent": rdma_sent,
            "rdma_bytes_received": rdma_received, "in_place_bytes_sent": in_place_sent,
            "in_place_bytes_received": in_place_received, "server": server, "by_call": json,
            "by_function": by_function
        });
        let _ = writeln!(
            out,
            "busbar: with {server}: {calls} calls, {waits} round trips ({own} of the program's \
             threads), {sent} bytes sent, {received} received, {shared} through shared memory"
        );
        if rdma_sent + rdma_received > 0 {
            let _ = writeln!(
                out,
                "busbar: of these {rdma_sent} sent over RDMA, {rdma_received} received; without a \
                 copy {in_place_sent}, {in_place_received}"
            );
        }
        let _ = writeln!(out, "busbar-stats: {total}");
        out
    }
}
