//! What a module is loaded from: our own text, a fat binary around it, or a real image.
//!
//! The text has one item a line, after the line `fakedev-module 1`:
//! - `kernel NAME BUILTIN [PARAM...]`: a kernel that runs a builtin of [`super::kernels`]. A
//!   parameter is `u32`, `u64`, `f32`, `ptr` or `bytes:N`; without any, they are the builtin's own;
//! - `local NAME BYTES`: the local memory of each thread of a kernel that has come before;
//! - `global NAME BYTES`: zeroed device memory.
//!
//! A real image, ELF or PTX, loads as well: it has a kernel of any name, which does nothing. Of one
//! that is compressed nothing can be read, so it has a variable of any name too.

use super::elf;
use super::kernels::{self, Builtin};
use super::memory;
use crate::ffi::*;
use std::collections::BTreeMap;

const FIRST_LINE: &str = "fakedev-module 1";
const MAX_TEXT: usize = 1 << 20;
const PAGE: u64 = 4096;
const MAX_BODY: u64 = 1 << 32;
const MAX_GLOBAL: usize = 1 << 30;
const WRAPPER_MAGIC: u32 = 0x4662_43b1;
const FAT_MAGIC: u32 = 0xba55_ed50;
const ELF_MAGIC: u32 = 0x464c_457f;
const LTO_MAGIC: u32 = 0x7f4e_43ed;
const LTO_HEADER: usize = 44;
const KIND_PTX: u16 = 1;
const KIND_ELF: u16 = 2;
const ENTRY_HEADER: usize = 32;
const ARCHITECTURE: u32 = 90;

/// A kernel's parameters: the size and alignment of each, in order.
pub type Params = Vec<(usize, usize)>;

/// A loaded image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// Its kernels; None in a real image, which has any.
    pub kernels: Option<BTreeMap<String, Kernel>>,
    /// Its globals and their sizes.
    pub globals: BTreeMap<String, usize>,
    /// It is compressed: it may have any other global, which is [`CLOSED_GLOBAL`] bytes long.
    pub closed: bool,
}

/// How long a global of a compressed image is.
pub const CLOSED_GLOBAL: usize = 4096;

/// A kernel of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// What it does; None does nothing.
    pub builtin: Option<Builtin>,
    /// Its parameters; None where they are not known.
    pub params: Option<Params>,
    /// Bytes of local memory of each thread.
    pub local: usize,
}

impl Image {
    /// Reads what a program gave to load.
    ///
    /// # Safety
    /// `p` is null or points to an image: its own headers say how much is readable, and text ends
    /// in NUL.
    pub unsafe fn read(p: *const u8) -> R<Image> {
        if p.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: an image has at least four bytes: text is longer, and the others have headers.
        match unsafe { p.cast::<u32>().read_unaligned() } {
            WRAPPER_MAGIC => {
                // SAFETY: the wrapper is two u32 and the address of the fat binary.
                let fat = unsafe { p.add(8).cast::<*const u8>().read_unaligned() };
                if fat.is_null() {
                    return Err(INVALID_IMAGE);
                }
                // SAFETY: by this function's contract.
                unsafe { Image::fat(fat) }
            }
            // SAFETY: by this function's contract.
            FAT_MAGIC => unsafe { Image::fat(p) },
            // SAFETY: by this function's contract.
            ELF_MAGIC => Ok(unsafe { Image::elf(p) }),
            // Behind its header, which says no length, our own text.
            // SAFETY: by this function's contract.
            LTO_MAGIC => Image::text(unsafe { c_bytes(p.add(LTO_HEADER)) }),
            // SAFETY: by this function's contract.
            _ => Image::text(unsafe { c_bytes(p) }),
        }
    }

    unsafe fn elf(p: *const u8) -> Image {
        // SAFETY: by the caller's contract.
        let globals = unsafe { elf::globals(p) };
        Image {
            globals,
            ..Image::default()
        }
    }

    unsafe fn fat(p: *const u8) -> R<Image> {
        // SAFETY: the header is u32 magic, u16 version, u16 header size, u64 body size.
        let (magic, header, body) = unsafe {
            let header = p.add(6).cast::<u16>().read_unaligned();
            (
                p.cast::<u32>().read_unaligned(),
                header,
                p.add(8).cast::<u64>().read_unaligned(),
            )
        };
        if magic != FAT_MAGIC || header < 16 || body > MAX_BODY {
            return Err(NO_BINARY_FOR_GPU);
        }
        if !memory::readable(p as u64 + u64::from(header), body as usize) {
            return Err(NO_BINARY_FOR_GPU);
        }
        // SAFETY: the header says where the body is and how long, and there is memory.
        let body = unsafe { std::slice::from_raw_parts(p.add(header.into()), body as usize) };
        Image::select(body)
    }

