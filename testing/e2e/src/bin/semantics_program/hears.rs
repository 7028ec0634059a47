//! What kernels wrote in small host memory is there once the program has heard that they are done,
//! in each way to hear it; and what the program wrote meanwhile stays.

use super::api::{Api, at};
use super::talks::{until, words};
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

const ROUNDS: u32 = 20;
const MAPPED: u64 = 2;

/// What a host function sees, and where it looks.
struct Note {
    at: u64,
    seen: AtomicU32,
}

unsafe extern "C" fn note(data: *mut c_void) {
    // SAFETY: the program below keeps it, and its memory, until the function has run.
    let note = unsafe { &*data.cast::<Note>() };
    let [word, _] = words(note.at);
    note.seen
        .store(word.load(Ordering::Acquire), Ordering::Release);
}

/// Each way to hear, some rounds of it.
pub fn hears(api: &Api) {
    api.made("cuCtxCreate_v2", &[0, 0]);
    let [stream, second] = [1, 1].map(|flags| api.made("cuStreamCreate", &[flags]));
    let event = api.made("cuEventCreate", &[2]);
    let (flag, copy) = (api.kernel("flag"), api.kernel("copy"));
    let p = api.made("cuMemHostAlloc", &[64, MAPPED]);
    let device = api.made("cuMemAlloc_v2", &[4096]);
    // One that the kernel writes, one that another stream writes; one that the program writes, and
    // what a kernel makes of it.
    let ([word, other], [mine, echo]) = (words(p), words(p + 32));
    let launch = |on, at: u64, value: u32| {
        assert_eq!(api.launch(flag, on, &[at, u64::from(value)]), 0);
    };
    let call = |name: &str, args: &[u64]| assert_eq!(api.call(name, args), 0, "{name}");
    let is_done = |name: &str, of| assert!(until(|| api.call(name, &[of]) == 0), "{name}");

    let (mut graph, mut exec) = (0u64, 0u64);
    call("cuStreamBeginCapture_v2", &[stream, 2]);
    launch(stream, p, 7);
    call("cuStreamEndCapture", &[stream, at(&mut graph)]);
    call("cuGraphInstantiateWithFlags", &[at(&mut exec), graph, 0]);

    let ways: [(&str, &dyn Fn(u32)); 9] = [
        ("stream", &|v| {
            launch(stream, p, v);
            call("cuStreamSynchronize", &[stream]);
        }),
        ("event", &|v| {
            launch(stream, p, v);
            call("cuEventRecord", &[event, stream]);
            call("cuEventSynchronize", &[event]);
        }),
        ("event query", &|v| {
            launch(stream, p, v);
            call("cuEventRecord", &[event, stream]);
            is_done("cuEventQuery", event);
        }),
        ("context", &|v| {
            launch(stream, p, v);
            call("cuCtxSynchronize", &[]);
        }),
        ("copy", &|v| {
            let mut last = [0u32; 1];
            launch(0, p, v);
            call("cuMemcpyDtoH_v2", &[at(&mut last), device, 4]);
        }),
        ("stream query", &|v| {
            launch(stream, p, v);
            is_done("cuStreamQuery", stream);
            call("cuStreamQuery", &[stream]);
        }),
        ("graph", &|v| {
            word.store(v, Ordering::Release);
            call("cuGraphLaunch", &[exec, stream]);
            call("cuStreamSynchronize", &[stream]);
            assert_eq!(word.swap(v, Ordering::AcqRel), 7);
        }),
        ("function", &|v| {
            let seen = AtomicU32::new(0);
            let mut n = Note { at: p, seen };
            launch(stream, p, v);
            call(
                "cuLaunchHostFunc",
                &[stream, note as *const () as u64, at(&mut n)],
            );
            call("cuStreamSynchronize", &[stream]);
            assert_eq!(n.seen.load(Ordering::Acquire), v);
        }),
        // The last one: from here on the program is told otherwise.
        ("wait for a word", &|v| {
            const AT_LEAST: u64 = 0;
            let word = p;
            call(
                "cuStreamWaitValue32_v2",
                &[second, word, v.into(), AT_LEAST],
            );
            call("cuStreamWriteValue32_v2", &[second, p + 4, v.into(), 0]);
            launch(stream, word, v);
            call("cuStreamSynchronize", &[second]);
            assert_eq!(other.load(Ordering::Acquire), v);
        }),
    ];
    let mut value = 1000;
    for (way, hear) in ways {
        let (mut heard, mut kept) = (0, 0);
        for _ in 0..ROUNDS {
            value += 1;
            mine.store(value, Ordering::Release);
            assert_eq!(api.launch(copy, stream, &[p + 36, p + 32, 4]), 0);
            hear(value);
            heard += u32::from(word.load(Ordering::Acquire) == value);
            call("cuCtxSynchronize", &[]);
            let both = [mine, echo].map(|w| w.load(Ordering::Acquire));
            kept += u32::from(both == [value; 2]);
        }
        println!("{way}: {heard} heard, {kept} kept");
    }
}

