//! `BUSBAR_STATS=1`: calls, round trips, bytes and time waited, by call, printed at exit for each
//! session.

use crate::prelude::*;
use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

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
    name: fn(u16) -> &'static str,
}

const OPS: usize = 0x1_0000;

impl Stats {
    /// Counters of one session, when the user asked for them. `name` tells an op's name.
    pub fn if_asked(name: fn(u16) -> &'static str) -> Option<Self> {
        crate::config::var("BUSBAR_STATS")
            .is_some_and(|v| !v.is_empty() && v != "0")
            .then(|| Self {
                rows: (0..OPS).map(|_| Row::default()).collect(),
                name,
            })
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
        if let Some(r) = self.rows.get(op as usize) {
            r.waits.fetch_add(1, Relaxed);
            r.nanos.fetch_add(time.as_nanos() as u64, Relaxed);
        }
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
            .filter(|r| r.1 > 0)
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
            let name = (self.name)(op);
            let ms = n as f64 / 1e6;
            let _ = writeln!(out, "busbar: {name:<44} {c:>10} {w:>11} {b:>13} {ms:>10.2}");
            calls += c;
            waits += w;
            json.push(serde_json::json!({
                "call": name, "calls": c, "round_trips": w, "bytes": b, "waited_ms": ms
            }));
        }
        let total = serde_json::json!({
            "calls": calls, "round_trips": waits, "bytes_sent": sent, "bytes_received": received,
            "bytes_shared": shared, "resumed": resumed, "rdma_bytes_sent": rdma_sent,
            "rdma_bytes_received": rdma_received, "in_place_bytes_sent": in_place_sent,
            "in_place_bytes_received": in_place_received, "server": server, "by_call": json
        });
        let _ = writeln!(
            out,
            "busbar: with {server}: {calls} calls, {waits} round trips, {sent} bytes sent, \
             {received} received, {shared} through shared memory"
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
