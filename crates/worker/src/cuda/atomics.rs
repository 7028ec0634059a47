//! Atomic operations that the device does in the program's place.
//!
//! A device does them while it runs a kernel, so there is one of ours, a thread long, for words of
//! 32 and of 64 bits; a shorter word is a part of one of 32. What becomes of the word is worked out
//! beside it, and takes its place if nobody was faster.

use super::prelude::*;
use busbar_wire::atomics::{Atomic, Operation};
use std::ffi::CString;

/// The kernels, in words of two lengths.
#[derive(Debug)]
pub struct Atomics {
    kernels: [u64; 2],
    /// Where a kernel leaves what the word was, here and for the device.
    answer: u64,
    answer_there: u64,
}

/// Parameters: the word's address, where the answer goes, the operand, the expected word, which of
/// the bits count, and the [`Operation`].
fn kernel(bits: u32) -> String {
    // A word of 32 bits comes in one of 64.
    let narrow = match bits {
        32 => "cvt.u32.u64",
        _ => "mov.b64",
    };
    let wide = match bits {
        32 => "cvt.u64.u32",
        _ => "mov.b64",
    };
    let [add, and, or, xor, exchange] = [
        Operation::Add,
        Operation::And,
        Operation::Or,
        Operation::Xor,
        Operation::Exchange,
    ]
    .map(|o| o as u8);
    format!(
        "
.visible .entry {NAME}{bits}(
  .param .u64 at, .param .u64 answer, .param .u64 operand, .param .u64 expected,
  .param .u64 which, .param .u32 operation)
{{
  .reg .pred %p;
  .reg .u32 %o;
  .reg .u64 %at, %answer, %wide;
  .reg .b{bits} %v, %e, %m, %others, %old, %new, %x;
  ld.param.u64 %at, [at];
  ld.param.u64 %answer, [answer];
  ld.param.u64 %wide, [operand];
  {narrow} %v, %wide;
  ld.param.u64 %wide, [expected];
  {narrow} %e, %wide;
  ld.param.u64 %wide, [which];
  {narrow} %m, %wide;
  not.b{bits} %others, %m;
  ld.param.u32 %o, [operation];
  fence.sc.sys;
  ld.relaxed.sys.b{bits} %old, [%at];
AGAIN{bits}:
  setp.eq.u32 %p, %o, {add};
  @%p add.u{bits} %new, %old, %v;
  @%p bra MIX{bits};
  setp.eq.u32 %p, %o, {and};
  @%p and.b{bits} %new, %old, %v;
  @%p bra MIX{bits};
  setp.eq.u32 %p, %o, {or};
  @%p or.b{bits} %new, %old, %v;
  @%p bra MIX{bits};
  setp.eq.u32 %p, %o, {xor};
  @%p xor.b{bits} %new, %old, %v;
  @%p bra MIX{bits};
  mov.b{bits} %new, %v;
  setp.eq.u32 %p, %o, {exchange};
  @%p bra MIX{bits};
  and.b{bits} %x, %old, %m;
  setp.eq.u{bits} %p, %x, %e;
  selp.b{bits} %new, %v, %old, %p;
MIX{bits}:
  and.b{bits} %new, %new, %m;
  and.b{bits} %x, %old, %others;
  or.b{bits} %new, %new, %x;
  atom.acq_rel.sys.cas.b{bits} %x, [%at], %old, %new;
  setp.eq.u{bits} %p, %x, %old;
  mov.b{bits} %old, %x;
  @!%p bra AGAIN{bits};
  fence.sc.sys;
  {wide} %wide, %old;
  st.relaxed.sys.u64 [%answer], %wide;
  ret;
}}
"
    )
}

/// How the kernels' names begin.
const NAME: &str = "busbar_atomic";

/// Devices that say something of order between processors.
const HEADER: &str = ".version 6.4\n.target sm_70\n.address_size 64\n";

impl Atomics {
    /// Loads the kernels into the current context.
    pub fn load(driver: &Driver) -> Result<Self> {
        let text = [HEADER.to_owned(), kernel(32), kernel(64)].concat();
        let text = CString::new(text).map_err(|_| CUDA_ERROR_UNKNOWN)?;
        let mut module: CUmodule = std::ptr::null_mut();
        // SAFETY: a pointer to a live handle, and text with an end.
        check(unsafe { driver.cuModuleLoadData(&mut module, text.as_ptr().cast()) })?;
        let mut kernels = [0; 2];
        for (to, bits) in kernels.iter_mut().zip([32, 64]) {
            let name = CString::new(format!("{NAME}{bits}")).map_err(|_| CUDA_ERROR_UNKNOWN)?;
            let mut f: CUfunction = std::ptr::null_mut();
            // SAFETY: a live module, and a name with an end.
            check(unsafe { driver.cuModuleGetFunction(&mut f, module, name.as_ptr()) })?;
            *to = f as u64;
        }
        let (mut answer, mut answer_there) = (std::ptr::null_mut(), 0);
        // SAFETY: pointers to live variables; the memory stays as long as the context.
        unsafe {
            let flags = CU_MEMHOSTALLOC_DEVICEMAP;
            check(driver.cuMemHostAlloc(&mut answer, size_of::<u64>(), flags))?;
            check(driver.cuMemHostGetDevicePointer_v2(&mut answer_there, answer, 0))?;
        }
        Ok(Self {
            kernels,
            answer: answer as u64,
            answer_there,
        })
    }

    /// Does an operation on a word of the device's: what the word was. The context is current.
    pub fn run(&mut self, driver: &Driver, stream: CUstream, atomic: &Atomic) -> Result<u64> {
        let whole: u64 = if atomic.width == 8 { 8 } else { 4 };
        let shift = 8 * (atomic.at % whole) as u32;
        let which = (u64::MAX >> (64 - 8 * u32::from(atomic.width))) << shift;
        // The bits around those that count are none of the operands'.
        let place = |v: u64| v << shift & which;
        let rest = if atomic.operation == Operation::And {
            !which
        } else {
            0
        };
        let mut words = [
            atomic.at - atomic.at % whole,
            self.answer_there,
            place(atomic.operand) | rest,
            place(atomic.expected),
            which,
            u64::from(atomic.operation as u8),
        ];
        let mut parameters = words.each_mut().map(|w| std::ptr::from_mut(w).cast());
        let kernel = self.kernels[usize::from(whole == 8)] as CUfunction;
        // SAFETY: a live kernel and stream, and parameters as it takes them; the answer is there
        // when the stream has been waited for.
        let had = unsafe {
            check(driver.cuLaunchKernel(
                kernel,
                1,
                1,
                1,
                1,
                1,
                1,
                0,
                stream,
                parameters.as_mut_ptr(),
                std::ptr::null_mut(),
            ))?;
            check(driver.cuStreamSynchronize(stream))?;
            (self.answer as *const u64).read_volatile()
        };
        Ok((had & which) >> shift)
    }
}
