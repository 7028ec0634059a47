//! The builtin kernels.
//!
//! Each checks the memory that it is about to touch: what is not live device memory is an illegal
//! address, as on a device, and not a crash.

use super::{memory, stream};
use crate::config;
use crate::ffi::*;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// No kernel spins longer.
const MAX_SPIN_US: u64 = 3_600_000_000;

const DONE: R<Asks> = Ok(Asks::Nothing);

const P: usize = 8;
const W: usize = 4;

/// A builtin kernel.
#[derive(Clone, Copy, Debug)]
pub struct Builtin {
    /// Its name in an image.
    pub name: &'static str,
    /// The sizes of its parameters; each is aligned to its size.
    pub params: &'static [usize],
    run: fn(&Args) -> R<Asks>,
}

/// What a kernel asks of the driver when it has run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// Nothing.
    Nothing,
    /// That an executable graph is run.
    Start(usize),
    /// That a parameter of another kernel is changed: by the name that it has for kernels, where in
    /// its parameters, and the value.
    Change(usize, usize, u32),
}

impl PartialEq for Builtin {
    fn eq(&self, other: &Builtin) -> bool {
        self.name == other.name
    }
}

impl Eq for Builtin {}

impl Builtin {
    /// Runs the kernel with a packed parameter buffer that holds at least its parameters.
    pub fn run(&self, params: &[u8]) -> R<Asks> {
        let mut args = Args { words: Vec::new() };
        let mut at = 0;
        for size in self.params {
            at = usize::next_multiple_of(at, *size);
            let mut bytes = [0; 8];
            bytes[..*size].copy_from_slice(params.get(at..at + size).ok_or(LAUNCH_FAILED)?);
            args.words.push(u64::from_le_bytes(bytes));
            at += size;
        }
        (self.run)(&args)
    }
}

struct Args {
    words: Vec<u64>,
}

impl Args {
    fn u64(&self, i: usize) -> u64 {
        self.words[i]
    }

    fn n(&self, i: usize) -> usize {
        self.words[i] as usize
    }

    fn u32(&self, i: usize) -> u32 {
        self.words[i] as u32
    }

    fn f32(&self, i: usize) -> f32 {
        f32::from_bits(self.u32(i))
    }

    /// The address in a parameter, for `n` values of `T`, all live.
    fn at<T>(&self, i: usize, n: usize) -> R<*mut T> {
        let bytes = n.checked_mul(size_of::<T>()).ok_or(ILLEGAL_ADDRESS)?;
        let address = self.words[i];
        if !memory::accessible(address, bytes) {
            return Err(ILLEGAL_ADDRESS);
        }
        if !address.is_multiple_of(align_of::<T>() as u64) {
            return Err(MISALIGNED_ADDRESS);
        }
        Ok(address as *mut T)
    }
}

/// Raw loads and stores: buffers may overlap, and the host may look on, as with a device.
fn each(n: usize, mut f: impl FnMut(usize)) -> R<Asks> {
    (0..n).for_each(&mut f);
    DONE
}

/// Waits for a word, and then says another, time after time.
fn talk<'a>(rounds: impl Iterator<Item = (u32, (&'a AtomicU32, &'a AtomicU32))>) -> R<Asks> {
    // Without threads nobody speaks meanwhile.
    let patience = if stream::alone() { 0 } else { 10 };
    let until = Instant::now() + Duration::from_secs(patience);
    for (round, (heard, said)) in rounds {
        while heard.load(Ordering::Acquire) != round {
            if Instant::now() > until {
                return Err(LAUNCH_FAILED);
            }
            std::thread::yield_now();
        }
        said.store(round, Ordering::Release);
    }
    DONE
}

