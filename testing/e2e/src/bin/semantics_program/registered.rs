//! Memory of the program's that it registers: what is accepted and what refused, how much of it
//! there may be, what shares its pages, and who else sees it.

use super::api::{Api, at};
use std::ffi::c_void;

const PAGE: u64 = 4096;
const RW: i32 = libc::PROT_READ | libc::PROT_WRITE;
const PRIVATE: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;

/// Pages of the program's.
fn pages(n: u64, rights: i32, flags: i32, fd: i32) -> u64 {
    let len = (n * PAGE) as usize;
    // SAFETY: a new mapping where nothing is.
    let p = unsafe { libc::mmap(std::ptr::null_mut(), len, rights, flags, fd, 0) };
    assert_ne!(p, libc::MAP_FAILED);
    p as u64
}

fn words(p: u64, n: usize) -> &'static mut [u32] {
    // SAFETY: memory that stays, and that nothing else here uses at the same time.
    unsafe { std::slice::from_raw_parts_mut(p as *mut u32, n) }
}

/// Which requests are refused, and how.
fn requests(api: &Api) {
    let register = |what: &str, p: u64, n: u64, flags: u64| {
        let rc = api.call("cuMemHostRegister_v2", &[p, n, flags]);
        println!("register {what}: {rc}");
    };
    let unregister = |what: &str, p: u64| {
        let rc = api.call("cuMemHostUnregister", &[p]);
        println!("unregister {what}: {rc}");
    };
    let p = pages(8, RW, PRIVATE, -1);
    register("nothing", 0, 64, 0);
    register("no bytes", p, 0, 0);
    register("more than there is", p, 1 << 46, 0);
    register("beyond all addresses", p, u64::MAX, 0);
    for flag in [0x10, 0x80, 1 << 31] {
        register("with unknown flags", p, 64, flag);
    }
    register("as memory of a device", p, PAGE, 4);
    for flags in [0, 1, 2, 3, 8, 11] {
        register("with flags", p, 2 * PAGE, flags);
        unregister("it", p);
        unregister("it again", p);
    }
    register("a part", p + 100, 3000, 0);
    for (what, at, n) in [
        ("the same", p + 100, 3000),
        ("inside", p + 200, 10),
        ("its last byte", p + 3099, 1),
        ("around", p, PAGE),
        ("before", p, 100),
        ("behind", p + 3100, 100),
    ] {
        register(what, at, n, 0);
    }
    unregister("inside", p + 200);
    unregister("before", p);
    unregister("behind", p + 3100);
    unregister("the part", p + 100);
    let host = api.made("cuMemHostAlloc", &[PAGE, 0]);
    register("page-locked memory", host, 64, 0);
    unregister("page-locked memory", host);
    let closed = pages(2, libc::PROT_READ, PRIVATE, -1);
    register("what may be read only", closed, PAGE, 0);
    register("what may be read only, as such", closed, PAGE, 8);
    unregister("that", closed);
    let mut there = 0u64;
    let mut device = |what: &str, p: u64, flags: u64| {
        let args = [at(&mut there), p, flags];
        let rc = api.call("cuMemHostGetDevicePointer_v2", &args);
        println!("pointer {what}: {rc}");
    };
    device("of nothing", p, 0);
    device("with flags", host, 1);
    device("of page-locked memory", host + 9, 0);
    api.tell("cuMemFreeHost", &[host]);
}

