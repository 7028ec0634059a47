//! The shaper on a virtual clock: delays, rates, fairness, stalls and endings, exactly.

use busbar_relay::LinkSpec;
use busbar_relay::shaper::{End, FlowId, Nanos, Release, Shaper};

const GBIT: u64 = 1_000_000_000;

fn link(delay_ns: u64, rate_bps: Option<u64>) -> LinkSpec {
    LinkSpec {
        delay_ns,
        rate_bps,
        jitter_ns: 0,
    }
}

/// Polls from `now` on, jumping to the next time named, until nothing more comes.
/// Returns (when, bytes) of each release, and how the flow ended.
fn drain(shaper: &mut Shaper, id: FlowId, mut now: Nanos) -> (Vec<(Nanos, usize)>, Option<End>) {
    let mut releases = Vec::new();
    loop {
        match shaper.poll(id, now) {
            Release::Bytes { bytes, due } => {
                assert!(due <= now, "released before it was due");
                releases.push((now, bytes));
            }
            Release::NotBefore(at) => {
                assert!(at > now, "a time to wait for lies ahead");
                now = at;
            }
            Release::End(end) => return (releases, Some(end)),
            Release::Idle => return (releases, None),
        }
    }
}

#[test]
fn a_message_takes_its_sending_time_and_the_delay() {
    let mut shaper = Shaper::new(link(80_000, Some(8 * GBIT)), 1);
    let id = shaper.open(0);
    shaper.arrive(id, 1_000_000, 1000);
    // 1000 bytes at one byte a nanosecond.
    assert_eq!(shaper.poll(id, 1_000_000), Release::NotBefore(1_081_000));
    assert_eq!(shaper.poll(id, 1_080_999), Release::NotBefore(1_081_000));
    assert_eq!(
        shaper.poll(id, 1_081_000),
        Release::Bytes {
            bytes: 1000,
            due: 1_081_000
        }
    );
    assert_eq!(shaper.poll(id, 1_081_000), Release::Idle);
}

#[test]
fn bulk_flows_at_the_rate_to_the_byte() {
    for rate in [GBIT, 4_750_000_000, 9_400_000_000, 96 * GBIT] {
        let mut shaper = Shaper::new(link(80_000, Some(rate)), 1);
        let id = shaper.open(0);
        let total = 100_000_000usize;
        for part in 0..1000 {
            // It all arrives far faster than the link can send.
            shaper.arrive(id, part, total / 1000);
        }
        let (releases, _) = drain(&mut shaper, id, 0);
        assert_eq!(releases.iter().map(|r| r.1).sum::<usize>(), total);
        let expected = total as u64 * 8_000 / (rate / 1_000_000) + 80_000;
        let last = releases.last().unwrap().0;
        assert!(
            last.abs_diff(expected) <= 1000,
            "{rate}: {last} instead of {expected}"
        );
        // And evenly: a tenth of the time carries a tenth of the bytes.
        let early: usize = releases
            .iter()
            .filter(|r| r.0 <= 80_000 + expected / 10)
            .map(|r| r.1)
            .sum();
        assert!(
            early.abs_diff(total / 10) < total / 500,
            "{rate}: {early} in the first tenth"
        );
    }
}

#[test]
fn an_idle_link_saves_nothing_up() {
    let mut shaper = Shaper::new(link(0, Some(8 * GBIT)), 1);
    let id = shaper.open(0);
    shaper.arrive(id, 0, 1000);
    assert_eq!(drain(&mut shaper, id, 0).0.last().unwrap().0, 1000);
    shaper.arrive(id, 1_000_000_000, 1_000_000);
    let (releases, _) = drain(&mut shaper, id, 1_000_000_000);
    assert_eq!(releases.last().unwrap().0, 1_001_000_000);
}

#[test]
fn flows_share_the_link_evenly_and_a_small_message_does_not_wait_for_a_big_one() {
    let mut shaper = Shaper::new(link(0, Some(8 * GBIT)), 1);
    let (a, b, c) = (shaper.open(0), shaper.open(0), shaper.open(0));
    shaper.arrive(a, 0, 10_000_000);
    shaper.arrive(b, 0, 10_000_000);
    shaper.arrive(c, 5, 100);
    let mut got = [0usize; 3];
    for now in (0..1_000_000).step_by(1000) {
        for (index, id) in [a, b, c].into_iter().enumerate() {
            if let Release::Bytes { bytes, .. } = shaper.poll(id, now) {
                got[index] += bytes;
                if index == 2 {
                    assert!(now < 40_000, "the small message took {now} ns");
                }
            }
        }
    }
    assert_eq!(got[2], 100);
    assert!(got[0].abs_diff(got[1]) <= 20_000, "{got:?}");
    assert!((got[0] + got[1]).abs_diff(1_000_000) < 30_000, "{got:?}");
}

#[test]
fn without_a_limit_only_the_delay_counts() {
    let mut shaper = Shaper::new(link(500, None), 1);
    let id = shaper.open(0);
    shaper.arrive(id, 100, 1 << 30);
    assert_eq!(shaper.poll(id, 100), Release::NotBefore(600));
    assert_eq!(
        shaper.poll(id, 600),
        Release::Bytes {
            bytes: 1 << 30,
            due: 600
        }
    );
}

