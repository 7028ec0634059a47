//! Images of device code from a client, before the driver reads them.
//!
//! The driver takes a pointer and believes what the image says of its own length. It would read
//! beyond the end of one that lies, and one kind of image, the wrapper that compilers put around a
//! fat binary, holds a host address that it would follow. So lengths are checked here, text is
//! given an end, and wrappers are refused: a client sends what lies behind them.

use busbar_abi::cuda::{CUDA_ERROR_INVALID_IMAGE, CUDA_ERROR_NO_BINARY_FOR_GPU, CUresult, Result};
use ruzstd::decoding::StreamingDecoder;
use std::borrow::Cow;
use std::io::Read;

const WRAPPER: u32 = 0x4662_43b1;
const FATBIN: u32 = 0xba55_ed50;
const ELF: u32 = 0x464c_457f;
/// The driver may look at as many bytes to tell what an image is.
const LEAST: usize = 64;

/// An image as it may go to the driver.
#[derive(Debug)]
pub struct Checked {
    /// Its bytes; those of text end in zeros.
    pub bytes: Vec<u8>,
    /// How many the client sent.
    pub len: usize,
    /// Whether it has code that the driver compiles when it is loaded.
    pub compiles: bool,
}

/// What the driver gets of a library that is no image: it says so when the library is used.
pub fn in_place_of(error: CUresult) -> Vec<u8> {
    let mut bytes = vec![0; LEAST];
    if error == CUDA_ERROR_NO_BINARY_FOR_GPU {
        // A fat binary with nothing in it.
        bytes[..4].copy_from_slice(&FATBIN.to_le_bytes());
        (bytes[4], bytes[6]) = (1, 16);
    }
    bytes
}

/// Checks an image.
pub fn checked(mut bytes: Vec<u8>) -> Result<Checked> {
    let len = bytes.len();
    let kind = number(&bytes, 0, 4).map(|n| n as u32);
    let compiles = match kind {
        Some(FATBIN) => fatbin(&bytes),
        Some(ELF) => elf(&bytes).map(|()| false),
        Some(WRAPPER) | None => None,
        Some(_) => {
            // Text, or what the driver will not know.
            if bytes.len() < LEAST || !bytes.contains(&0) {
                bytes.resize(bytes.len() + LEAST, 0);
            }
            Some(true)
        }
    };
    // As the driver calls a fat binary that it finds nothing in.
    let compiles = compiles.ok_or(match kind {
        Some(FATBIN) => CUDA_ERROR_NO_BINARY_FOR_GPU,
        _ => CUDA_ERROR_INVALID_IMAGE,
    })?;
    Ok(Checked {
        bytes,
        len,
        compiles,
    })
}

/// The little-endian number of `n` bytes at `at`.
fn number(bytes: &[u8], at: usize, n: usize) -> Option<u64> {
    let b = bytes.get(at..at.checked_add(n)?)?;
    Some(b.iter().rev().fold(0, |v, b| v << 8 | u64::from(*b)))
}

/// Whether `n` bytes at `at` are inside.
fn inside(bytes: &[u8], at: u64, n: u64) -> Option<()> {
    (at.checked_add(n)? <= bytes.len() as u64).then_some(())
}

/// Kinds of entries of fat binaries.
const PTX: u64 = 1;
const MACHINE_CODE: u64 = 2;

/// How an entry is packed, by its flags.
const LZ4: u64 = 1 << 13;
const ZSTD: u64 = 1 << 15;
/// More than that is not unpacked to look at it.
const MOST_UNPACKED: u64 = 1 << 30;

