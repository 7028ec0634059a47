//! The little that a real image tells: the names and sizes of its globals.

use super::memory;
use std::collections::BTreeMap;

const HEADER: usize = 64;
const SECTION: usize = 64;
const SYMBOL: usize = 24;
const SYMBOL_TABLE: u64 = 2;
const OBJECT: u64 = 1;
const UNDEFINED: u64 = 0;
const MAX_GLOBAL: u64 = 1 << 30;

/// A part of an image, if the process has memory there at all: what the headers say may be wrong.
///
/// # Safety
/// `p` points to an image that stays as it is while the part is in use.
unsafe fn part<'a>(p: *const u8, at: u64, size: u64) -> Option<&'a [u8]> {
    let address = (p as u64).checked_add(at)?;
    let size = usize::try_from(size).ok().filter(|size| *size <= 1 << 32)?;
    if size == 0 || !memory::readable(address, size) {
        return None;
    }
    // SAFETY: the memory can be read, just checked, and the image stays by this function's
    // contract.
    Some(unsafe { std::slice::from_raw_parts(address as *const u8, size) })
}

/// A little-endian number of some bytes.
fn number(bytes: &[u8], at: usize, size: usize) -> u64 {
    bytes[at..at + size]
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn name(names: &[u8], at: usize) -> Option<&str> {
    let bytes = names.get(at..)?;
    let end = bytes.iter().position(|byte| *byte == 0)?;
    std::str::from_utf8(&bytes[..end]).ok()
}

/// The globals of an image and their sizes; none where its headers make no sense.
///
/// # Safety
/// `p` points to an ELF image.
pub unsafe fn globals(p: *const u8) -> BTreeMap<String, usize> {
    // SAFETY: by this function's contract.
    unsafe { read(p) }.unwrap_or_default()
}

unsafe fn read(p: *const u8) -> Option<BTreeMap<String, usize>> {
    // SAFETY: all parts are of the one image that the caller gave.
    let part = |at, size| unsafe { part(p, at, size) };
    let header = part(0, HEADER as u64)?;
    let (size, count) = (number(header, 0x3a, 2), number(header, 0x3c, 2));
    if header[4] != 2 || size != SECTION as u64 {
        return None;
    }
    let table = part(number(header, 0x28, 8), size * count)?;
    let sections: Vec<&[u8]> = table.chunks_exact(SECTION).collect();
    let content = |section: &[u8]| part(number(section, 0x18, 8), number(section, 0x20, 8));
    let mut found = BTreeMap::new();
    for section in sections
        .iter()
        .filter(|section| number(section, 4, 4) == SYMBOL_TABLE)
    {
        let names = content(sections.get(number(section, 0x28, 4) as usize)?)?;
        for symbol in content(section)?.chunks_exact(SYMBOL) {
            let (info, size) = (number(symbol, 4, 1), number(symbol, 16, 8));
            // nvcc gives a variable local binding where the program is of one piece, and the driver
            // knows it by name all the same.
            let here = info & 15 == OBJECT && number(symbol, 6, 2) != UNDEFINED;
            if here && (1..=MAX_GLOBAL).contains(&size) {
                let name = name(names, number(symbol, 0, 4) as usize)?;
                found.insert(name.to_owned(), size as usize);
            }
        }
    }
    Some(found)
}