    /// Chooses among the entries of a fat binary: our architecture's own code before PTX.
    fn select(mut body: &[u8]) -> R<Image> {
        let word = |at: usize, body: &[u8]| {
            let bytes = body[at..at + 4].try_into().expect("four bytes");
            u32::from_le_bytes(bytes)
        };
        let mut best: Option<(u32, u16, &[u8])> = None;
        while body.len() >= ENTRY_HEADER {
            let kind = word(0, body) as u16;
            let header = word(4, body) as usize;
            let size = u64::from(word(8, body)) | u64::from(word(12, body)) << 32;
            let end = (header as u64).checked_add(size).ok_or(NO_BINARY_FOR_GPU)?;
            if header < ENTRY_HEADER || end > body.len() as u64 {
                return Err(NO_BINARY_FOR_GPU);
            }
            let arch = word(28, body);
            let payload = &body[header..end as usize];
            let runs_here = arch <= ARCHITECTURE && arch / 10 == ARCHITECTURE / 10;
            let rank = match kind {
                KIND_ELF if runs_here => 1000 + arch,
                KIND_PTX if arch <= ARCHITECTURE => arch,
                _ => 0,
            };
            if rank > 0 && best.is_none_or(|(other, ..)| rank > other) {
                best = Some((rank, kind, payload));
            }
            body = &body[end as usize..];
        }
        let (_, kind, payload) = best.ok_or(NO_BINARY_FOR_GPU)?;
        if payload.starts_with(FIRST_LINE.as_bytes()) {
            Image::text(payload)
        } else if payload.starts_with(&ELF_MAGIC.to_le_bytes()) {
            // SAFETY: the entry is in memory as a whole.
            Ok(unsafe { Image::elf(payload.as_ptr()) })
        } else {
            // Compressed, or PTX.
            Ok(Image {
                closed: kind == KIND_ELF,
                ..Image::default()
            })
        }
    }

    fn text(bytes: &[u8]) -> R<Image> {
        let end = bytes
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(bytes.len());
        let text = std::str::from_utf8(&bytes[..end]).map_err(|_| INVALID_IMAGE)?;
        let mut lines = text.lines().map(str::trim);
        if lines.next() != Some(FIRST_LINE) {
            return if is_ptx(text) {
                Ok(Image::default())
            } else {
                Err(INVALID_IMAGE)
            };
        }
        let mut kernels = BTreeMap::new();
        let mut globals = BTreeMap::new();
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["kernel", name, builtin, ref params @ ..] => {
                    kernels.insert(name.to_owned(), kernel(builtin, params)?);
                }
                ["local", name, size] => {
                    let kernel = kernels.get_mut(name).ok_or(INVALID_IMAGE)?;
                    kernel.local = size.parse().map_err(|_| INVALID_IMAGE)?;
                }
                ["global", name, size] => {
                    let size = size.parse().ok().filter(|n| (1..=MAX_GLOBAL).contains(n));
                    globals.insert(name.to_owned(), size.ok_or(INVALID_IMAGE)?);
                }
                _ => return Err(INVALID_IMAGE),
            }
        }
        Ok(Image {
            kernels: Some(kernels),
            globals,
            ..Image::default()
        })
    }

    /// The kernel of a name.
    pub fn kernel(&self, name: &str) -> R<Kernel> {
        match &self.kernels {
            Some(kernels) => kernels.get(name).cloned().ok_or(NOT_FOUND),
            None if name.is_empty() => Err(NOT_FOUND),
            // Of compiled code those do something that the worker brings.
            None => {
                let own = name.starts_with("busbar_");
                let builtin = own.then(|| kernels::by_name(name)).flatten();
                let each =
                    |b: kernels::Builtin| b.params.iter().map(|size| (*size, *size)).collect();
                let params = builtin.map(each);
                Ok(Kernel {
                    builtin,
                    params,
                    local: 0,
                })
            }
        }
    }
}

fn kernel(builtin: &str, params: &[&str]) -> R<Kernel> {
    let builtin = kernels::by_name(builtin).ok_or(INVALID_IMAGE)?;
    let own: Params = builtin.params.iter().map(|size| (*size, *size)).collect();
    let listed: Params = params
        .iter()
        .map(|param| size_of(param))
        .collect::<R<_>>()?;
    // A builtin reads its own parameters; more may follow them, to give a launch some weight.
    let params = if listed.is_empty() {
        own.clone()
    } else {
        listed
    };
    if !params.starts_with(&own) {
        return Err(INVALID_IMAGE);
    }
    Ok(Kernel {
        builtin: Some(builtin),
        params: Some(params),
        local: 0,
    })
}

fn size_of(param: &str) -> R<(usize, usize)> {
    match param {
        "u32" | "f32" => Ok((4, 4)),
        "u64" | "ptr" => Ok((8, 8)),
        _ => {
            let n = param.strip_prefix("bytes:").and_then(|n| n.parse().ok());
            Ok((
                n.filter(|n| (1..=4096).contains(n)).ok_or(INVALID_IMAGE)?,
                1,
            ))
        }
    }
}

/// Whether a text is what compilers write.
pub fn is_ptx(text: &str) -> bool {
    let mut lines = text.lines();
    lines.any(|line| line.trim_start().starts_with(".version"))
}

/// The bytes of a text, without the NUL that ends it.
///
/// # Safety
/// `p` points to text that ends in NUL.
pub unsafe fn c_bytes<'a>(p: *const u8) -> &'a [u8] {
    let mut n = 0;
    let there = |n: usize| {
        let address = p as u64 + n as u64;
        // Text that never ends must not run off the last page.
        (n != 0 && !address.is_multiple_of(PAGE)) || memory::readable(address, 1)
    };
    // SAFETY: by the caller's contract the text ends in NUL, and nothing after it is read.
    while n < MAX_TEXT && there(n) && unsafe { *p.add(n) } != 0 {
        n += 1;
    }
    // SAFETY: these bytes were just read.
    unsafe { std::slice::from_raw_parts(p, n) }
}