/// An entry of a fat binary: its header, and behind that what it holds.
struct Entry<'a> {
    header: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Entry<'a> {
    /// Of which kind it is.
    fn kind(&self) -> u64 {
        self.field(0, 2)
    }

    /// A field of its header; a short one has it not.
    fn field(&self, at: usize, len: usize) -> u64 {
        number(self.header, at, len).unwrap_or(0)
    }

    fn flags(&self) -> u64 {
        self.field(40, 8)
    }

    fn is_packed(&self) -> bool {
        self.flags() & (LZ4 | ZSTD) != 0
    }

    /// What it holds, unpacked; `None` where that cannot be done.
    fn image(&self) -> Option<Cow<'a, [u8]>> {
        let (packed, whole) = (self.field(16, 4), self.field(56, 8));
        if !self.is_packed() {
            return Some(self.payload.into());
        }
        let packed = self.payload.get(..packed as usize)?;
        let whole = usize::try_from(whole.min(MOST_UNPACKED + 1)).ok()?;
        if whole as u64 > MOST_UNPACKED {
            return None;
        }
        if self.flags() & LZ4 != 0 {
            return Some(lz4_flex::block::decompress(packed, whole).ok()?.into());
        }
        let mut image = Vec::new();
        let decoder = StreamingDecoder::new(packed).ok()?;
        decoder.take(whole as u64).read_to_end(&mut image).ok()?;
        Some(image.into())
    }
}

/// Whether one of the entries is text.
fn fatbin(bytes: &[u8]) -> Option<bool> {
    let mut text = false;
    entries(bytes, |entry| text |= entry.kind() == PTX)?;
    Some(text)
}

/// Tells of each entry of a fat binary.
fn entries<'a>(bytes: &'a [u8], mut tell: impl FnMut(Entry<'a>)) -> Option<()> {
    let (header, body) = (number(bytes, 6, 2)?, number(bytes, 8, 8)?);
    inside(bytes, header, body)?;
    if header < 16 {
        return None;
    }
    let mut left = &bytes[header as usize..(header + body) as usize];
    // Entries: u16 kind, u16, u32 header's size, u64 payload's size, and more.
    while left.len() >= 32 {
        let (header, payload) = (number(left, 4, 4)?, number(left, 8, 8)?);
        inside(left, header, payload)?;
        if header < 32 {
            return None;
        }
        let (entry, rest) = left.split_at((header + payload) as usize);
        let (header, payload) = entry.split_at(header as usize);
        tell(Entry { header, payload });
        left = rest;
    }
    Some(())
}

/// How many bytes of a device an image may need, as far as it says: its code and its variables, of
/// which the image itself has none where they are zero. Of a fat binary's entries it is one that a
/// device has. What is packed is unpacked for that if `unpacks`, at some 350 MB/s, and counts as
/// nothing otherwise.
pub fn on_device(image: &[u8], unpacks: bool) -> u64 {
    match number(image, 0, 4).map(|n| n as u32) {
        Some(FATBIN) => {
            let mut most = 0;
            let _ = entries(image, |entry| {
                let code = matches!(entry.kind(), PTX | MACHINE_CODE);
                let code = code && (unpacks || !entry.is_packed());
                // None of these holds another fat binary.
                let needs = code.then(|| entry.image().map(|image| plain(&image)));
                most = needs.flatten().unwrap_or(0).max(most);
            });
            most
        }
        _ => plain(image),
    }
}

/// The same of machine code or text.
fn plain(image: &[u8]) -> u64 {
    match number(image, 0, 4).map(|n| n as u32) {
        Some(ELF) => loaded(image).unwrap_or(0),
        _ => variables(image),
    }
}

/// Bytes of the sections of an ELF image that are loaded.
fn loaded(bytes: &[u8]) -> Option<u64> {
    const ALLOCATED: u64 = 2;
    let n = |at, len| number(bytes, at, len);
    let (sections, size, count) = (n(40, 8)?, n(58, 2)?, n(60, 2)?);
    let table = bytes.get(usize::try_from(sections).ok()?..)?;
    let mut all = 0u64;
    for i in 0..count {
        let at = (i * size) as usize;
        if number(table, at + 8, 8)? & ALLOCATED != 0 {
            all = all.saturating_add(number(table, at + 32, 8)?);
        }
    }
    Some(all)
}

