//! Asking whether events have happened.

use super::api::{Api, at};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, PoisonError};

/// Whether the program lets its streams go on.
static OPEN: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());

fn open(yes: bool) {
    *OPEN.0.lock().unwrap_or_else(PoisonError::into_inner) = yes;
    OPEN.1.notify_all();
}

/// Holds its stream until the program opens it.
unsafe extern "C" fn gate(_: *mut std::ffi::c_void) {
    let shut = OPEN.0.lock().unwrap_or_else(PoisonError::into_inner);
    drop(OPEN.1.wait_while(shut, |open| !*open));
}

/// What is known of an event follows from what the program has waited for, however often it asks.
pub fn events(api: &Api) {
    api.made("cuCtxCreate_v2", &[0, 0]);
    let [stream, other] = [1u64; 2].map(|flags| api.made("cuStreamCreate", &[flags]));
    let [first, second] = [2u64; 2].map(|flags| api.made("cuEventCreate", &[flags]));
    let p = api.made("cuMemAlloc_v2", &[4096]);
    let hold = |stream| {
        open(false);
        api.tell("cuLaunchHostFunc", &[stream, gate as *const () as u64, 0]);
    };
    let record = |event, stream| api.tell("cuEventRecord", &[event, stream]);
    let ask = |event, times: u32| {
        let answers = (0..times).map(|_| api.call("cuEventQuery", &[event]));
        let mut answers: Vec<i32> = answers.collect();
        answers.dedup();
        println!("asked {times} times: {answers:?}");
    };
    let copy = |stream| api.tell("cuMemcpyHtoDAsync_v2", &[p, p, 0, stream]);
    ask(first, 3);
    for round in 0..20u32 {
        hold(stream);
        record(first, stream);
        copy(stream);
        ask(first, 200);
        // Another one does not tell of it.
        record(second, other);
        api.tell("cuEventSynchronize", &[second]);
        ask(second, 2);
        ask(first, 2);
        open(true);
        match round % 5 {
            0 => api.tell("cuStreamSynchronize", &[stream]),
            1 => {
                record(second, stream);
                api.tell("cuEventSynchronize", &[second])
            }
            2 => {
                api.tell("cuStreamWaitEvent", &[other, first, 0]);
                api.tell("cuStreamSynchronize", &[other])
            }
            3 => {
                let mut back = [0u8; 4];
                api.tell("cuMemcpyDtoHAsync_v2", &[at(&mut back), p, 4, stream])
            }
            _ => {
                while api.call("cuEventQuery", &[first]) == 600 {}
                0
            }
        };
        ask(first, 3);
    }
    // Recorded twice, the later one counts.
    record(first, other);
    hold(stream);
    record(first, stream);
    api.tell("cuStreamSynchronize", &[other]);
    ask(first, 2);
    open(true);
    api.tell("cuStreamSynchronize", &[stream]);
    ask(first, 2);
    in_graphs(api, [stream, other], first, &ask, &hold);
    // An event that is gone, and another in its place.
    api.tell("cuEventDestroy_v2", &[first]);
    let third = api.made("cuEventCreate", &[2]);
    hold(stream);
    record(third, stream);
    ask(third, 2);
    open(true);
    api.tell("cuCtxSynchronize", &[]);
    ask(third, 2);
    // An error is told instead.
    record(third, stream);
    api.tell("cuStreamSynchronize", &[stream]);
    println!("launch: {}", api.launch(api.kernel("trap"), stream, &[]));
    api.tell("cuStreamSynchronize", &[stream]);
    ask(third, 2);
}

/// Waits for events behind which more is queued already: as a loop does that is some steps ahead,
/// and of streams that stand still. A call returns when its event has happened, and not before.
pub fn ahead(api: &Api, rounds: u32, timed: bool) {
    unsafe extern "C" fn step(steps: *mut std::ffi::c_void) {
        // SAFETY: the counter below, which outlives all streams' work.
        unsafe { &*steps.cast::<AtomicU32>() }.fetch_add(1, SeqCst);
    }
    let steps = AtomicU32::new(0);
    const AHEAD: u32 = 3;
    api.made("cuCtxCreate_v2", &[0, 0]);
    let [stream, other] = [1u64; 2].map(|flags| api.made("cuStreamCreate", &[flags]));
    let p = api.made("cuMemAlloc_v2", &[4096]);
    let call = |name: &str, args: &[u64]| assert_eq!(api.call(name, args), 0, "{name}");
    let run = |f: unsafe extern "C" fn(*mut std::ffi::c_void)| {
        let data = &raw const steps as u64;
        call("cuLaunchHostFunc", &[stream, f as *const () as u64, data]);
    };
    let fill = |stream| call("cuMemsetD8Async", &[p, 0, 16, stream]);
    // One event for each step, and few events that are recorded again and again.
    for new in [true, false] {
        steps.store(0, SeqCst);
        let make = || api.made("cuEventCreate", &[2]);
        let mut events: Vec<u64> = (0..=AHEAD).map(|_| make()).collect();
        let mut early = 0;
        for n in 0..rounds {
            run(step);
            call("cuEventRecord", &[events[AHEAD as usize], stream]);
            fill(stream);
            events.rotate_left(1);
            if n >= AHEAD {
                call("cuEventSynchronize", &[events[0]]);
                early += u32::from(steps.load(SeqCst) < n - AHEAD + 1);
            }
            if new {
                call(
                    "cuEventDestroy_v2",
                    &[std::mem::replace(&mut events[0], make())],
                );
            }
        }
        call("cuCtxSynchronize", &[]);
        println!("{early} too early, of steps: {}", steps.load(SeqCst));
    }
    // A stream that stands still, with more behind the record there and elsewhere.
    let event = api.made("cuEventCreate", &[0]);
    for _ in 0..4 {
        open(false);
        run(gate);
        call("cuEventRecord", &[event, stream]);
        fill(stream);
        fill(other);
        std::thread::scope(|s| {
            s.spawn(|| {
                std::thread::sleep(std::time::Duration::from_millis(2));
                open(true);
            });
            call("cuEventSynchronize", &[event]);
        });
        println!(
            "let go: {}",
            *OPEN.0.lock().unwrap_or_else(PoisonError::into_inner)
        );
        if timed {
            // It is known as soon as the event is.
            let mut ms = -1f32;
            let rc = api.call("cuEventElapsedTime", &[at(&mut ms), event, event]);
            println!("time to itself: {rc} {ms}");
        }
    }
    if !timed {
        return;
    }
    // An error is told instead.
    assert_eq!(api.launch(api.kernel("trap"), stream, &[]), 0);
    // These may hear of it, or not.
    api.call("cuEventRecord", &[event, stream]);
    api.call("cuMemsetD8Async", &[p, 0, 16, stream]);
    api.tell("cuEventSynchronize", &[event]);
}

