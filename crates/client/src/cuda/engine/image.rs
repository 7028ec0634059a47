//! Images of device code: how long they are, and which part of a fat binary a device can use.
//!
//! A fat binary holds the same code for many architectures. Only what fits the remote device
//! travels. The format has no public description; this is what the CUDA tools produce:
//!
//! * a wrapper (`0x466243b1`, version, pointer) points at
//! * a header (`0xba55ed50`, u16 version, u16 header size, u64 body size), behind which lie
//! * entries: u16 kind (1 PTX, 2 ELF), u16, u32 header size, u64 payload size, ..., u32
//!   architecture at byte 28, then the payload.
//!
//! Code for link-time optimisation (`0x7f4e43ed`) does not say how long it is where anyone but the
//! driver can read it: as much travels as can be read there, up to a limit.

use std::ffi::{CStr, c_void};
use std::sync::Arc;

const WRAPPER: u32 = 0x4662_43b1;
const FATBIN: u32 = 0xba55_ed50;
const ELF: u32 = 0x464c_457f;
const LTO: u32 = 0x7f4e_43ed;
/// What travels of such code at most.
const MOST_LTO: usize = 8 << 20;
const KIND_PTX: u16 = 1;
const KIND_ELF: u16 = 2;
/// No image is longer; a header that says so is not one.
const MOST: u64 = 1 << 30;

/// An image as it will travel.
pub struct Image {
    /// Its bytes. A PTX text ends in NUL.
    pub bytes: Arc<[u8]>,
    /// Whether it holds machine code for the device, so that loading it cannot fail for want of it.
    pub native: bool,
}

unsafe fn u32_at(p: *const u8, at: usize) -> u32 {
    // SAFETY: passed on to the caller.
    unsafe { p.add(at).cast::<u32>().read_unaligned() }
}

unsafe fn u64_at(p: *const u8, at: usize) -> u64 {
    // SAFETY: passed on to the caller.
    unsafe { p.add(at).cast::<u64>().read_unaligned() }
}

/// Takes the image at `code`, whose length is in itself, for a device of architecture `arch` (90
/// for 9.0). `None` when it is no image.
///
/// # Safety
/// `code` points at an image of device code, as `cuModuleLoadData` asks.
pub unsafe fn take(code: *const c_void, arch: u32) -> Option<Image> {
    if code.is_null() {
        return None;
    }
    let p: *const u8 = code.cast();
    // SAFETY: each format begins with four bytes at least, and its fields lie where the format
    // says.
    unsafe {
        match u32_at(p, 0) {
            WRAPPER => {
                let inner = u64_at(p, 8) as *const u8;
                (!inner.is_null() && u32_at(inner, 0) == FATBIN).then(|| fatbin(inner, arch))?
            }
            FATBIN => fatbin(p, arch),
            ELF => {
                let n = elf_len(p)?;
                let bytes = std::slice::from_raw_parts(p, n).into();
                Some(Image {
                    bytes,
                    native: false,
                })
            }
            LTO => Some(Image {
                bytes: readable(p, MOST_LTO)?.into(),
                native: false,
            }),
            _ => {
                let text = CStr::from_ptr(code.cast()).to_bytes_with_nul();
                let looks_like_text = text.len() > 8 && text[..8].is_ascii();
                looks_like_text.then(|| Image {
                    bytes: text.into(),
                    native: false,
                })
            }
        }
    }
}

/// What is sent of code that is no image: its first bytes, by which the driver at the server says
/// what is wrong with it, and when.
///
/// # Safety
/// `code` points at four bytes at least.
pub unsafe fn of_none(code: *const c_void) -> Image {
    let mut bytes = [0; 64];
    // SAFETY: passed on to the caller.
    bytes[..4].copy_from_slice(&unsafe { u32_at(code.cast(), 0) }.to_le_bytes());
    Image {
        bytes: Arc::new(bytes),
        native: false,
    }
}

/// Copies what can be read from an address on, up to `most` bytes. The kernel copies, and stops
/// where there is nothing.
fn readable(p: *const u8, most: usize) -> Option<Vec<u8>> {
    const STEP: usize = 64 << 10;
    let mut bytes: Vec<u8> = Vec::new();
    while bytes.len() < most {
        let at = bytes.len();
        bytes.resize(at + STEP, 0);
        let to = libc::iovec {
            iov_base: bytes[at..].as_mut_ptr().cast(),
            iov_len: STEP,
        };
        // Up to a multiple: a part that cannot be read is then a page's.
        let len = STEP - (p as usize + at) % STEP;
        let from = libc::iovec {
            iov_base: p.wrapping_add(at).cast_mut().cast(),
            iov_len: len,
        };
        // SAFETY: room for as many bytes; what cannot be read makes less of them come.
        let n = unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, &from, 1, 0) };
        let came = usize::try_from(n).unwrap_or(0);
        bytes.truncate(at + came);
        if came < len {
            break;
        }
    }
    (!bytes.is_empty()).then_some(bytes)
}

