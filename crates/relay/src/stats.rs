//! What the relay did, and whether the machine kept up with the link it plays.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use crate::units::LinkSpec;

/// Buckets per doubling: a quantile is exact to about 6 %.
const STEPS: usize = 8;
const BUCKETS: usize = 40 * STEPS;

/// How late releases were, in nanoseconds, as counts in logarithmic buckets.
pub struct Lateness {
    counts: Box<[AtomicU64]>,
    max: AtomicU64,
}

impl Default for Lateness {
    fn default() -> Self {
        let counts = (0..BUCKETS).map(|_| AtomicU64::new(0)).collect();
        Lateness {
            counts,
            max: AtomicU64::new(0),
        }
    }
}

fn bucket(ns: u64) -> usize {
    if ns < STEPS as u64 {
        return ns as usize;
    }
    let power = ns.ilog2() as usize;
    let step = (ns >> (power - 3)) as usize & (STEPS - 1);
    ((power - 2) * STEPS + step).min(BUCKETS - 1)
}

/// The middle of a bucket.
fn value(bucket: usize) -> u64 {
    if bucket < STEPS {
        return bucket as u64;
    }
    let power = bucket / STEPS + 2;
    let step = (bucket % STEPS + STEPS) as u64;
    (step << (power - 3)) + (1 << (power - 3)) / 2
}

impl Lateness {
    /// Counts one release.
    pub fn add(&self, ns: u64) {
        self.counts[bucket(ns)].fetch_add(1, Ordering::Relaxed);
        self.max.fetch_max(ns, Ordering::Relaxed);
    }

    /// The counts so far.
    pub fn summary(&self) -> LatenessSummary {
        let counts: Vec<u64> = self
            .counts
            .iter()
            .map(|c| c.load(Ordering::Relaxed))
            .collect();
        let total: u64 = counts.iter().sum();
        let max = self.max.load(Ordering::Relaxed);
        let quantile = |q: f64| {
            let mut left = (total as f64 * q).ceil() as u64;
            for (index, &count) in counts.iter().enumerate() {
                if count >= left {
                    return value(index).min(max);
                }
                left -= count;
            }
            max
        };
        if total == 0 {
            return LatenessSummary::default();
        }
        LatenessSummary {
            releases: total,
            p50_ns: quantile(0.5),
            p90_ns: quantile(0.9),
            p99_ns: quantile(0.99),
            max_ns: max,
        }
    }
}

/// Quantiles of the lateness.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LatenessSummary {
    /// How many releases were counted.
    pub releases: u64,
    /// Half of them were no later than this.
    pub p50_ns: u64,
    /// Nine in ten.
    pub p90_ns: u64,
    /// All but one in a hundred.
    pub p99_ns: u64,
    /// The latest.
    pub max_ns: u64,
}

/// Counters of one direction.
#[derive(Default)]
pub struct DirectionStats {
    /// Bytes delivered.
    pub bytes: AtomicU64,
    /// Time in which a receiver did not take what was due to it.
    pub receiver_blocked_ns: AtomicU64,
    /// How late bytes left; time in which the receiver did not take them is not counted.
    pub lateness: Lateness,
    /// The same for those alone that found their connection idle, and so woke a thread up: the
    /// messages of a program that waits for its answers.
    pub first_lateness: Lateness,
}

/// A reading of [`DirectionStats`].
#[derive(Clone, Debug, Default, Serialize)]
pub struct DirectionReport {
    /// Bytes delivered.
    pub bytes: u64,
    /// Time in which a receiver did not take what was due to it.
    pub receiver_blocked_ns: u64,
    /// How late bytes left.
    pub lateness: LatenessSummary,
    /// How late bytes left that found their connection idle.
    pub first_lateness: LatenessSummary,
}

impl DirectionStats {
    /// Reads the counters.
    pub fn report(&self) -> DirectionReport {
        DirectionReport {
            bytes: self.bytes.load(Ordering::Relaxed),
            receiver_blocked_ns: self.receiver_blocked_ns.load(Ordering::Relaxed),
            lateness: self.lateness.summary(),
            first_lateness: self.first_lateness.summary(),
        }
    }
}

/// Median lateness beyond which the delay is not what it claims to be.
const MEDIAN_LIMIT_NS: u64 = 10_000;
/// Lateness that one release in a hundred may have.
const P99_LIMIT_NS: u64 = 250_000;
/// Fewer releases than this say nothing.
const ENOUGH: u64 = 100;

/// Everything the relay knows about itself.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Connections accepted so far.
    pub connections: u64,
    /// Connections open now.
    pub open: u64,
    /// From the side that connects to the side that listens.
    pub forward: DirectionReport,
    /// And back.
    pub backward: DirectionReport,
    /// Whether the machine kept up; if not, results over this link are not to be trusted.
    pub kept_up: bool,
    /// Why it did not, in words; empty if it did.
    pub warnings: Vec<String>,
}

impl Report {
    /// Fills `kept_up` and `warnings` from the numbers. A link without delay and limit promises
    /// nothing that it could fail to keep.
    pub fn judge(mut self, link: &LinkSpec) -> Self {
        let directions = if *link == LinkSpec::default() { 0 } else { 2 };
        let ways = [("forward", &self.forward), ("backward", &self.backward)];
        for (name, direction) in ways.into_iter().take(directions) {
            for (what, late) in [
                ("releases", &direction.lateness),
                ("messages on an idle connection", &direction.first_lateness),
            ] {
                if late.releases < ENOUGH {
                    continue;
                }
                let (p50, p99) = (late.p50_ns as f64 / 1e3, late.p99_ns as f64 / 1e3);
                if late.p50_ns > MEDIAN_LIMIT_NS {
                    self.warnings.push(format!(
                        "{name}: half of all {what} were over {p50:.1} us late"
                    ));
                }
                if late.p99_ns > P99_LIMIT_NS {
                    self.warnings.push(format!(
                        "{name}: one in a hundred {what} was over {p99:.0} us late"
                    ));
                }
            }
        }
        self.kept_up = self.warnings.is_empty();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_their_values() {
        for ns in [
            0,
            1,
            7,
            8,
            9,
            15,
            16,
            100,
            999,
            12_345,
            1_000_000,
            4_000_000_000,
        ] {
            let back = value(bucket(ns));
            assert!(back.abs_diff(ns) * 16 <= ns, "{ns} came back as {back}");
        }
        assert!(bucket(u64::MAX) < BUCKETS);
    }

    #[test]
    fn quantiles_and_verdict() {
        let stats = DirectionStats::default();
        for ns in 1..=1000 {
            stats.lateness.add(ns);
        }
        let link = crate::units::preset("vmxnet3-10g").unwrap();
        let report = Report {
            forward: stats.report(),
            ..Report::default()
        }
        .judge(&link);
        let late = &report.forward.lateness;
        assert!(late.p50_ns.abs_diff(500) < 40, "{late:?}");
        assert_eq!(late.max_ns, 1000);
        assert!(report.kept_up);
        for _ in 0..2000 {
            stats.lateness.add(50_000);
        }
        let report = Report {
            forward: stats.report(),
            ..Report::default()
        }
        .judge(&link);
        assert!(!report.kept_up);
        assert!(report.warnings[0].contains("forward"));
        assert!(
            report.judge(&LinkSpec::default()).warnings.len() == 1,
            "no new warnings"
        );
    }
}