#[test]
fn a_stall_moves_everything_by_its_length_and_loses_nothing() {
    let mut shaper = Shaper::new(link(80_000, Some(8 * GBIT)), 1);
    let id = shaper.open(0);
    shaper.arrive(id, 0, 10_000);
    shaper.stall(5_000, 1_000_000);
    shaper.arrive(id, 500_000, 1000);
    let (releases, _) = drain(&mut shaper, id, 5_000);
    assert!(releases[0].0 > 1_005_000, "nothing moves during the stall");
    assert_eq!(releases.iter().map(|r| r.1).sum::<usize>(), 11_000);
    assert_eq!(releases.last().unwrap().0, 1_091_000);
    // A second stall, later, adds to the first.
    shaper.arrive(id, 2_000_000, 1000);
    shaper.stall(2_000_500, 100);
    assert_eq!(drain(&mut shaper, id, 2_000_600).0, [(2_081_100, 1000)]);
}

#[test]
fn a_stalled_link_without_a_delay_carries_nothing_either() {
    let mut shaper = Shaper::new(link(0, None), 1);
    let (id, other) = (shaper.open(0), shaper.open(0));
    shaper.stall(1000, 500);
    shaper.arrive(id, 1000, 10);
    shaper.arrive(id, 1200, 20);
    shaper.finish(other, 1300, End::Reset);
    assert_eq!(shaper.poll(id, 1300), Release::NotBefore(1500));
    assert_eq!(shaper.poll(other, 1300), Release::NotBefore(1500));
    assert_eq!(drain(&mut shaper, id, 1500).0, [(1500, 30)]);
    assert_eq!(drain(&mut shaper, other, 1500).1, Some(End::Reset));
}

#[test]
fn a_stall_can_be_lengthened_and_ended_early() {
    let mut shaper = Shaper::new(link(100, None), 1);
    let id = shaper.open(0);
    shaper.stall(1000, 1000);
    shaper.stall(1500, 5000);
    shaper.stall(1600, 10);
    shaper.arrive(id, 1700, 1);
    assert_eq!(shaper.poll(id, 1700), Release::NotBefore(6600));
    shaper.resume(3000);
    assert_eq!(shaper.poll(id, 3000), Release::NotBefore(3100));
    assert_eq!(
        shaper.poll(id, 3100),
        Release::Bytes {
            bytes: 1,
            due: 3100
        }
    );
    // Resuming what is not stalled changes nothing.
    shaper.resume(4000);
    shaper.arrive(id, 5000, 1);
    assert_eq!(shaper.poll(id, 5000), Release::NotBefore(5100));
}

#[test]
fn an_end_comes_after_the_bytes_before_it() {
    for end in [End::Fin, End::Reset] {
        let mut shaper = Shaper::new(link(80_000, Some(8 * GBIT)), 1);
        let id = shaper.open(0);
        shaper.arrive(id, 0, 50_000);
        shaper.finish(id, 10, end);
        let (releases, ended) = drain(&mut shaper, id, 0);
        assert_eq!(releases.iter().map(|r| r.1).sum::<usize>(), 50_000);
        assert_eq!(releases.last().unwrap().0, 130_000);
        assert_eq!(ended, Some(end));
        assert_eq!(shaper.poll(id, 1 << 40), Release::Idle, "an end comes once");
    }
}

#[test]
fn a_reset_overrides_a_fin_but_not_the_other_way_round() {
    let mut shaper = Shaper::new(link(10, None), 1);
    let id = shaper.open(0);
    shaper.finish(id, 0, End::Fin);
    shaper.finish(id, 1, End::Reset);
    shaper.finish(id, 2, End::Fin);
    assert_eq!(drain(&mut shaper, id, 0).1, Some(End::Reset));
    // A reset can follow a FIN that has been delivered.
    let id = shaper.open(0);
    shaper.finish(id, 0, End::Fin);
    assert_eq!(drain(&mut shaper, id, 0).1, Some(End::Fin));
    shaper.finish(id, 100, End::Reset);
    assert_eq!(drain(&mut shaper, id, 0).1, Some(End::Reset));
}

#[test]
fn a_flow_sends_nothing_before_its_connection_stands() {
    let mut shaper = Shaper::new(link(100, None), 1);
    let id = shaper.open(5000);
    shaper.arrive(id, 10, 1);
    assert_eq!(shaper.poll(id, 10), Release::NotBefore(5100));
}

#[test]
fn jitter_stays_in_bounds_in_order_and_repeats_with_its_seed() {
    let spec = LinkSpec {
        delay_ns: 10_000,
        rate_bps: None,
        jitter_ns: 3_000,
    };
    let run = |seed| {
        let mut shaper = Shaper::new(spec, seed);
        let id = shaper.open(0);
        let mut delays = Vec::new();
        for message in 0..500 {
            let at = message * 100_000;
            shaper.arrive(id, at, 1);
            delays.push(drain(&mut shaper, id, at).0[0].0 - at);
        }
        delays
    };
    let delays = run(1);
    assert!(delays.iter().all(|d| (7_000..=13_000).contains(d)));
    let mean = delays.iter().sum::<u64>() / 500;
    assert!(mean.abs_diff(10_000) < 400, "{mean}");
    assert!(delays.iter().any(|d| *d < 8_000) && delays.iter().any(|d| *d > 12_000));
    assert_eq!(delays, run(1));
    assert_ne!(delays, run(2));
}

#[test]
fn closed_flows_leave_the_link_to_the_others() {
    let mut shaper = Shaper::new(link(0, Some(8 * GBIT)), 1);
    let (a, b) = (shaper.open(0), shaper.open(0));
    shaper.arrive(a, 0, 1_000_000);
    shaper.arrive(b, 0, 1000);
    shaper.close(a);
    assert!(drain(&mut shaper, b, 0).0.last().unwrap().0 <= 20_000);
    assert_eq!(shaper.open(0), a, "its place is used again");
}
