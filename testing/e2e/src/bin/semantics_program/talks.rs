//! Host memory by which a program talks to work that runs: flags, answers, words that streams wait
//! for.

use super::api::{Api, IMAGE, at};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const ROUNDS: u32 = 50;

/// Waits until `come`, though not for ever.
pub fn until(mut come: impl FnMut() -> bool) -> bool {
    let limit = Instant::now() + Duration::from_secs(8);
    while !come() {
        if Instant::now() > limit {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

/// Two words at an address.
pub fn words(p: u64) -> &'static [AtomicU32; 2] {
    // SAFETY: each caller gives memory that is there until the program ends.
    unsafe { &*(p as *const [AtomicU32; 2]) }
}

/// Questions and answers while a kernel runs.
fn talk(api: &Api, stream: u64, p: u64, there: u64) {
    let kernel = api.kernel("talk");
    let [question, answer] = words(p);
    println!(
        "launch: {}",
        api.launch(kernel, stream, &[there, u64::from(ROUNDS)])
    );
    let rounds = (1..=ROUNDS).take_while(|i| {
        question.store(*i, Ordering::Release);
        until(|| answer.load(Ordering::Acquire) == *i)
    });
    println!("rounds: {}", rounds.count());
    api.tell("cuStreamSynchronize", &[stream]);
}

/// The same, each time in another page.
fn meet(api: &Api, stream: u64, p: u64) {
    const PLACES: u64 = 40;
    const APART: u64 = 20_000;
    println!(
        "launch: {}",
        api.launch(api.kernel("meet"), stream, &[p, PLACES, APART / 4])
    );
    let met = (0..PLACES).take_while(|i| {
        let [question, answer] = words(p + i * APART);
        let round = *i as u32 + 1;
        question.store(round, Ordering::Release);
        until(|| answer.load(Ordering::Acquire) == round)
    });
    println!("met: {}", met.count());
    api.tell("cuStreamSynchronize", &[stream]);
}

/// Managed memory, and more pages of page-locked memory than are open at once: host and device use
/// them at the same time.
pub fn beside(api: &Api) {
    const GLOBAL: u64 = 1;
    const MAPPED: u64 = 2;
    const LEN: u64 = 1 << 20;
    api.made("cuCtxCreate_v2", &[0, 0]);
    let stream = api.made("cuStreamCreate", &[1]);
    let other = api.made("cuStreamCreate", &[1]);
    let managed = |len| {
        let mut p = 0u64;
        api.tell("cuMemAllocManaged", &[at(&mut p), len, GLOBAL]);
        p
    };
    let (small, large) = (managed(64), managed(LEN));
    talk(api, stream, small, small);
    talk(api, stream, large + 300_000, large + 300_000);
    meet(api, stream, large);
    let mut pinned = 0u64;
    api.tell("cuMemHostAlloc", &[at(&mut pinned), LEN, MAPPED]);
    meet(api, stream, pinned);

    // A kernel waits for the program, which hears of another stream's work by a flag, and moves
    // what that wrote from block to block.
    let held = managed(64);
    let [question, _] = words(held);
    // Loading code waits for kernels.
    let (fill, set, moves) = (api.kernel("fill"), api.kernel("flag"), api.kernel("copy"));
    let (data, copy, flag) = (managed(LEN), managed(LEN), managed(64));
    println!(
        "launch: {}",
        api.launch(api.kernel("talk"), stream, &[held, 1])
    );
    let n = LEN / 4;
    // SAFETY: memory that is there until the program ends; what kernels write is looked at behind
    // their flag.
    let bytes = |p: u64| unsafe { std::slice::from_raw_parts_mut(p as *mut u32, n as usize) };
    for round in 1..=5u32 {
        assert_eq!(api.launch(fill, other, &[data, round.into(), n]), 0);
        assert_eq!(api.launch(set, other, &[flag, round.into()]), 0);
        let heard = until(|| words(flag)[0].load(Ordering::Acquire) == round);
        bytes(copy).copy_from_slice(bytes(data));
        let right = bytes(copy).iter().filter(|v| **v == round).count();
        println!("heard: {heard}, {right} of {n}");
        // All of it is there for the next kernel.
        bytes(copy).iter_mut().for_each(|v| *v += 1);
        assert_eq!(api.launch(moves, other, &[data, copy, LEN]), 0);
        api.tell("cuStreamSynchronize", &[other]);
        let right = bytes(data).iter().filter(|v| **v == round + 1).count();
        println!("copied: {right} of {n}");
    }
    question.store(1, Ordering::Release);
    api.tell("cuStreamSynchronize", &[stream]);

    has_itself(api, other);

    // A stream goes while the program is let in beside its work.
    let [question, answer] = words(small);
    let talk = api.kernel("talk");
    for _ in 0..10 {
        let stream = api.made("cuStreamCreate", &[1]);
        question.store(0, Ordering::Release);
        answer.store(0, Ordering::Release);
        assert_eq!(api.launch(talk, stream, &[small, 2]), 0);
        for round in 1..=2 {
            question.store(round, Ordering::Release);
            let answered = until(|| answer.load(Ordering::Acquire) == round);
            println!("answered: {answered}");
            if round == 1 {
                api.tell("cuStreamDestroy_v2", &[stream]);
            }
        }
        api.tell("cuCtxSynchronize", &[]);
    }
}

/// A small allocation, memory of the program's inside a page, a stream that waits for a thread.
pub fn talks(api: &Api) {
    const MAPPED: u64 = 2;
    api.made("cuCtxCreate_v2", &[0, 0]);
    let stream = api.made("cuStreamCreate", &[1]);
    let (mut p, mut there) = (0u64, 0u64);
    api.tell("cuMemHostAlloc", &[at(&mut p), 64, MAPPED]);
    talk(api, stream, p, p);
    // Somewhere in a large one.
    let mut large = 0u64;
    api.tell("cuMemHostAlloc", &[at(&mut large), 1 << 20, MAPPED]);
    talk(api, stream, large + 300_000, large + 300_000);

    let page = vec![0u32; 4096].leak();
    let inside = page[100..].as_ptr() as u64;
    api.tell("cuMemHostRegister_v2", &[inside, 64, MAPPED]);
    api.tell("cuMemHostGetDevicePointer_v2", &[at(&mut there), inside, 0]);
    talk(api, stream, inside, there);
    println!("neighbours: {} {}", page[99], page[116]);

    // Meanwhile other threads bring code that the server has not seen.
    std::thread::scope(|s| {
        let mut ctx = 0u64;
        api.tell("cuCtxGetCurrent", &[at(&mut ctx)]);
        for thread in 0..2 {
            s.spawn(move || {
                assert_eq!(api.call("cuCtxSetCurrent", &[ctx]), 0);
                for i in 0..10 {
                    let salt = format!("{thread} {i} {:?}", Instant::now());
                    let unused = format!("kernel unused_{thread}_{i} nop\n").repeat(10);
                    let image = format!("{}# {salt}\n{unused}\0", IMAGE.trim_end_matches('\0'));
                    let module = api.made("cuModuleLoadData", &[image.as_ptr() as u64]);
                    assert_eq!(api.call("cuModuleUnload", &[module]), 0);
                }
            });
        }
        talk(api, stream, p, p);
    });

    // What a kernel wrote is there once the stream is known to be idle, in each way to know it.
    let flag = api.kernel("flag");
    let [word, _] = words(inside);
    let device = api.made("cuMemAlloc_v2", &[4096]);
    let mut last = [0u32; 1];
    for value in 1000..1010u32 {
        println!(
            "launch: {}",
            api.launch(flag, stream, &[there, u64::from(value)])
        );
        match value % 2 {
            0 => print!("{} ", until(|| api.call("cuStreamQuery", &[stream]) == 0)),
            _ => {
                let args = [at(&mut last), device, 4, stream];
                assert_eq!(api.call("cuMemcpyDtoHAsync_v2", &args), 0);
                api.tell("cuStreamSynchronize", &[stream]);
            }
        }
        println!("word: {}", word.load(Ordering::Acquire));
    }

    // A stream waits for a word that another thread writes while this one waits for the stream.
    let [question, answer] = words(p);
    let (q, a) = (p, p + 4);
    api.tell("cuStreamWaitValue32_v2", &[stream, q, 7777, 1]);
    api.tell("cuStreamWriteValue32_v2", &[stream, a, 8888, 0]);
    std::thread::scope(|s| {
        s.spawn(|| {
            std::thread::sleep(Duration::from_millis(50));
            question.store(7777, Ordering::Release);
        });
        api.tell("cuStreamSynchronize", &[stream]);
    });
    println!("answer: {}", answer.load(Ordering::Acquire));
}

/// Copies of page-locked memory that has its own address in it: kernels that find it there use it.
fn has_itself(api: &Api, stream: u64) {
    const MAPPED: u64 = 2;
    const LEN: u64 = 20_000;
    const GLOBAL: u64 = 1;
    let [mark, fill] = ["mark", "fill"].map(|name| api.kernel(name));
    let scratch = api.made("cuMemAlloc_v2", &[LEN]);
    let (own, mut managed) = (api.made("cuMemAlloc_v2", &[LEN]), 0u64);
    api.tell("cuMemAllocManaged", &[at(&mut managed), LEN, GLOBAL]);
    let ways = [own, managed].map(|there| {
        [(2_100, false), (2_100, true), (LEN, false), (LEN, true)]
            .map(|(len, later)| (there, len, later))
    });
    for (there, len, later) in ways.into_iter().flatten() {
        let mut p = 0u64;
        api.tell("cuMemHostAlloc", &[at(&mut p), LEN, MAPPED]);
        // SAFETY: memory that is there until it is freed below; nothing else uses it now.
        let all = unsafe { std::slice::from_raw_parts_mut(p as *mut u64, LEN as usize / 8) };
        all.fill(p);
        all[0] = p + 64;
        // Work that may use whatever it likes.
        assert_eq!(api.launch(fill, stream, &[scratch, 1, LEN / 4]), 0);
        let rc = match later {
            true => api.call("cuMemcpyHtoDAsync_v2", &[there, p, len, stream]),
            false => api.call("cuMemcpy", &[there, p, len]),
        };
        let launched = api.launch(mark, stream, &[there, 777]);
        println!("copied: {rc}, launched: {launched}");
        api.tell("cuStreamSynchronize", &[stream]);
        println!(
            "marked: {} {}",
            all[8] as u32,
            all.iter().filter(|w| **w == p).count()
        );
        api.tell("cuMemFreeHost", &[p]);
    }
}

/// The program and a kernel change the same words of managed memory at the same time.
pub fn atomics(api: &Api) {
    const GLOBAL: u64 = 1;
    const TIMES: u32 = 40;
    api.made("cuCtxCreate_v2", &[0, 0]);
    let stream = api.made("cuStreamCreate", &[1]);
    let mut p = 0u64;
    api.tell("cuMemAllocManaged", &[at(&mut p), 8192, GLOBAL]);
    // SAFETY: memory that is there until the program ends.
    let word = |i: u64| unsafe { &*((p + 4 * i) as *const AtomicU32) };
    let [counter, stop, told] = [0, 1, 2].map(word);
    let count = api.kernel("count");
    println!("launch: {}", api.launch(count, stream, &[p]));
    let begun = until(|| counter.load(Ordering::Acquire) > 0);
    println!("begun: {begun}");
    let mut rises = true;
    let mut last = 0;
    for _ in 0..TIMES {
        // What a kernel adds comes in between.
        let had = counter.fetch_add(1, Ordering::AcqRel);
        let now = counter.load(Ordering::Acquire);
        rises &= had >= last && now > had;
        last = now;
    }
    println!("rises: {rises}");
    // SAFETY: as above.
    let (byte, long) = unsafe {
        (
            &*((p + 21) as *const std::sync::atomic::AtomicU8),
            &*((p + 32) as *const std::sync::atomic::AtomicI64),
        )
    };
    byte.store(7, Ordering::Release);
    long.store(-5, Ordering::Release);
    let had = [
        byte.fetch_sub(9, Ordering::AcqRel).into(),
        byte.swap(0xf0, Ordering::AcqRel).into(),
        byte.fetch_or(0x0f, Ordering::AcqRel).into(),
        byte.fetch_and(0x3c, Ordering::AcqRel).into(),
        byte.fetch_xor(0xff, Ordering::AcqRel).into(),
        long.fetch_sub(1 << 40, Ordering::AcqRel),
        long.swap(3, Ordering::AcqRel),
        long.fetch_max(9, Ordering::AcqRel),
    ];
    println!("were: {had:?}, {byte:?} {long:?}");
    for expected in [8, 9] {
        let (to, order) = (expected + 1, Ordering::AcqRel);
        let done = long.compare_exchange(expected, to, order, Ordering::Acquire);
        println!("{expected}: {done:?}");
    }
    stop.store(1, Ordering::Release);
    api.tell("cuStreamSynchronize", &[stream]);
    let sum = counter.load(Ordering::Acquire);
    let told = told.load(Ordering::Acquire);
    println!("none is lost: {}", sum == told + TIMES && told > 0);
    println!("done");
}