/// What an atomic operation makes of a word; behind the two addresses come the operand, the
/// expected word, the bits that count, and the operation's number.
fn operation(a: &Args, had: u64) -> u64 {
    let (operand, expected, which) = (a.u64(2), a.u64(3), a.u64(4));
    let new = match a.u32(5) {
        0 => had.wrapping_add(operand),
        1 => had & operand,
        2 => had | operand,
        3 => had ^ operand,
        4 => operand,
        _ if had & which == expected => operand,
        _ => had,
    };
    had & !which | new & which
}

/// Leaves what a word was where the second address says.
fn answer(a: &Args, had: u64) -> R<Asks> {
    let to = a.at::<u64>(1, 1)?;
    // SAFETY: the word was just checked.
    unsafe { to.write_volatile(had) };
    DONE
}

const STDOUT: bool = false;
const STDERR: bool = true;

unsafe extern "C" {
    static stdout: *mut libc::FILE;
    static stderr: *mut libc::FILE;
}

/// Writes to one of the C library's streams, as drivers do.
fn write(on_stderr: bool, text: &str) {
    // SAFETY: the C library's own streams; the text is as long as said.
    unsafe {
        let to = if on_stderr { stderr } else { stdout };
        libc::fwrite(text.as_ptr().cast(), 1, text.len(), to);
    }
}

