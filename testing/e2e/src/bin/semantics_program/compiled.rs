//! What compilers in a program ask the driver to keep, by a table of functions that is not
//! documented.

use super::api::{Api, at};

const TABLE: [u8; 16] = *b"\xda\x91\x51\xd3\x3a\xe6\xcc\x41\xa5\xc0\x4f\x26\xd5\x33\xe3\x28";

type Slot = unsafe extern "C" fn(u64, u64, u64, u64, u64, u64, u64, u64) -> i32;

struct Table(*const Slot);

impl Table {
    fn call(&self, slot: usize, args: &[u64]) -> i32 {
        let mut a = [0u64; 8];
        a[..args.len()].copy_from_slice(args);
        // SAFETY: the table has seven slots, and all but the first are functions.
        unsafe { (*self.0.add(slot))(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]) }
    }

    /// Begins to ask for the result of a compiler.
    fn open(&self, kind: u64, source: &[u8], options: &str) -> u64 {
        let mut handle = 0u64;
        let texts = [options, "HOST64\0", "Jan 1 2026\0"].map(|t| t.as_ptr() as u64);
        let source = [source.as_ptr() as u64, source.len() as u64];
        let args = [
            at(&mut handle),
            kind,
            source[0],
            source[1],
            texts[0],
            texts[1],
            texts[2],
            90,
        ];
        println!("open: {}", self.call(1, &args));
        handle
    }

    fn find(&self, handle: u64) {
        let (mut p, mut len) = (0u64, 0u32);
        let rc = self.call(3, &[handle, 0, at(&mut p), at(&mut len)]);
        print!("find: {rc}");
        if rc == 0 {
            // SAFETY: what the table says is there.
            let bytes = unsafe { std::slice::from_raw_parts(p as *const u8, len as usize) };
            let sum = bytes.iter().map(|b| u64::from(*b)).sum::<u64>();
            print!(", {len} bytes, sum {sum}, free: {}", self.call(6, &[p]));
        }
        println!();
    }

    fn keep(&self, handle: u64, bytes: &[u8]) {
        let args = [handle, 0, bytes.as_ptr() as u64, bytes.len() as u64];
        println!("keep: {}", self.call(4, &args));
    }
}

/// Each result is found under everything that went into it, and under nothing else.
pub fn compiled(api: &Api) {
    let (mut raw, uuid) = (0u64, TABLE);
    api.tell("cuGetExportTable", &[at(&mut raw), uuid.as_ptr() as u64]);
    // SAFETY: the first entry is a table's size.
    println!("bytes: {}", unsafe { *(raw as *const u64) });
    let table = Table(raw as *const Slot);
    let bytes: Vec<u8> = (0u32..300_000).map(|i| (i % 251) as u8).collect();
    for (kind, source, options, kept) in [
        (2, &b"source"[..], " -arch=compute_90\0", &bytes[..]),
        (1, b"source", " -arch=compute_90\0", &bytes[1..]),
        (2, b"sourcd", " -arch=compute_90\0", &bytes[2..]),
        (2, b"source", " -arch=compute_80\0", &bytes[..1]),
    ] {
        let handle = table.open(kind, source, options);
        table.find(handle);
        table.keep(handle, kept);
        println!("close: {}", table.call(2, &[handle]));
    }
    let handle = table.open(2, b"source", " -arch=compute_90\0");
    table.find(handle);
    println!("close: {}", table.call(2, &[handle]));
}