/// Bytes of the variables that text (PTX) declares: `.global .align 4 .b8 room[1024][2];`.
fn variables(text: &[u8]) -> u64 {
    let end = text.iter().position(|b| *b == 0).unwrap_or(text.len());
    let statements = text[..end].split(|b| matches!(b, b';' | b'{' | b'}'));
    statements.map(declared).fold(0, u64::saturating_add)
}

/// Bytes of what a statement declares; none where that is no variable.
fn declared(statement: &[u8]) -> u64 {
    const WIDEST: u64 = 16;
    let mut words = statement
        .split(|b| b.is_ascii_whitespace() || *b == b',')
        .filter(|w| !w.is_empty());
    // What comes before are directives, as `.visible`, and comments.
    if !words.any(|w| w == b".global" || w == b".const") {
        return 0;
    }
    let (mut each, mut lanes, mut all) = (WIDEST, 1, 0u64);
    for word in words.take_while(|w| *w != b"=") {
        match word {
            b".v2" => lanes = 2,
            b".v4" => lanes = 4,
            [b'.', kind, bits @ ..] if b"busf".contains(kind) => {
                let bits = std::str::from_utf8(bits).ok().and_then(|n| n.parse().ok());
                each = bits.map_or(WIDEST, |n: u64| n / 8);
            }
            [b'0'..=b'9', ..] | [b'.', ..] => {}
            name => {
                let pieces = name.split(|b| *b == b'[').skip(1);
                let bounds = pieces.map(|p| number_of(p.split(|b| *b == b']').next().unwrap_or(p)));
                let n = bounds.fold(lanes, u64::saturating_mul);
                all = all.saturating_add(n.saturating_mul(each));
            }
        }
    }
    all
}

