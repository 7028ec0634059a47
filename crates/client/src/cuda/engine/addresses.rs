//! Which words of a launch's parameters are addresses of page-locked memory.
//!
//! Kernels may use such memory by the program's own address, in a parameter or inside a structure,
//! and what a structure's words mean nobody says. Those that a program leaves out hold what was on
//! the stack before, which may well be the address of the batch that was copied just now. To take
//! that for an address makes the batch travel twice more at every step; to miss an address is an
//! error of the kernel. So words of short parameters are believed. Of longer structures a place is
//! believed where one of the kernel's first launches had such an address: a program that means it
//! does so from the start, and what is left on the stack varies. Of tables with hundreds of places,
//! most of them unused, as PyTorch's optimizers have them, nothing is believed.

use crate::cuda::call::Cx;
use crate::cuda::engine::shadow;
use crate::cuda::state::functions::Function;
use busbar_abi::cuda::*;

/// Bytes of the longest parameter whose words are believed at once: some pointers and sizes.
const SHORT: u32 = 96;

/// Bytes of the longest one whose words are believed at all.
const LONG: u32 = 1024;

/// Finds the addresses of page-locked memory in a launch's packed parameters, shows that memory to
/// kernels, and puts the device's addresses in their places.
pub fn translate(cx: Cx, f: &Function, packed: &mut [u8]) -> Result<()> {
    if !cx.state().shadows.is_host_memory_known() {
        return Ok(());
    }
    let early = f.packed > SHORT && f.places.early();
    let all = cx.state().all_pointers;
    for (i, (offset, size)) in f.params.iter().enumerate() {
        let (from, to) = (*offset as usize, offset.saturating_add(*size) as usize);
        let words = packed.get_mut(from..to).unwrap_or_default();
        for (n, bytes) in words.chunks_exact_mut(8).enumerate() {
            let mut word = [0; 8];
            word.copy_from_slice(bytes);
            let word = u64::from_le_bytes(word);
            if !cx.state().shadows.may_be_host_memory(word) {
                continue;
            }
            let Some(r) = cx.state().ranges.find_page_locked(word) else {
                continue;
            };
            let place = || format!("{:?} has it in parameter {i} at byte {}", f.name, 8 * n);
            if *size > SHORT {
                let early = early && *size <= LONG;
                let (believed, new) = f.places.believes(from + 8 * n, early || all);
                if !believed {
                    if new {
                        let why = "not taken for an address (BUSBAR_POINTERS=all does)";
                        crate::log!(Info, "page-locked memory: {}; {why}", place());
                    }
                    continue;
                }
            }
            let there = shadow::expose(cx, &r, word, place)?;
            if there != word {
                bytes.copy_from_slice(&there.to_le_bytes());
            }
        }
    }
    Ok(())
}