/// The length of a 64-bit ELF image: the end of its last section, segment or table.
unsafe fn elf_len(p: *const u8) -> Option<usize> {
    // SAFETY: the caller's image is a whole ELF file, so its header and tables are readable.
    unsafe {
        let u16_of = |at: usize| u64::from(p.add(at).cast::<u16>().read_unaligned());
        let (ph, sh) = (u64_at(p, 32), u64_at(p, 40));
        let (ph_each, ph_n, sh_each, sh_n) = (u16_of(54), u16_of(56), u16_of(58), u16_of(60));
        let mut end = (ph + ph_each * ph_n).max(sh + sh_each * sh_n).max(64);
        if end > MOST {
            return None;
        }
        for i in 0..sh_n {
            let s = p.add((sh + i * sh_each) as usize);
            const NOBITS: u32 = 8;
            if u32_at(s, 4) != NOBITS {
                end = end.max(u64_at(s, 24).checked_add(u64_at(s, 32))?);
            }
        }
        for i in 0..ph_n {
            let s = p.add((ph + i * ph_each) as usize);
            end = end.max(u64_at(s, 8).checked_add(u64_at(s, 32))?);
        }
        (end <= MOST).then_some(end as usize)
    }
}

/// An entry of a fat binary.
struct Entry<'a> {
    kind: u16,
    arch: u32,
    bytes: &'a [u8],
}

fn entries(body: &[u8]) -> Option<Vec<Entry<'_>>> {
    let mut left = body;
    let mut found = Vec::new();
    while left.len() >= 32 {
        let int = |at: usize, n: usize| {
            left[at..at + n]
                .iter()
                .rev()
                .fold(0u64, |v, b| v << 8 | u64::from(*b))
        };
        let (kind, header, payload, arch) = (int(0, 2), int(4, 4), int(8, 8), int(28, 4));
        let len = usize::try_from(header.checked_add(payload)?).ok()?;
        if header < 32 || len > left.len() {
            return None;
        }
        let (bytes, tail) = left.split_at(len);
        found.push(Entry {
            kind: kind as u16,
            arch: arch as u32,
            bytes,
        });
        left = tail;
    }
    Some(found)
}

/// The part of a fat binary that a device of architecture `arch` can use.
unsafe fn fatbin(p: *const u8, arch: u32) -> Option<Image> {
    // SAFETY: the header has 16 bytes, and its body as many as it says.
    let (header, body) = unsafe {
        let header = usize::from(p.add(6).cast::<u16>().read_unaligned());
        let body = u64_at(p, 8);
        if header < 16 || body > MOST {
            return None;
        }
        (
            std::slice::from_raw_parts(p, header),
            std::slice::from_raw_parts(p.add(header), body as usize),
        )
    };
    Some(select(header, body, arch))
}

fn select(header: &[u8], body: &[u8], arch: u32) -> Image {
    let whole = || Image {
        bytes: joined([header, body]),
        native: false,
    };
    let Some(entries) = entries(body) else {
        // A format we do not know: the driver may.
        return whole();
    };
    let fits = |e: &&Entry<'_>| e.kind == KIND_ELF && e.arch / 10 == arch / 10 && e.arch <= arch;
    let best = entries.iter().filter(fits).map(|e| e.arch).max();
    let ptx = entries
        .iter()
        .filter(|e| e.kind == KIND_PTX && e.arch <= arch)
        .map(|e| e.arch)
        .max();
    let keep = |e: &&Entry<'_>| match best {
        Some(a) => e.kind == KIND_ELF && e.arch == a,
        None => e.kind == KIND_PTX && Some(e.arch) == ptx,
    };
    let kept = entries.iter().filter(keep).map(|e| e.bytes);
    let len: usize = kept.clone().map(<[u8]>::len).sum();
    if len == 0 {
        return whole();
    }
    let mut head = header.to_vec();
    head[8..16].copy_from_slice(&(len as u64).to_le_bytes());
    Image {
        bytes: joined(std::iter::once(&head[..]).chain(kept)),
        native: best.is_some(),
    }
}