/// Ends of copies that are registered in part.
fn ends(api: &Api) {
    let p = pages(8, RW, PRIVATE, -1);
    let device = api.made("cuMemAlloc_v2", &[8 * PAGE]);
    let stream = api.made("cuStreamCreate", &[1]);
    for (at, n) in [(PAGE, PAGE), (2 * PAGE, PAGE), (5 * PAGE + 64, 128)] {
        assert_eq!(api.call("cuMemHostRegister_v2", &[p + at, n, 0]), 0);
    }
    for (what, from, n) in [
        ("one", PAGE, PAGE),
        ("none", 3 * PAGE, 2 * PAGE),
        ("part", PAGE + 8, 16),
        ("two", PAGE, 2 * PAGE),
        ("beyond", 2 * PAGE, PAGE + 1),
        ("into", 0, PAGE + 1),
        ("around", 5 * PAGE, PAGE),
        ("a page of its own", 5 * PAGE, 65),
    ] {
        let from = p + from;
        let one = |name: &str, args: &[u64]| api.call(name, args);
        let mut seen = vec![
            one("cuMemcpyHtoD_v2", &[device, from, n]),
            one("cuMemcpyDtoH_v2", &[from, device, n]),
            one("cuMemcpyHtoDAsync_v2", &[device, from, n, stream]),
            one("cuMemcpyDtoHAsync_v2", &[from, device, n, stream]),
            one("cuMemcpy", &[device, from, n]),
            one("cuMemcpyAsync", &[from, device, n, stream]),
        ];
        // The same as rows, each as long as the next is far.
        let mut rows = [0u64; 16];
        (rows[2], rows[3], rows[6]) = (1, from, n);
        (rows[9], rows[11], rows[13]) = (2, device, n);
        (rows[14], rows[15]) = (n, 1);
        seen.push(one("cuMemcpy2D_v2", &[at(&mut rows)]));
        println!("{what}: {seen:?}");
        api.call("cuStreamSynchronize", &[stream]);
    }
}

/// A great many registrations, all of which kernels use.
fn many(api: &Api) {
    const MANY: u64 = 1500;
    let [flag, copy] = ["flag", "copy"].map(|k| api.kernel(k));
    // A page between each and the next is not registered.
    let p = pages(3 * MANY, RW, PRIVATE, -1);
    let place = |i: u64| p + 3 * PAGE * i;
    let cell = |i: u64| place(i) + 4 * (i % 2000);
    let (mut refused, mut there) = (0, 0u64);
    for i in 0..MANY {
        refused += api.call("cuMemHostRegister_v2", &[place(i), 2 * PAGE, 2]);
        refused += api.call(
            "cuMemHostGetDevicePointer_v2",
            &[at(&mut there), cell(i), 0],
        );
        refused += api.launch(flag, 0, &[there, 7 + i]);
    }
    let done = api.call("cuCtxSynchronize", &[]);
    let right = (0..MANY).filter(|i| u64::from(words(cell(*i), 1)[0]) == 7 + i);
    println!("many: {refused} {done} {}", right.count());
    let device = api.made("cuMemAlloc_v2", &[4 * MANY]);
    for i in 0..MANY {
        words(cell(i), 1)[0] += 5;
        refused += api.launch(copy, 0, &[device + 4 * i, cell(i), 4]);
    }
    let mut seen = vec![0u32; MANY as usize];
    api.call("cuMemcpyDtoH_v2", &[at(&mut seen[0]), device, 4 * MANY]);
    let right = (0..MANY).filter(|i| u64::from(seen[*i as usize]) == 12 + i);
    println!("changed: {refused} {}", right.count());
    for i in 0..MANY {
        refused += api.call("cuMemHostUnregister", &[place(i)]);
    }
    println!("unregistered: {refused}");
}

extern "C" fn look(word: *mut c_void) {
    // SAFETY: the word that the function was given, and room for what it sees.
    unsafe {
        let [seen, word] = *word.cast::<[*mut u32; 2]>();
        seen.write_volatile(word.read_volatile());
    }
}

