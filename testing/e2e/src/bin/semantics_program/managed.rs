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
