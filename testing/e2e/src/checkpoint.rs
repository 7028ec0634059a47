//! Checkpoints as a program takes them, of itself or of another.

use crate::driver::Driver;
use std::cell::Cell;
use std::io::BufRead;
use std::ptr::{null, null_mut};
use std::time::{Duration, Instant};

/// Numbers that a program checks.
const N: usize = 1 << 18;

/// The arguments of a lock that may take so long.
fn within(ms: u64) -> [u64; 8] {
    [ms, 0, 0, 0, 0, 0, 0, 0]
}

/// Prints what becomes of these steps of a process, in one line each.
pub fn steps(d: &Driver, pid: i32, steps: &[String]) {
    for step in steps {
        let status = match step
            .split_once('=')
            .map_or((step.as_str(), 0), |(name, ms)| {
                (name, ms.parse().expect("milliseconds"))
            }) {
            ("lock", 0) => d.cuCheckpointProcessLock(pid, null()),
            ("lock", ms) => d.cuCheckpointProcessLock(pid, within(ms).as_ptr()),
            ("lock-reserved", _) => {
                d.cuCheckpointProcessLock(pid, [0, 1, 0, 0, 0, 0, 0, 0].as_ptr())
            }
            ("checkpoint", _) => d.cuCheckpointProcessCheckpoint(pid, null()),
            ("restore", _) => d.cuCheckpointProcessRestore(pid, null()),
            ("unlock", _) => d.cuCheckpointProcessUnlock(pid, null()),
            ("null", _) => d.cuCheckpointProcessGetState(pid, null_mut()),
            other => panic!("{other:?}"),
        };
        let mut state = u32::MAX;
        let said = d.cuCheckpointProcessGetState(pid, &mut state);
        println!("{step} {status}, state {state} {said}");
    }
}

/// Takes steps of its own, with work under way and after it.
pub fn own(d: &Driver) {
    d.begin();
    let pid = std::process::id() as i32;
    let own = |words: &str| {
        let words: Vec<_> = words.split(' ').map(str::to_owned).collect();
        steps(d, pid, &words);
    };
    let fill = d.function("fill_u32\0");
    let p = d.alloc(4 * N);
    assert_eq!(d.launch(fill, 0, &[p, 7, N as u64]), 0);
    own("unlock checkpoint restore null lock lock checkpoint lock restore restore unlock unlock");
    own("lock-reserved");
    let mut thread = 0;
    assert_eq!(d.cuCheckpointProcessGetRestoreThreadId(pid, &mut thread), 0);
    println!("a thread: {}", thread > 0);
    let mut found = vec![0u32; N];
    let rc = d.cuMemcpyDtoH_v2(found.as_mut_ptr().cast(), p, 4 * N);
    println!("{rc}, all there: {}", found.iter().all(|n| *n == 7));
}

/// Says what it has on the device each time it is asked, and one more. It has so many bytes more
/// that it never uses.
pub fn answers(d: &Driver, more: usize) {
    d.begin();
    if more > 0 {
        d.alloc(more);
    }
    let p = d.alloc(4 * N);
    let fill = d.function("fill_u32\0");
    println!("ready");
    for (i, _) in std::io::stdin().lock().lines().enumerate() {
        let mut before = vec![0u32; N];
        assert_eq!(d.cuMemcpyDtoH_v2(before.as_mut_ptr().cast(), p, 4 * N), 0);
        let same = before.iter().all(|n| *n == before[0]);
        assert_eq!(d.launch(fill, 0, &[p, i as u64 + 1, N as u64]), 0);
        assert_eq!(d.cuCtxSynchronize(), 0);
        println!("had {} {same}", before[0]);
    }
}

/// Says how much memory is free, takes some, and works without a pause: once a second it says how
/// often it has had from the device what it had put there.
pub fn works(d: &Driver, more: usize) {
    d.begin();
    let (mut free, mut total) = (0, 0);
    assert_eq!(d.cuMemGetInfo_v2(&mut free, &mut total), 0);
    println!("free {} of {} MiB", free >> 20, total >> 20);
    d.alloc(more);
    let p = d.alloc(4 * N);
    let fill = d.function("fill_u32\0");
    println!("ready");
    let (mut told, mut times) = (Instant::now(), 0u64);
    loop {
        times += 1;
        assert_eq!(d.launch(fill, 0, &[p, times, N as u64]), 0);
        let mut there = vec![0u32; N];
        assert_eq!(d.cuMemcpyDtoH_v2(there.as_mut_ptr().cast(), p, 4 * N), 0);
        assert!(there.iter().all(|n| u64::from(*n) == times));
        if told.elapsed() > Duration::from_secs(1) {
            told = Instant::now();
            println!("worked {times}");
        }
    }
}

/// What can be set of core dumps, and what that says then.
pub fn dumps(d: &Driver) {
    d.begin();
    let when = Cell::new("");
    let word = |of_all: bool, set: bool, which: i32, bytes: &[u8], mut size: usize| {
        let mut room = [0u8; 2000];
        room[..bytes.len()].copy_from_slice(bytes);
        let (at, n) = (room.as_mut_ptr().cast(), &raw mut size);
        let rc = match (of_all, set) {
            (true, true) => d.cuCoredumpSetAttributeGlobal(which, at, n),
            (true, false) => d.cuCoredumpGetAttributeGlobal(which, at, n),
            (false, true) => d.cuCoredumpSetAttribute(which, at, n),
            (false, false) => d.cuCoredumpGetAttribute(which, at, n),
        };
        let what = if set { "set" } else { "get" };
        println!(
            "{1}{what} {which} for all {of_all}: {rc}, {size}, {0:?}",
            &room[..8],
            when.get(),
        );
    };
    for which in 0..9 {
        let size = match which {
            5 | 6 => 100,
            7 => 4,
            _ => 1,
        };
        word(true, false, which, &[], size);
        word(false, false, which, &[], size);
        word(true, false, which, &[], 8);
    }
    let settings: [(i32, &[u8]); 5] = [
        (2, &[0]),
        (3, &[1]),
        (5, b"core\0"),
        (6, b"pipe\0"),
        (7, &[1, 0, 0, 0]),
    ];
    for (which, value) in settings {
        word(true, true, which, value, value.len());
    }
    when.set("after ");
    for (which, value) in settings {
        let room = if value.len() == 5 { 100 } else { value.len() };
        word(true, false, which, &[], room);
        word(false, false, which, &[], room);
    }
    when.set("mine ");
    word(false, true, 5, b"mine\0", 5);
    word(false, false, 5, &[], 5);
    word(true, false, 5, &[], 4);
    word(false, false, 5, &[], 3);
    word(true, true, 1, &[0], 1);
    word(true, true, 4, &[0], 1);
    when.set("new ");
    let mut other = 0;
    assert_eq!(d.cuCtxCreate_v2(&mut other, 0, 0), 0);
    word(false, false, 5, &[], 5);
}