/// A few words in a page with others: in each way to know that a kernel is done its word is there.
fn neighbours(api: &Api) {
    let [flag, spin] = ["flag", "spin"].map(|k| api.kernel(k));
    let page = pages(2, RW, PRIVATE, -1);
    let (word, device) = (page + 200, api.made("cuMemAlloc_v2", &[PAGE]));
    let stream = api.made("cuStreamCreate", &[1]);
    let event = api.made("cuEventCreate", &[2]);
    words(page, 2048).fill(1);
    assert_eq!(api.call("cuMemHostRegister_v2", &[word, 64, 2]), 0);
    let mut there = 0u64;
    api.tell("cuMemHostGetDevicePointer_v2", &[at(&mut there), word, 0]);
    let mut sink = [0u32; 64];
    let mut rows = [0u64; 16];
    (rows[2], rows[4], rows[6]) = (2, device, 64);
    (rows[9], rows[10], rows[13]) = (1, at(&mut sink), 64);
    (rows[14], rows[15]) = (64, 2);
    let to = at(&mut sink);
    let rows = at(&mut rows);
    let until = |f: &dyn Fn() -> i32| while f() != 0 {};
    let ways: [(&str, &dyn Fn(u64)); 10] = [
        ("a stream's end", &|s| {
            _ = api.call("cuStreamSynchronize", &[s])
        }),
        ("all streams' end", &|_| {
            _ = api.call("cuCtxSynchronize", &[])
        }),
        ("a query", &|s| until(&|| api.call("cuStreamQuery", &[s]))),
        ("an event", &|s| {
            api.call("cuEventRecord", &[event, s]);
            api.call("cuEventSynchronize", &[event]);
        }),
        ("an event's query", &|s| {
            api.call("cuEventRecord", &[event, s]);
            until(&|| api.call("cuEventQuery", &[event]));
        }),
        ("a copy to the host", &|_| {
            _ = api.call("cuMemcpyDtoH_v2", &[to, device, 64])
        }),
        ("a queued one", &|s| {
            _ = api.call("cuMemcpyDtoHAsync_v2", &[to, device, 64, s])
        }),
        ("a copy of rows", &|_| {
            _ = api.call("cuMemcpy2D_v2", &[rows])
        }),
        ("a copy on the host", &|_| {
            _ = api.call("cuMemcpy", &[to, page + PAGE, 64])
        }),
        ("a function", &|s| {
            let mut seen = 0u32;
            let mut args = [at(&mut seen), word];
            let f = look as *const () as u64;
            api.call("cuLaunchHostFunc", &[s, f, at(&mut args)]);
            api.call("cuStreamSynchronize", &[s]);
            println!("in a function: {seen}");
        }),
    ];
    for (i, (what, wait)) in ways.iter().enumerate() {
        // What waits for the default stream needs the kernel there.
        let s = if what.starts_with("a copy") {
            0
        } else {
            stream
        };
        words(word + 4, 1)[0] = i as u32;
        api.launch(spin, s, &[20_000]);
        api.launch(flag, s, &[there, 100 + i as u64]);
        wait(s);
        println!("{what}: {:?}", &words(word - 4, 3));
    }
    api.tell("cuMemHostUnregister", &[word]);
}