/// Ten launches and one word that they are done, so many times.
pub fn steady(api: &Api, rounds: u32) {
    api.made("cuCtxCreate_v2", &[0, 0]);
    let stream = api.made("cuStreamCreate", &[1]);
    let flag = api.kernel("flag");
    let p = api.made("cuMemHostAlloc", &[64, MAPPED]);
    let [word, _] = words(p);
    let heard = (1..=rounds).filter(|round| {
        for i in 0..10 {
            let value = u64::from(10 * round + i);
            assert_eq!(api.launch(flag, stream, &[p, value]), 0);
        }
        assert_eq!(api.call("cuStreamSynchronize", &[stream]), 0);
        word.load(Ordering::Acquire) == 10 * round + 9
    });
    println!("heard: {}", heard.count());
}

/// A flag of its own for each kernel that is measured, as XLA has: made, written by the kernel,
/// freed once an event behind the kernel has happened. Now and then one of another length.
pub fn timed(api: &Api, rounds: u32) {
    api.made("cuCtxCreate_v2", &[0, 0]);
    let stream = api.made("cuStreamCreate", &[1]);
    let flag = api.kernel("flag");
    let event = api.made("cuEventCreate", &[0]);
    let seen = (1..=rounds).filter(|round| {
        let p = api.made("cuMemHostAlloc", &[4 + 4 * u64::from(round % 2), MAPPED]);
        let [word, _] = words(p);
        word.store(77, Ordering::Release);
        let args = [p, u64::from(*round)];
        assert_eq!(api.launch(flag, stream, &args), 0);
        assert_eq!(api.call("cuEventRecord", &[event, stream]), 0);
        assert_eq!(api.call("cuEventSynchronize", &[event]), 0);
        let written = word.load(Ordering::Acquire) == *round;
        assert_eq!(api.call("cuMemFreeHost", &[p]), 0);
        written && api.call("cuMemFreeHost", &[p]) != 0
    });
    println!("written: {}", seen.count());
}

/// A word of the device's that the program looks at behind each kernel, in page-locked and in
/// ordinary memory in turn, as XLA looks at the condition of a loop.
pub fn conditions(api: &Api, rounds: u32) {
    api.made("cuCtxCreate_v2", &[0, 0]);
    let stream = api.made("cuStreamCreate", &[1]);
    let flag = api.kernel("flag");
    let there = api.made("cuMemAlloc_v2", &[64]);
    let locked = api.made("cuMemHostAlloc", &[64, 0]);
    let mut own = 0u32;
    let own = at(&mut own);
    let seen = (1..=rounds).filter(|round| {
        assert_eq!(api.launch(flag, stream, &[there, u64::from(*round)]), 0);
        let place = if round % 2 == 0 { locked } else { own };
        let copy = [place, there, 4, stream];
        assert_eq!(api.call("cuMemcpyDtoHAsync_v2", &copy), 0);
        assert_eq!(api.call("cuStreamSynchronize", &[stream]), 0);
        words(place)[0].load(Ordering::Acquire) == *round
    });
    println!("seen: {}", seen.count());
}
