//! Can a program load our shims at all? Looked up before it starts, since a dynamic loader that
//! fails to load a library says nothing that its user would understand.

use anyhow::{Result, bail};
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Finds `name` as the shell would.
pub fn find(name: &OsStr) -> Result<PathBuf> {
    let text = name.to_string_lossy();
    if text.contains('/') {
        let p = PathBuf::from(name);
        if !p.exists() {
            bail!("there is no program {text}");
        }
        return Ok(p);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let runs = |p: &Path| {
        p.metadata()
            .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(&path)
        .map(|d| d.join(name))
        .find(|p| runs(p))
        .map_or_else(|| bail!("there is no program `{text}` in PATH"), Ok)
}

/// Fails when the program at `path` cannot load a 64-bit glibc library.
pub fn check(path: &Path, depth: u32) -> Result<()> {
    let mut head = Vec::new();
    let read = std::fs::File::open(path).and_then(|f| f.take(1 << 20).read_to_end(&mut head));
    if read.is_err() {
        return Ok(()); // Executable but not readable: let it try.
    }
    if head.starts_with(b"#!") && depth < 4 {
        let line = head[2..].split(|b| *b == b'\n').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line);
        let mut words = line.split_whitespace();
        let Some(interpreter) = words.next() else {
            return Ok(());
        };
        let target = match (Path::new(interpreter).file_name(), words.next()) {
            (Some(f), Some(name)) if f == "env" => find(OsStr::new(name))?,
            _ => PathBuf::from(interpreter),
        };
        return check(&target, depth + 1);
    }
    let show = path.display();
    if !head.starts_with(b"\x7fELF") || head.len() < 64 {
        return Ok(());
    }
    if head[4] != 2 {
        bail!("{show} is a 32-bit program; Busbar serves 64-bit programs only, as CUDA does");
    }
    let u16_at = |i: usize| u16::from_le_bytes([head[i], head[i + 1]]);
    if u16_at(18) != 62 {
        bail!("{show} is built for another processor than this build of Busbar (x86-64)");
    }
    match interpreter(&head) {
        Some(i) if i.contains("musl") => bail!(
            "{show} is linked against musl, and Busbar's libraries need glibc: use a glibc build \
             of it (for Python, an image that is not Alpine)"
        ),
        _ => Ok(()),
    }
}

/// The PT_INTERP of a 64-bit little-endian ELF file.
fn interpreter(elf: &[u8]) -> Option<String> {
    let int = |at: usize, n: usize| -> Option<u64> {
        let b = elf.get(at..at.checked_add(n)?)?;
        Some(b.iter().rev().fold(0, |v, x| v << 8 | u64::from(*x)))
    };
    let (table, each, count) = (
        int(32, 8)? as usize,
        int(54, 2)? as usize,
        int(56, 2)? as usize,
    );
    for i in 0..count {
        let h = table.checked_add(i * each)?;
        if int(h, 4)? == 3 {
            let (offset, len) = (int(h + 8, 8)? as usize, int(h + 32, 8)? as usize);
            let s = elf.get(offset..offset.checked_add(len)?)?;
            return Some(
                String::from_utf8_lossy(s)
                    .trim_end_matches('\0')
                    .to_string(),
            );
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_32_bit_and_a_musl_program_are_told_apart() {
        let dir = std::env::temp_dir().join(format!("busbar-elf-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let mut elf = vec![0u8; 256];
        elf[..5].copy_from_slice(b"\x7fELF\x01");
        std::fs::write(dir.join("a"), &elf).unwrap();
        assert!(
            check(&dir.join("a"), 0)
                .unwrap_err()
                .to_string()
                .contains("32-bit")
        );
        elf[4] = 2;
        elf[18] = 62;
        elf[32] = 64; // program headers at 64, one of 56 bytes
        elf[54] = 56;
        elf[56] = 1;
        elf[64] = 3;
        elf[72] = 128;
        elf[96] = 30;
        elf[128..153].copy_from_slice(b"/lib/ld-musl-x86_64.so.1\0");
        std::fs::write(dir.join("b"), &elf).unwrap();
        assert!(
            check(&dir.join("b"), 0)
                .unwrap_err()
                .to_string()
                .contains("musl")
        );
        assert!(check(Path::new("/proc/self/exe"), 0).is_ok());
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
