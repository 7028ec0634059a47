//! A shared library without code or symbols of its own, made byte by byte: it has a name and
//! versions, and needs another library, where programs find the functions.

/// Bytes of the file's header.
const HEADER: usize = 64;
/// Bytes of a segment's header.
const SEGMENT: usize = 56;
/// Kinds of segments, and what may be done with each.
const SEGMENTS: [(u32, u32); 3] = [
    (1, 6),           // PT_LOAD, to read and write: the dynamic linker notes addresses in it.
    (2, 6),           // PT_DYNAMIC
    (0x6474_e551, 6), // PT_GNU_STACK, not to be executed.
];

/// The bytes of the library `name`, which defines `versions` and needs `needed`.
pub fn library(name: &str, versions: &[&str], needed: &str) -> Vec<u8> {
    let mut strings = Strings(vec![0]);
    let (needed, soname) = (strings.add(needed), strings.add(name));

    let hash = HEADER + SEGMENTS.len() * SEGMENT;
    let symbols = hash + 16;
    let symbol_versions = symbols + 24;
    let definitions = symbol_versions + 4;
    let mut body = Vec::new();
    words(&mut body, &[1, 1, 0, 0]); // one bucket with the one symbol
    body.extend([0; 24 + 4]); // which stands for none
    // The library's own name is the first of its versions.
    let mut all = vec![(name, soname)];
    all.extend(versions.iter().map(|v| (*v, strings.add(v))));
    define(&mut body, &all);
    let text = hash + body.len();
    body.extend(&strings.0);
    body.resize(body.len().next_multiple_of(8), 0);

    let dynamic = hash + body.len();
    let entries: [(u64, u64); 11] = [
        (1, u64::from(needed)),                // DT_NEEDED
        (14, u64::from(soname)),               // DT_SONAME
        (4, hash as u64),                      // DT_HASH
        (5, text as u64),                      // DT_STRTAB
        (6, symbols as u64),                   // DT_SYMTAB
        (10, strings.0.len() as u64),          // DT_STRSZ
        (11, 24),                              // DT_SYMENT
        (0x6fff_fff0, symbol_versions as u64), // DT_VERSYM
        (0x6fff_fffc, definitions as u64),     // DT_VERDEF
        (0x6fff_fffd, all.len() as u64),       // DT_VERDEFNUM
        (0, 0),
    ];
    for (tag, value) in entries {
        body.extend(tag.to_le_bytes().into_iter().chain(value.to_le_bytes()));
    }
    let len = hash + body.len();
    let mut file = headers([(0, len, 4096), (dynamic, len - dynamic, 8), (0, 0, 16)]);
    file.extend(body);
    file
}

/// Names, each ending in a NUL.
struct Strings(Vec<u8>);

impl Strings {
    /// Where the name stands.
    fn add(&mut self, s: &str) -> u32 {
        let at = self.0.len();
        self.0.extend(s.bytes().chain([0]));
        at as u32
    }
}

fn words(to: &mut Vec<u8>, list: &[u32]) {
    to.extend(list.iter().flat_map(|w| w.to_le_bytes()));
}

fn halves(to: &mut Vec<u8>, list: &[u16]) {
    to.extend(list.iter().flat_map(|h| h.to_le_bytes()));
}

/// The definitions of versions: each name, and where it stands.
fn define(body: &mut Vec<u8>, all: &[(&str, u32)]) {
    for (i, (name, text)) in all.iter().enumerate() {
        let next = if i + 1 < all.len() { 28 } else { 0 };
        let base = u16::from(i == 0);
        halves(body, &[1, base, i as u16 + 1, 1]);
        words(body, &[elf_hash(name), 20, next, *text, 0]);
    }
}

/// The headers of the file and of its segments: where each begins, how long it is, and how it is
/// aligned.
fn headers(segments: [(usize, usize, usize); SEGMENTS.len()]) -> Vec<u8> {
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    // A shared library, for x86-64, of version 1.
    halves(&mut file, &[3, 62]);
    words(&mut file, &[1]);
    for offset in [0, HEADER as u64, 0] {
        file.extend(offset.to_le_bytes()); // no entry point, segments, no sections
    }
    words(&mut file, &[0]);
    let (header, segment, count) = (HEADER as u16, SEGMENT as u16, SEGMENTS.len() as u16);
    halves(&mut file, &[header, segment, count, 64, 0, 0]);
    for ((kind, flags), (at, size, align)) in SEGMENTS.into_iter().zip(segments) {
        words(&mut file, &[kind, flags]);
        for n in [at, at, at, size, size, align] {
            file.extend((n as u64).to_le_bytes());
        }
    }
    file
}

/// The hash that ELF defines for names.
fn elf_hash(name: &str) -> u32 {
    name.bytes().fold(0u32, |h, b| {
        let h = (h << 4).wrapping_add(u32::from(b));
        let top = h & 0xf000_0000;
        (h ^ (top >> 24)) & !top
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_standard() {
        assert_eq!(elf_hash(""), 0);
        assert_eq!(elf_hash("printf"), 0x077905a6);
    }
}