/// The number that text says, one where it says none.
fn number_of(text: &[u8]) -> u64 {
    let text = std::str::from_utf8(text)
        .unwrap_or("")
        .trim_end_matches('U');
    let hex = text.strip_prefix("0x").or(text.strip_prefix("0X"));
    let n = match hex {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    n.unwrap_or(1)
}

fn elf(bytes: &[u8]) -> Option<()> {
    const CLASS_64: u8 = 2;
    const NOBITS: u64 = 8;
    if bytes.len() < LEAST || bytes[4] != CLASS_64 {
        return None;
    }
    let n = |at, len| number(bytes, at, len);
    let (segments, sections) = (n(32, 8)?, n(40, 8)?);
    let (segment, segment_n, section, section_n) = (n(54, 2)?, n(56, 2)?, n(58, 2)?, n(60, 2)?);
    if (segment_n > 0 && segment < 56) || (section_n > 0 && section < 64) {
        return None;
    }
    inside(bytes, segments, segment * segment_n)?;
    inside(bytes, sections, section * section_n)?;
    for i in 0..section_n {
        let at = (sections + i * section) as usize;
        if n(at + 4, 4)? != NOBITS {
            inside(bytes, n(at + 24, 8)?, n(at + 32, 8)?)?;
        }
    }
    for i in 0..segment_n {
        let at = (segments + i * segment) as usize;
        inside(bytes, n(at + 8, 8)?, n(at + 32, 8)?)?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_long_a_piece_is_is_known_whatever_is_put_behind_it() {
        let image = checked(b"!<arch>\n".to_vec()).unwrap();
        assert_eq!(&image.bytes[..image.len], b"!<arch>\n");
        assert!(image.bytes.len() >= LEAST);
        let image = checked(elf_image()).unwrap();
        assert_eq!((image.len, image.bytes.len()), (200, 200));
    }

    fn put(b: &mut [u8], at: usize, n: usize, v: u64) {
        b[at..at + n].copy_from_slice(&v.to_le_bytes()[..n]);
    }

    fn elf_image() -> Vec<u8> {
        let mut b = vec![0; 64 + 64 + 56 + 16];
        put(&mut b, 0, 4, ELF.into());
        b[4] = 2;
        put(&mut b, 40, 8, 64);
        put(&mut b, 32, 8, 128);
        for (at, v) in [(54, 56), (56, 1), (58, 64), (60, 1)] {
            put(&mut b, at, 2, v);
        }
        put(&mut b, 64 + 24, 8, 184);
        put(&mut b, 64 + 32, 8, 16);
        put(&mut b, 128 + 8, 8, 184);
        put(&mut b, 128 + 32, 8, 16);
        b
    }

    fn fat_image() -> Vec<u8> {
        let mut b = vec![0; 16 + 64 + 8];
        put(&mut b, 0, 4, FATBIN.into());
        put(&mut b, 6, 2, 16);
        put(&mut b, 8, 8, 72);
        put(&mut b, 16 + 4, 4, 64);
        put(&mut b, 16 + 8, 8, 8);
        b
    }

    #[test]
    fn whole_images_pass_and_cut_ones_do_not() {
        for image in [elf_image(), fat_image()] {
            assert_eq!(checked(image.clone()).unwrap().bytes, image);
            for n in 4..image.len() {
                assert!(
                    checked(image[..n].to_vec()).is_err(),
                    "{n} of {}",
                    image.len()
                );
            }
        }
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        let lies = [u64::MAX, u64::MAX - 200, 201, 1 << 40];
        for lie in lies {
            for at in [32, 40, 64 + 24, 64 + 32, 128 + 8, 128 + 32] {
                let mut b = elf_image();
                put(&mut b, at, 8, lie);
                assert!(checked(b).is_err(), "{lie} at {at}");
            }
            for at in [8, 16 + 8] {
                let mut b = fat_image();
                put(&mut b, at, 8, lie);
                assert!(checked(b).is_err(), "{lie} at {at}");
            }
        }
    }

    #[test]
    fn a_wrapper_is_refused_and_text_gets_an_end() {
        let mut wrapper = vec![0; 64];
        put(&mut wrapper, 0, 4, WRAPPER.into());
        put(&mut wrapper, 8, 8, 0x1000);
        assert!(checked(wrapper).is_err());
        assert!(checked(vec![]).is_err());
        assert!(checked(b"abc".to_vec()).is_err());
        let text = checked(b".version 8.0 without an end".to_vec())
            .unwrap()
            .bytes;
        assert!(text.len() >= LEAST && text.ends_with(&[0]));
        let long = [&[b' '; 80][..], &[0]].concat();
        assert_eq!(checked(long.clone()).unwrap().bytes, long);
    }

    #[test]
    fn what_variables_need_is_known_before_they_are_there() {
        let text = |t: &str| {
            on_device(
                format!(".version 7.0\n.target sm_70\n{t}\0").as_bytes(),
                true,
            )
        };
        assert_eq!(text(".global .align 4 .b8 room[4194304];"), 4 << 20);
        assert_eq!(
            text(".visible .global .f64 a;\n.const .u16 b[3][5];"),
            8 + 30
        );
        assert_eq!(text(".global .align 8 .u64 p[2] = {generic(a), 0};"), 16);
        assert_eq!(text(".global .b32 a[0x10], b[2];"), 72);
        assert_eq!(text(".global .v4 .f32 v[2]={0};"), 32);
        assert_eq!(text(".global .texref t;"), 16);
        assert_eq!(text(".shared .b8 s[999];\n.local .b8 l[999];"), 0);
        let kernel = ".entry k(.param .u64 p) {\n ld.global.u32 %r1, [%rd1+4096];\n}";
        assert_eq!(text(kernel), 0);
        assert_eq!(text(".global .b8 a[18446744073709551615][2];"), u64::MAX);
        // Of a fat binary one is loaded; lies end nowhere.
        let mut elf = elf_image();
        assert_eq!(on_device(&elf, true), 0);
        put(&mut elf, 64 + 8, 8, 3);
        put(&mut elf, 64 + 32, 8, 1 << 40);
        assert_eq!(on_device(&elf, true), 1 << 40);
        let mut fat = fat_image()[..16].to_vec();
        for payload in [&elf[..], b".global .b8 room[64];\0"] {
            let mut header = vec![0; 64];
            put(
                &mut header,
                0,
                2,
                if payload.len() == elf.len() { 2 } else { 1 },
            );
            put(&mut header, 4, 4, 64);
            put(&mut header, 8, 8, payload.len() as u64);
            fat.extend_from_slice(&header);
            fat.extend_from_slice(payload);
        }
        let body = fat.len() as u64 - 16;
        put(&mut fat, 8, 8, body);
        assert_eq!(on_device(&fat, true), 1 << 40);
        put(&mut elf, 40, 8, u64::MAX - 4);
        assert_eq!((on_device(&elf, true), on_device(b"", true)), (0, 0));
    }

    /// A fat binary of one entry, as CUDA's tools make it.
    fn packed(flags: u64, packed: &[u8], whole: u64) -> Vec<u8> {
        let mut b = vec![0; 16 + 64];
        put(&mut b, 0, 4, FATBIN.into());
        put(&mut b, 6, 2, 16);
        put(&mut b, 16, 2, MACHINE_CODE);
        put(&mut b, 16 + 4, 4, 64);
        put(&mut b, 16 + 16, 4, packed.len() as u64);
        put(&mut b, 16 + 40, 8, 0x11 | flags);
        put(&mut b, 16 + 56, 8, whole);
        b.extend_from_slice(packed);
        // In whole words of eight bytes.
        b.resize(b.len().next_multiple_of(8), 0);
        let n = b.len() as u64;
        put(&mut b, 8, 8, n - 16);
        put(&mut b, 16 + 8, 8, n - 80);
        b
    }

    #[test]
    fn what_packed_code_needs_is_known_too() {
        let mut elf = elf_image();
        put(&mut elf, 64 + 8, 8, 3);
        put(&mut elf, 64 + 32, 8, 1 << 40);
        let whole = elf.len() as u64;
        // One literal run of 200 bytes: 15 and 185 more.
        let lz4 = [&[0xf0, 185][..], &elf].concat();
        // A frame of a single segment whose size takes one byte, and one raw block, the last.
        let block = ((elf.len() as u32) << 3 | 1).to_le_bytes();
        let zstd = [
            &[0x28, 0xb5, 0x2f, 0xfd, 0x20, elf.len() as u8][..],
            &block[..3],
            &elf,
        ]
        .concat();
        for (flag, bytes) in [(LZ4, &lz4), (ZSTD, &zstd)] {
            let image = packed(flag, bytes, whole);
            assert!(!checked(image.clone()).unwrap().compiles);
            assert_eq!(on_device(&image, true), 1 << 40, "{flag:#x}");
            assert_eq!(on_device(&image, false), 0, "{flag:#x}");
            // Lies and damage say nothing, and end nowhere.
            assert_eq!(on_device(&packed(flag, bytes, u64::MAX), true), 0);
            assert_eq!(
                on_device(&packed(flag, &bytes[..bytes.len() / 2], whole), true),
                0
            );
            assert_eq!(on_device(&packed(flag, &[0xff; 40], whole), true), 0);
            let mut lie = image;
            put(&mut lie, 16 + 16, 4, u64::from(u32::MAX));
            assert_eq!(on_device(&lie, true), 0);
        }
    }

    #[test]
    fn text_is_compiled_and_machine_code_is_not() {
        let compiles = |image: Vec<u8>| checked(image).unwrap().compiles;
        let fat = |kind| {
            let mut b = fat_image();
            put(&mut b, 16, 2, kind);
            b
        };
        assert!(compiles(b".version 8.0\n\0".to_vec()));
        assert!(!compiles(elf_image()));
        assert!(compiles(fat(1)) && !compiles(fat(2)));
        // One of each.
        let mut both = fat(1);
        both.extend_from_slice(&fat(2)[16..]);
        put(&mut both, 8, 8, 144);
        assert!(compiles(both));
    }
}