/// The builtins.
static BUILTINS: &[Builtin] = &[
    // nop(): for launches that only count.
    Builtin {
        name: "nop",
        params: &[],
        run: |_| DONE,
    },
    // fill_u32(u32 *dst, u32 value, u64 n)
    Builtin {
        name: "fill_u32",
        params: &[P, W, P],
        run: |a| {
            let (dst, value) = (a.at::<u32>(0, a.n(2))?, a.u32(1));
            // SAFETY: the range was just checked.
            each(a.n(2), |i| unsafe { dst.add(i).write(value) })
        },
    },
    // iota(u32 *dst, u32 first, u64 n)
    Builtin {
        name: "iota",
        params: &[P, W, P],
        run: |a| {
            let (dst, first) = (a.at::<u32>(0, a.n(2))?, a.u32(1));
            // SAFETY: the range was just checked.
            each(a.n(2), |i| unsafe {
                dst.add(i).write(first.wrapping_add(i as u32))
            })
        },
    },
    // add_f32(float *c, const float *a, const float *b, u64 n)
    Builtin {
        name: "add_f32",
        params: &[P, P, P, P],
        run: |a| {
            let n = a.n(3);
            let (c, x, y) = (a.at::<f32>(0, n)?, a.at::<f32>(1, n)?, a.at::<f32>(2, n)?);
            // SAFETY: the ranges were just checked.
            each(n, |i| unsafe {
                c.add(i).write(x.add(i).read() + y.add(i).read())
            })
        },
    },
    // saxpy(float *y, const float *x, float a, u64 n): y = a * x + y
    Builtin {
        name: "saxpy",
        params: &[P, P, W, P],
        run: |a| {
            let n = a.n(3);
            let (y, x, k) = (a.at::<f32>(0, n)?, a.at::<f32>(1, n)?, a.f32(2));
            // SAFETY: the ranges were just checked.
            each(n, |i| unsafe {
                y.add(i).write(k * x.add(i).read() + y.add(i).read())
            })
        },
    },
    // copy(u8 *dst, const u8 *src, u64 n)
    Builtin {
        name: "copy",
        params: &[P, P, P],
        run: |a| {
            let (dst, src) = (a.at::<u8>(0, a.n(2))?, a.at::<u8>(1, a.n(2))?);
            // SAFETY: the ranges were just checked.
            unsafe { std::ptr::copy(src, dst, a.n(2)) };
            DONE
        },
    },
    // follow(u8 *dst, const u64 *cell, u64 n): copies from where the cell says
    Builtin {
        name: "follow",
        params: &[P, P, P],
        run: |a| {
            let n = a.n(2);
            let (dst, cell) = (a.at::<u8>(0, n)?, a.at::<u64>(1, 1)?);
            // SAFETY: the cell was just checked.
            let src = unsafe { cell.read() };
            if !memory::accessible(src, n) {
                return Err(ILLEGAL_ADDRESS);
            }
            // SAFETY: both ranges were just checked.
            unsafe { std::ptr::copy(src as *const u8, dst, n) };
            DONE
        },
    },
    // mark(const u64 *cell, u32 value): writes where the cell says
    Builtin {
        name: "mark",
        params: &[P, W],
        run: |a| {
            let cell = a.at::<u64>(0, 1)?;
            // SAFETY: the cell was just checked.
            let dst = unsafe { cell.read() };
            if !memory::accessible(dst, 4) {
                return Err(ILLEGAL_ADDRESS);
            }
            // SAFETY: as many bytes were just checked.
            unsafe { (dst as *mut u32).write_unaligned(a.u32(1)) };
            DONE
        },
    },
    // reduce_u32(u64 *out, const u32 *src, u64 n): the sum
    Builtin {
        name: "reduce_u32",
        params: &[P, P, P],
        run: |a| {
            let (out, src) = (a.at::<u64>(0, 1)?, a.at::<u32>(1, a.n(2))?);
            let mut sum = 0_u64;
            // SAFETY: the ranges were just checked.
            each(a.n(2), |i| {
                // SAFETY: the range was just checked.
                sum = sum.wrapping_add(u64::from(unsafe { src.add(i).read() }))
            })?;
            // SAFETY: as above.
            unsafe { out.write(sum) };
            DONE
        },
    },
    // scramble(u64 *data, u64 seed, u64 n): xor with a xorshift sequence, its own inverse
    Builtin {
        name: "scramble",
        params: &[P, P, P],
        run: |a| {
            let (data, mut state) = (a.at::<u64>(0, a.n(2))?, a.u64(1) | 1);
            each(a.n(2), |i| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                // SAFETY: the range was just checked.
                unsafe { data.add(i).write(data.add(i).read() ^ state) }
            })
        },
    },
    // spin(u64 microseconds)
    Builtin {
        name: "spin",
        params: &[P],
        run: |a| {
            let most = config::number("FAKEDEV_SPIN_US").unwrap_or(MAX_SPIN_US);
            let until = Instant::now() + Duration::from_micros(a.u64(0).min(most));
            while let Some(left) = until.checked_duration_since(Instant::now()) {
                // Long spins leave the processor to others: a device would not use it either.
                match left > Duration::from_micros(200) {
                    true => std::thread::sleep(left - Duration::from_micros(100)),
                    false => std::hint::spin_loop(),
                }
            }
            DONE
        },
    },
    // flag(u32 *dst, u32 value): one store that the host may be waiting for
    Builtin {
        name: "flag",
        params: &[P, W],
        run: |a| {
            let dst = a.at::<AtomicU32>(0, 1)?;
            // SAFETY: the address was just checked.
            unsafe { (*dst).store(a.u32(1), Ordering::Release) };
            DONE
        },
    },
    // talk(u32 *words, u32 rounds): answers each word of the host's with one of its own
    Builtin {
        name: "talk",
        params: &[P, W],
        run: |a| {
            let words = a.at::<AtomicU32>(0, 2)?;
            // SAFETY: both words were just checked.
            let pair = unsafe { (&*words, &*words.add(1)) };
            talk((1..=a.u32(1)).map(|round| (round, pair)))
        },
    },
    // meet(u32 *words, u32 places, u32 apart): the same, each time in another place
    Builtin {
        name: "meet",
        params: &[P, W, W],
        run: |a| {
            let (n, apart) = (a.u32(1), a.u32(2) as usize);
            let words = a.at::<AtomicU32>(0, n as usize * apart + 1)?;
            // SAFETY: all up to the last pair was just checked.
            let pair = |at: usize| unsafe { (&*words.add(at), &*words.add(at + 1)) };
            talk((1..=n).map(|round| (round, pair((round - 1) as usize * apart))))
        },
    },
    // count(u32 *words): adds one to the first word until the second is not zero; the third says
    // how often
    Builtin {
        name: "count",
        params: &[P],
        run: |a| {
            let words = a.at::<AtomicU32>(0, 3)?;
            // SAFETY: all three were just checked.
            let [counter, stop, told] = [0, 1, 2].map(|i| unsafe { &*words.add(i) });
            let until = Instant::now() + Duration::from_secs(10);
            let mut n = 0;
            while stop.load(Ordering::Acquire) == 0 {
                counter.fetch_add(1, Ordering::Relaxed);
                n += 1;
                if Instant::now() > until {
                    return Err(LAUNCH_FAILED);
                }
                std::thread::sleep(Duration::from_micros(20));
            }
            told.store(n, Ordering::Release);
            DONE
        },
    },
    // Those of the worker: an operation on a word of 32 bits, and of 64
    Builtin {
        name: "busbar_atomic32",
        params: &[P, P, P, P, P, W],
        run: |a| {
            let word = a.at::<AtomicU32>(0, 1)?;
            // SAFETY: the word was just checked.
            let word = unsafe { &*word };
            let (order, fetch) = (Ordering::AcqRel, Ordering::Acquire);
            let had = word.fetch_update(order, fetch, |had| Some(operation(a, had.into()) as u32));
            answer(a, had.unwrap_or_default().into())
        },
    },
    Builtin {
        name: "busbar_atomic64",
        params: &[P, P, P, P, P, W],
        run: |a| {
            let word = a.at::<AtomicU64>(0, 1)?;
            // SAFETY: the word was just checked.
            let word = unsafe { &*word };
            let (order, fetch) = (Ordering::AcqRel, Ordering::Acquire);
            let had = word.fetch_update(order, fetch, |had| Some(operation(a, had)));
            answer(a, had.unwrap_or_default())
        },
    },
    // trap(): the kernel fails
    Builtin {
        name: "trap",
        params: &[],
        run: |_| Err(LAUNCH_FAILED),
    },
    // assert(u32 holds): says on stderr what does not hold
    Builtin {
        name: "assert",
        params: &[W],
        run: |a| {
            if a.u32(0) != 0 {
                return DONE;
            }
            let line = "fakedev.cu:1: void assert(int): block: [0,0,0], thread: [0,0,0] \
                        Assertion `holds` failed.\n";
            write(STDERR, line);
            Err(ASSERT)
        },
    },
    // say(u32 n): prints n lines
    Builtin {
        name: "say",
        params: &[W],
        run: |a| {
            let n = a.u32(0);
            (0..n).for_each(|i| write(STDOUT, &format!("device line {i} of {n}\n")));
            DONE
        },
    },
    // start(CUgraphExec graph): launches a graph from the device
    Builtin {
        name: "start",
        params: &[P],
        run: |a| Ok(Asks::Start(a.n(0))),
    },
    // change(CUgraphDeviceNode node, u64 offset, u32 value): changes a parameter of another kernel
    Builtin {
        name: "change",
        params: &[P, P, W],
        run: |a| Ok(Asks::Change(a.n(0), a.n(1), a.u32(2))),
    },
    // probe(u8 *address, u64 n): reads n bytes; an illegal address if they are not all live
    Builtin {
        name: "probe",
        params: &[P, P],
        run: |a| {
            let src = a.at::<u8>(0, a.n(1))?;
            // SAFETY: the range was just checked.
            each(a.n(1), |i| {
                // SAFETY: the range was just checked.
                std::hint::black_box(unsafe { src.add(i).read_volatile() });
            })
        },
    },
];

/// The builtin of a name.
pub fn by_name(name: &str) -> Option<Builtin> {
    BUILTINS
        .iter()
        .find(|builtin| builtin.name == name)
        .copied()
}
