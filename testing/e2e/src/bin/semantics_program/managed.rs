//! Managed memory: what a program has advised, it is told of each range.

use super::api::{Api, at};

const PAGE: u64 = 4096;
const CPU: u64 = -1i32 as u32 as u64;

/// What is said of a range: each attribute on its own, and all at once.
fn ask(api: &Api, p: u64, from: u64, pages: u64) {
    let (p, len) = (p + from * PAGE, pages * PAGE);
    print!("{from}+{pages}:");
    for which in [1u64, 2, 4, 5, 6, 7, 8] {
        let mut v = 99i32;
        let rc = api.call("cuMemRangeGetAttribute", &[at(&mut v), 4, which, p, len]);
        print!(" {rc}/{v}");
    }
    for room in [1usize, 4] {
        let mut list = [99i32; 4];
        let size = 4 * room as u64;
        let args = [at(&mut list), size, 3, p, len];
        print!(" {}", api.call("cuMemRangeGetAttribute", &args));
        let mut who = list[..room].to_vec();
        who.sort_unstable();
        // Which of several are told is not said.
        let told = if room == 1 {
            vec![i32::from(who[0] == -2)]
        } else {
            who
        };
        print!("/{told:?}");
    }
    let (mut mostly, mut preferred, mut who) = (99i32, 99i32, [99i32; 3]);
    let mut data = [at(&mut mostly), at(&mut preferred), at(&mut who)];
    let (mut sizes, mut which) = ([4u64, 4, 12], [1u32, 2, 3]);
    let (data, sizes, which) = (at(&mut data), at(&mut sizes), at(&mut which));
    let rc = api.call("cuMemRangeGetAttributes", &[data, sizes, which, 3, p, len]);
    who.sort_unstable();
    println!(" {rc}/{mostly} {preferred} {who:?}");
}

/// Advice and prefetches for parts of an allocation.
pub fn advice(api: &Api) {
    api.made("cuCtxCreate_v2", &[0, 0]);
    let stream = api.made("cuStreamCreate", &[1]);
    let p = api.made("cuMemAllocManaged", &[16 * PAGE, 1]);
    let other = api.made("cuMemAllocManaged", &[4 * PAGE, 1]);
    let look = || {
        for (from, pages) in [
            (0, 16),
            (0, 4),
            (2, 2),
            (3, 2),
            (4, 1),
            (4, 4),
            (6, 4),
            (15, 1),
        ] {
            ask(api, p, from, pages);
        }
        ask(api, other, 0, 4);
    };
    let advise = |from: u64, bytes: u64, advice: u64, device: u64| {
        api.tell("cuMemAdvise", &[p + from, bytes, advice, device]);
    };
    look();
    advise(2 * PAGE, 2 * PAGE, 1, 0);
    // Part of a page is the page.
    advise(6 * PAGE + 100, 8, 3, 0);
    advise(4 * PAGE, 4 * PAGE, 5, 0);
    advise(2 * PAGE, 3 * PAGE, 5, CPU);
    look();
    advise(3 * PAGE, PAGE, 2, 0);
    advise(0, 16 * PAGE, 3, CPU);
    advise(4 * PAGE, PAGE, 6, 0);
    api.tell("cuMemPrefetchAsync", &[p, 4 * PAGE, 0, stream]);
    api.tell("cuMemPrefetchAsync", &[p + 6 * PAGE, 4 * PAGE, CPU, stream]);
    look();
    advise(0, 16 * PAGE, 4, 0);
    api.tell("cuMemPrefetchAsync", &[p, 16 * PAGE, CPU, stream]);
    look();
    for (bytes, advice) in [(0, 1), (17 * PAGE, 1), (PAGE, 0), (PAGE, 7)] {
        advise(0, bytes, advice, 0);
    }
    let mut v = 0i32;
    for (size, which, len) in [(0, 1, PAGE), (8, 1, PAGE), (4, 9, PAGE), (4, 1, 17 * PAGE)] {
        api.tell("cuMemRangeGetAttribute", &[at(&mut v), size, which, p, len]);
    }
    api.tell("cuMemRangeGetAttribute", &[0, 4, 1, p, PAGE]);
    api.tell("cuStreamSynchronize", &[stream]);
    api.tell("cuMemFree_v2", &[p]);
    let q = api.made("cuMemAllocManaged", &[16 * PAGE, 1]);
    ask(api, q, 0, 16);
    api.tell("cuMemFree_v2", &[q]);
    api.tell("cuMemFree_v2", &[other]);
}

/// Any stream uses managed memory, whatever it is attached to: devices with concurrent access let
/// it.
pub fn attached(api: &Api) {
    const N: usize = 40_000;
    api.made("cuCtxCreate_v2", &[0, 0]);
    let (one, other) = (
        api.made("cuStreamCreate", &[1]),
        api.made("cuStreamCreate", &[1]),
    );
    let plain = api.made("cuMemAlloc_v2", &[N as u64]);
    for (flags, attach) in [
        (1, None),
        (2, None),
        (1, Some(2)),
        (1, Some(4)),
        (2, Some(4)),
    ] {
        let p = api.made("cuMemAllocManaged", &[N as u64, flags]);
        // SAFETY: managed memory of that size, which nobody else uses where it is looked at.
        let bytes = || unsafe { std::slice::from_raw_parts_mut(p as *mut u8, N) };
        bytes().fill(0);
        if let Some(attach) = attach {
            api.tell("cuStreamAttachMemAsync", &[one, p, 0, attach]);
        }
        for (round, stream) in [(1u8, other), (2, one), (3, 0)] {
            api.tell("cuMemsetD8Async", &[p + 5000, round.into(), 30_000, stream]);
            api.tell("cuStreamSynchronize", &[stream]);
            let told = bytes();
            let sum: u64 = told.iter().map(|b| u64::from(*b)).sum();
            println!("{flags} {attach:?}: {} {} {sum}", told[4999], told[5000]);
            // What the program writes the device sees.
            bytes()[4000..6000].fill(10 * round);
            api.tell("cuMemcpyDtoDAsync_v2", &[plain, p, N as u64, stream]);
            api.tell("cuStreamSynchronize", &[stream]);
            let mut back = vec![0u8; N];
            api.tell(
                "cuMemcpyDtoH_v2",
                &[back.as_mut_ptr() as u64, plain, N as u64],
            );
            let sum: u64 = back.iter().map(|b| u64::from(*b)).sum();
            println!("  {} {} {sum}", back[4000], back[6000]);
        }
        api.tell("cuMemFree_v2", &[p]);
    }
}