/// Pieces behind each other, copied once: libraries have hundreds of megabytes of them.
fn joined<'a>(pieces: impl IntoIterator<Item = &'a [u8], IntoIter: Clone>) -> Arc<[u8]> {
    let pieces = pieces.into_iter();
    let mut all = Arc::new_uninit_slice(pieces.clone().map(<[u8]>::len).sum());
    let mut rest = Arc::get_mut(&mut all).unwrap_or_default();
    for piece in pieces {
        let (here, behind) = rest.split_at_mut(piece.len());
        here.write_copy_of_slice(piece);
        rest = behind;
    }
    // SAFETY: the pieces are as long together as there is room.
    unsafe { all.assume_init() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: u16, arch: u32, payload: &[u8]) -> Vec<u8> {
        let mut e = vec![0u8; 64];
        e[0..2].copy_from_slice(&kind.to_le_bytes());
        e[4..8].copy_from_slice(&64u32.to_le_bytes());
        e[8..16].copy_from_slice(&(payload.len() as u64).to_le_bytes());
        e[28..32].copy_from_slice(&arch.to_le_bytes());
        e.extend_from_slice(payload);
        e
    }

    fn header(body: &[u8]) -> Vec<u8> {
        let mut h = FATBIN.to_le_bytes().to_vec();
        h.extend_from_slice(&[1, 0, 16, 0]);
        h.extend_from_slice(&(body.len() as u64).to_le_bytes());
        h
    }

    fn archs(image: &Image) -> Vec<(u16, u32)> {
        entries(&image.bytes[16..])
            .unwrap()
            .iter()
            .map(|e| (e.kind, e.arch))
            .collect()
    }

    #[test]
    fn only_the_part_for_the_device_travels() {
        let body = [
            entry(KIND_ELF, 75, b"75"),
            entry(KIND_ELF, 80, b"80"),
            entry(KIND_ELF, 90, b"90"),
            entry(KIND_PTX, 80, b"ptx80"),
            entry(KIND_PTX, 100, b"ptx100"),
        ]
        .concat();
        let head = header(&body);
        let for_90 = select(&head, &body, 90);
        assert!(for_90.native);
        assert_eq!(archs(&for_90), [(KIND_ELF, 90)]);
        assert_eq!(
            archs(&select(&head, &body, 86)),
            [(KIND_ELF, 80)],
            "the same major"
        );
        let for_120 = select(&head, &body, 120);
        assert!(!for_120.native);
        assert_eq!(archs(&for_120), [(KIND_PTX, 100)], "PTX compiles forward");
        assert_eq!(
            archs(&select(&head, &body, 60)).len(),
            5,
            "nothing fits: the driver decides"
        );
    }

    #[test]
    fn a_wrapped_image_is_found_and_junk_is_not_taken_apart() {
        let body = entry(KIND_ELF, 90, b"code");
        let fat = [header(&body), body].concat();
        let mut wrapper = [0u8; 24];
        wrapper[0..4].copy_from_slice(&WRAPPER.to_le_bytes());
        wrapper[8..16].copy_from_slice(&(fat.as_ptr() as u64).to_le_bytes());
        // SAFETY: the wrapper points at a whole fat binary.
        let image = unsafe { take(wrapper.as_ptr().cast(), 90) }.unwrap();
        assert_eq!(&*image.bytes, &fat[..]);
        let junk = entry(7, 1, &[0; 8]);
        let cut = &junk[..40];
        assert!(entries(cut).is_none());
        assert_eq!(select(&header(cut), cut, 90).bytes.len(), 16 + 40);
    }

    #[test]
    fn ptx_ends_at_its_nul() {
        let text = c".version 8.0\n.target sm_80";
        // SAFETY: a C string.
        let image = unsafe { take(text.as_ptr().cast(), 90) }.unwrap();
        assert_eq!(&*image.bytes, text.to_bytes_with_nul());
    }

    #[test]
    fn code_that_says_no_length_travels_as_far_as_it_can_be_read() {
        const PAGE: usize = 4096;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let (none, some) = (libc::PROT_NONE, libc::PROT_READ | libc::PROT_WRITE);
        let at = |base: *mut c_void, n: usize| base.wrapping_byte_add(n);
        // SAFETY: a new mapping, of which all but its end is used; it stays.
        let base = unsafe {
            let base = libc::mmap(std::ptr::null_mut(), 64 * PAGE, some, flags, -1, 0);
            assert_ne!(base, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(at(base, 40 * PAGE), 24 * PAGE, none), 0);
            base
        };
        for from in [0, 5, 39 * PAGE, 40 * PAGE - 8] {
            let p = at(base, from);
            // SAFETY: four bytes of that memory.
            unsafe { p.cast::<u32>().write_unaligned(LTO) };
            // SAFETY: an image as far as it can be read.
            let image = unsafe { take(p, 90) }.expect("an image");
            assert_eq!(image.bytes.len(), 40 * PAGE - from);
            assert_eq!(image.bytes[..4], LTO.to_le_bytes());
        }
    }
}
