//! Which words that reach a device are addresses of page-locked memory: what kernels may use in
//! place has to be the same on both sides, and what they do not is cheaper left alone.
//!
//! Kernels have such addresses as a parameter, or in memory. A word that a program copies or stores
//! to the device, in a piece that is not too long, is believed: chance does not make such numbers.
//!
//! What a parameter's words mean nobody says. Those of a structure that a program leaves out hold
//! what was on the stack before, which may well be the address of the batch that was copied just
//! now. To miss an address is an error of the kernel, so every word is believed. But where the word
//! may be a mistake, what it costs is to end: [`Evidence`] says how sure it is.
//!
//! Words of short parameters are meant. Of longer structures a place is where one of the kernel's
//! first launches had such an address: a program that means it does so from the start, and what is
//! left on the stack varies. Tables with hundreds of places, most of them unused, as PyTorch's
//! optimizers have them, have no such places. In any structure the address of memory is meant that
//! never was an end of a copy: copies are what leaves addresses on the stack. So is one of memory
//! that was asked for as mapped.

use super::prelude::*;
use crate::cuda::engine::{pool, shadow};
use crate::cuda::state::area::Evidence;
use crate::cuda::state::functions::Function;
use crate::cuda::state::ranges::Sort;
use crate::cuda::state::rows::Rows;
use crate::cuda::state::shadows::{MOST_SCANNED, words};
use crate::cuda::state::space::{GRANULE, RESERVED, span};

/// Bytes of the longest parameter whose words are all meant: some pointers and sizes.
const SHORT: u32 = 96;

/// Bytes of the longest one that has places of addresses.
const LONG: u32 = 1024;

/// Finds the addresses of page-locked memory in a launch's packed parameters, or in those of a
/// node, which `lasts`; shows that memory to kernels, and puts the device's addresses in their
/// places. Those that may be a mistake of this launch.
pub fn translate(cx: Cx, f: &Function, packed: &mut [u8], lasts: bool) -> Result<Vec<u64>> {
    let mut in_doubt = Vec::new();
    if !cx.state().shadows.is_host_memory_known() {
        return Ok(in_doubt);
    }
    let early = f.packed > SHORT && f.places.early();
    let suspects = cx.state().shadows.suspects();
    for (i, (offset, size)) in f.params.iter().enumerate() {
        let (from, to) = (*offset as usize, offset.saturating_add(*size) as usize);
        let (words, _) = packed.get_mut(from..to).unwrap_or_default().as_chunks_mut();
        if !suspects.have_any(words) {
            continue;
        }
        for (n, bytes) in words.iter_mut().enumerate() {
            let word = u64::from_le_bytes(*bytes);
            if !suspects.have(word) {
                continue;
            }
            let Some(r) = cx.state().ranges.find_page_locked(word) else {
                continue;
            };
            let meant = *size <= SHORT
                || f.places.means(from + 8 * n, early && *size <= LONG)
                || cx.state().ranges.may_be_for_kernels(&r);
            let evidence = match (meant, lasts) {
                (true, _) => Evidence::Sure,
                (false, true) => Evidence::Lasting,
                (false, false) => Evidence::Passing,
            };
            if evidence == Evidence::Passing {
                in_doubt.push(word);
            }
            let place = || format!("{:?} has it in parameter {i} at byte {}", f.name, 8 * n);
            match shadow::expose(cx, &r, word, evidence, place) {
                Ok(there) if there != word => *bytes = there.to_le_bytes(),
                Ok(_) => {}
                // The launch may well do without.
                Err(e) if !meant => {
                    crate::log!(Warn, "page-locked memory: error {e}, and {}", place());
                }
                Err(e) => return Err(e),
            }
        }
    }
    Ok(in_doubt)
}

/// Shows memory to kernels whose address is a word that reaches the device; says whether they did
/// not see it before.
fn show(cx: Cx, word: u64, place: &str) -> Result<bool> {
    let state = cx.state();
    let known = state.shadows.named(word, Evidence::Sure).is_some();
    let Some(r) = state.ranges.find_page_locked(word).filter(|_| !known) else {
        return Ok(false);
    };
    shadow::expose(cx, &r, word, Evidence::Sure, || place.into())?;
    state.shadows.reaches_running_work(word);
    Ok(true)
}