/// Takes longer than any record of an event.
unsafe extern "C" fn pause(_: *mut std::ffi::c_void) {
    std::thread::sleep(std::time::Duration::from_millis(2));
}

/// Times between events: asked for in any order, too early, of what has none, of what is recorded
/// again or gone.
pub fn times(api: &Api) {
    api.made("cuCtxCreate_v2", &[0, 0]);
    let [stream, other] = [1u64; 2].map(|flags| api.made("cuStreamCreate", &[flags]));
    let make = |flags: u64| api.made("cuEventCreate", &[flags]);
    let ([a, b, c], untimed) = ([0; 3].map(make), make(2));
    let call = |name: &str, args: &[u64]| assert_eq!(api.call(name, args), 0, "{name}");
    let record = |event, stream| call("cuEventRecord", &[event, stream]);
    let run = |f: unsafe extern "C" fn(*mut std::ffi::c_void)| {
        call("cuLaunchHostFunc", &[stream, f as *const () as u64, 0]);
    };
    let ask = |what: &str, start, stop| {
        let mut ms = -1f32;
        let rc = api.call("cuEventElapsedTime", &[at(&mut ms), start, stop]);
        println!("{what}: {rc}");
        ms
    };
    for _ in 0..3 {
        record(a, stream);
        run(pause);
        record(b, stream);
        record(untimed, stream);
        call("cuEventSynchronize", &[b]);
        println!("as long as the pause: {}", ask("a to b", a, b) >= 2.0);
        assert_eq!(ask("a to b again", a, b), ask("a to b once more", a, b));
        ask("b to a", b, a);
        ask("to one without a time", a, untimed);
        record(c, other);
        call("cuStreamSynchronize", &[other]);
        ask("to another stream", a, c);
        open(false);
        run(gate);
        record(b, stream);
        ask("too early", a, b);
        open(true);
        call("cuStreamSynchronize", &[stream]);
        ask("recorded again", a, b);
        record(a, stream);
        call("cuCtxSynchronize", &[]);
        ask("a new start", a, b);
        ask("the way back", b, a);
        // One goes before anybody could say when it happened.
        open(false);
        run(gate);
        let [first, last] = [0; 2].map(make);
        record(first, stream);
        record(last, stream);
        call("cuEventDestroy_v2", &[first]);
        open(true);
        call("cuEventSynchronize", &[last]);
        ask("from one that is gone", first, last);
        call("cuEventDestroy_v2", &[last]);
    }
}

/// A captured event cannot be asked about; one that a graph records has happened when that has.
fn in_graphs(
    api: &Api,
    [stream, other]: [u64; 2],
    event: u64,
    ask: &dyn Fn(u64, u32),
    hold: &dyn Fn(u64),
) {
    const EXTERNAL: u64 = 1;
    for flags in [0, EXTERNAL] {
        let (mut graph, mut exec) = (0u64, 0u64);
        api.tell("cuStreamBeginCapture_v2", &[stream, 2]);
        api.tell("cuEventRecordWithFlags", &[event, stream, flags]);
        println!("launch: {}", api.launch(api.kernel("nop"), stream, &[]));
        api.tell("cuStreamEndCapture", &[stream, at(&mut graph)]);
        if flags == 0 {
            ask(event, 2);
            continue;
        }
        api.tell("cuGraphInstantiateWithFlags", &[at(&mut exec), graph, 0]);
        for round in 0..3 {
            api.tell("cuEventRecord", &[event, other]);
            api.tell("cuStreamSynchronize", &[other]);
            ask(event, 2);
            hold(stream);
            api.tell("cuGraphLaunch", &[exec, stream]);
            println!("round {round}");
            ask(event, 2);
            open(true);
            api.tell("cuStreamSynchronize", &[stream]);
            ask(event, 2);
        }
    }
}