/// Memory with another mapping, a file, another process.
fn shared(api: &Api, n: u64) {
    let [fill, copy] = ["fill", "copy"].map(|k| api.kernel(k));
    // SAFETY: a name that lives; a file of our own.
    let file = unsafe {
        let file = libc::memfd_create(c"shared".as_ptr(), 0);
        assert_eq!(libc::ftruncate(file, (n * PAGE) as i64), 0);
        file
    };
    let [a, b] = [(); 2].map(|()| pages(n, RW, libc::MAP_SHARED, file));
    let both = pages(n, RW, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1);
    let device = api.made("cuMemAlloc_v2", &[n * PAGE]);
    let count = n * PAGE / 4;
    for (what, p) in [("a file", a), ("a child", both)] {
        assert_eq!(api.call("cuMemHostRegister_v2", &[p, n * PAGE, 2]), 0);
        for round in 0..3u64 {
            api.launch(fill, 0, &[p, 40 + round, count]);
            api.tell("cuCtxSynchronize", &[]);
            let mut last = [0u32; 1];
            if p == a {
                let offset = (n * PAGE) as i64 - 4;
                // SAFETY: room for a word.
                let read = unsafe { libc::pread(file, at(&mut last) as *mut c_void, 4, offset) };
                println!("{what}: {read} {last:?} {}", words(b, 1)[0]);
                // Others write it, too.
                let new = 1000 + round as u32;
                words(b, count as usize)[5] = new;
                // SAFETY: a word.
                unsafe { libc::pwrite(file, (&raw const new).cast(), 4, offset) };
            } else {
                // SAFETY: the child does nothing but look, write and end.
                let status = unsafe {
                    let child = libc::fork();
                    if child == 0 {
                        let seen = words(p, count as usize);
                        let right = seen.iter().all(|w| u64::from(*w) == 40 + round);
                        (seen[5], seen[count as usize - 1]) = (1000 + round as u32, 9);
                        libc::_exit(i32::from(right));
                    }
                    let mut status = 0;
                    libc::waitpid(child, &mut status, 0);
                    libc::WEXITSTATUS(status)
                };
                println!("{what}: {status}");
            }
            let mut back = vec![0u32; count as usize];
            api.launch(copy, 0, &[device, p, n * PAGE]);
            api.tell("cuMemcpyDtoH_v2", &[at(&mut back[0]), device, n * PAGE]);
            println!("back: {:?} {}", &back[4..7], back[count as usize - 1]);
        }
        api.tell("cuMemHostUnregister", &[p]);
        println!("still: {}", words(p, 5)[4]);
    }
}

/// Blocks that meet in the middle of pages: a kernel that finds an address in memory finds all
/// words of each, whichever of them kernels saw first, and whichever is gone.
fn side_by_side(api: &Api, len: u64) {
    let [follow, mark] = ["follow", "mark"].map(|k| api.kernel(k));
    let memory = pages(len * 3 / PAGE + 1, RW, PRIVATE, -1);
    let [cell, back] = [(); 2].map(|()| api.made("cuMemAlloc_v2", &[64]));
    let block = |i: u64| memory + PAGE / 2 + i * len;
    let register = |i: u64| assert_eq!(api.call("cuMemHostRegister_v2", &[block(i), len, 2]), 0);
    let unregister = |i: u64| api.tell("cuMemHostUnregister", &[block(i)]);
    let expose = |i: u64| {
        let mut there = 0u64;
        let args = [at(&mut there), block(i), 0];
        api.tell("cuMemHostGetDevicePointer_v2", &args);
    };
    let look = |i: u64| {
        let offsets = [0, PAGE / 2 - 4, PAGE, len - PAGE / 2, len - 4];
        let mut seen = vec![];
        for (n, offset) in (0..).zip(offsets) {
            let mut address = block(i) + offset;
            words(address, 1)[0] = 100 * i as u32 + n;
            api.tell("cuMemcpyHtoD_v2", &[cell, at(&mut address), 8]);
            api.launch(follow, 0, &[back, cell, 4]);
            api.launch(mark, 0, &[cell, 7]);
            let mut found = 0u32;
            api.tell("cuMemcpyDtoH_v2", &[at(&mut found), back, 4]);
            seen.extend([found, words(address, 1)[0]]);
        }
        println!("block {i}: {seen:?}");
    };
    for [a, b, c] in [[0, 1, 2], [1, 0, 2], [0, 2, 1], [2, 1, 0]] {
        [a, b, c].into_iter().for_each(register);
        [a, b, c].into_iter().for_each(expose);
        [a, b, c].into_iter().for_each(look);
        unregister(a);
        [b, c].into_iter().for_each(look);
        register(a);
        expose(a);
        [a, b, c].into_iter().for_each(look);
        unregister(c);
        unregister(b);
        look(a);
        unregister(a);
    }
}

pub fn registered(api: &Api) {
    api.made("cuCtxCreate_v2", &[0, 0]);
    requests(api);
    ends(api);
    neighbours(api);
    side_by_side(api, 3 * PAGE);
    side_by_side(api, 9 * PAGE);
    for n in [1, 40, 300] {
        shared(api, n);
    }
    many(api);
    println!("done");
}