/// Looks through bytes that the program copies to `dst` on a device.
#[inline]
pub fn in_copy(cx: Cx, dst: u64, bytes: &[u8]) -> Result<()> {
    let shadows = &cx.state().shadows;
    if !shadows.is_host_memory_known() || bytes.len() > MOST_SCANNED {
        return Ok(());
    }
    for word in shadows.suspects().among(words(dst, bytes)) {
        show(cx, word, "a copy has it")?;
    }
    Ok(())
}

/// The same of rows.
///
/// # Safety
/// The program's memory is readable.
pub unsafe fn in_rows(cx: Cx, r: &Rows) -> Result<()> {
    let known = cx.state().shadows.is_host_memory_known();
    if !known || r.width * r.height * r.depth > MOST_SCANNED {
        return Ok(());
    }
    let there = r.dst.device.wrapping_sub(r.dst.host);
    for (y, z) in (0..r.depth).flat_map(|z| (0..r.height).map(move |y| (y, z))) {
        // SAFETY: a row of the program's box.
        let row = unsafe { std::slice::from_raw_parts(r.src.row(y, z) as *const u8, r.width) };
        in_copy(cx, there.wrapping_add(r.dst.row(y, z)), row)?;
    }
    Ok(())
}

/// Kernels are about to be queued on `stream`: what the program has written goes ahead of them, and
/// what it has written of memory whose address is in there.
pub fn work(cx: Cx, stream: u32, touch: Touch<'_>) -> Result<Sending> {
    let shadows = &cx.state().shadows;
    let mut sending = Sending::default();
    while shadows.active() {
        sending = cx.work(stream, touch)?;
        let found = shadows.areas().take_found();
        let mut new = false;
        for word in found {
            new |= show(cx, word, "the program stored it")?;
        }
        if !new {
            break;
        }
    }
    Ok(sending)
}

/// Where the device has what it is to write, wait for or fill. The log hears of page-locked memory
/// what has its address.
pub fn on_device(cx: Cx, p: u64, has_it: &str) -> Result<u64> {
    match cx.state().ranges.find_page_locked(p) {
        Some(r) => shadow::expose(cx, &r, p, Evidence::Sure, || format!("{has_it} has it")),
        None => Ok(p),
    }
}

/// What stands for an address of which nothing is known here, in a node that a driver may make of
/// it all the same. The worker lets no address pass that means nothing to the session, as it may be
/// one of its own; so this one lies where sessions put memory, at an end that nobody gets to.
pub fn of_unknown(cx: Cx, p: u64) -> u64 {
    if cx.state().must_be_on_device(p, 1).is_ok() {
        return p;
    }
    span(RESERVED.end - 1).end - GRANULE + p % GRANULE
}

/// Where the device has what a graph's node is to write.
pub fn of_node(cx: Cx, p: u64) -> Result<u64> {
    on_device(cx, p, "a graph's node")
}

/// Whether streams may wait for words there and write them: not where memory moves by itself, nor
/// in that of a pool.
pub fn are_steady(cx: Cx, p: u64) -> bool {
    let found = cx.state().ranges.find(p);
    !found.is_some_and(|r| r.sort == Sort::Managed || pool::is_pooled(&r))
}

/// The same of the words of a list of memory operations of a graph's node, as bytes. A node may
/// have any; that its graph is launched may be refused.
pub fn of_operations(cx: Cx, list: &mut [u8]) -> Result<()> {
    for op in list.chunks_exact_mut(size_of::<CUstreamBatchMemOpParams>()) {
        // The second word is the address; that of a barrier is none.
        if let Some(word) = op[8..].first_chunk_mut::<8>() {
            if !are_steady(cx, u64::from_le_bytes(*word)) {
                cx.state().graphs.launches_may_be_refused();
            }
            *word = of_node(cx, u64::from_le_bytes(*word))?.to_le_bytes();
        }
    }
    Ok(())
}
