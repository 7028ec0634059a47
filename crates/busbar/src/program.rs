//! Can a program load our shims at all? Looked up before it starts, since a dynamic loader that
//! fails to load a library says nothing that its user would understand.

use anyhow::Result;
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// Exit status when a program cannot be run, and when there is none of that name, as a shell's.
const UNFIT: i32 = 126;
const NOT_FOUND: i32 = 127;

/// Has a program get a signal when the thread that starts it ends, also if that is killed.
pub fn told_of_our_end(c: &mut Command, signal: i32) {
    // SAFETY: prctl is safe between fork and exec.
    unsafe {
        c.pre_exec(move || match libc::prctl(libc::PR_SET_PDEATHSIG, signal) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
}

/// Why a program is not run, and the exit status that says so.
#[derive(Debug)]
pub struct Unfit {
    why: String,
    /// The exit status.
    pub status: i32,
}

impl std::fmt::Display for Unfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for Unfit {}

fn fail<T>(status: i32, why: String) -> Result<T> {
    Err(Unfit { why, status }.into())
}

/// The exit status for a program that the kernel would not start.
pub fn not_started(path: &Path, e: &std::io::Error) -> anyhow::Error {
    let status = match e.kind() {
        std::io::ErrorKind::NotFound => NOT_FOUND,
        _ => UNFIT,
    };
    let why = format!("cannot run {}: {e}", path.display());
    Unfit { why, status }.into()
}

/// What a shell makes of the end of a program.
pub fn exit_status(status: ExitStatus) -> i32 {
    let signal = || 128 + status.signal().unwrap_or(0);
    status.code().unwrap_or_else(signal)
}

/// NVIDIA's program that shows GPUs. Where a machine has none, programs that `busbar run` starts
/// find this one under that name.
pub const SMI: &str = "nvidia-smi";

/// NVIDIA's own one, if that is what these folders have under its name. A script leads elsewhere:
/// to a driver that may be gone, or back to us.
pub fn real_smi(folders: Vec<PathBuf>) -> Option<PathBuf> {
    let found = find_in(OsStr::new(SMI), folders).ok()?;
    let mut head = [0; 4];
    let read = std::fs::File::open(&found).and_then(|mut f| f.read_exact(&mut head));
    // One that cannot be read cannot be a script either.
    (read.is_err() || head == *b"\x7fELF").then_some(found)
}

/// The folders in which programs are looked for: where `PATH` says nothing, those of the system.
pub fn folders() -> Vec<PathBuf> {
    match std::env::var_os("PATH").filter(|p| !p.is_empty()) {
        Some(path) => std::env::split_paths(&path).collect(),
        None => ["/bin", "/usr/bin"].map(PathBuf::from).into(),
    }
}

/// Finds `name` as the shell would.
pub fn find(name: &OsStr) -> Result<PathBuf> {
    find_in(name, folders())
}

/// Finds `name` as the shell would with these folders in `PATH`.
pub fn find_in(name: &OsStr, folders: Vec<PathBuf>) -> Result<PathBuf> {
    let text = name.to_string_lossy();
    let runs = |p: &Path| {
        p.metadata()
            .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    if text.split_whitespace().count() > 1 && !Path::new(name).exists() {
        let why = format!("`{text}` is no program: say it without quotes, behind `--`: -- {text}");
        return fail(NOT_FOUND, why);
    }
    if text.contains('/') {
        let p = PathBuf::from(name);
        if !p.exists() {
            return fail(
                NOT_FOUND,
                format!("there is no program {text}; is the path right?"),
            );
        }
        if !runs(&p) {
            let why =
                format!("{text} is not a program that may be run; `chmod +x` makes a script one");
            return fail(UNFIT, why);
        }
        return Ok(p);
    }
    folders
        .into_iter()
        .map(|d| d.join(name))
        .find(|p| runs(p))
        .map_or_else(
            || {
                fail(
                    NOT_FOUND,
                    format!("there is no program `{text}` in PATH; is it installed?"),
                )
            },
            Ok,
        )
}

/// Fails when the program at `path` cannot load a 64-bit glibc library. What it can do without, but
/// its user should know, is returned.
pub fn check(path: &Path, depth: u32) -> Result<Option<String>> {
    let mut head = Vec::new();
    let read = std::fs::File::open(path).and_then(|f| f.take(1 << 20).read_to_end(&mut head));
    if read.is_err() {
        return Ok(None); // Executable but not readable: let it try.
    }
    if head.starts_with(b"#!") && depth < 4 {
        let line = head[2..].split(|b| *b == b'\n').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line);
        let mut words = line.split_whitespace();
        let Some(interpreter) = words.next() else {
            return Ok(None);
        };
        let target = match (Path::new(interpreter).file_name(), words.next()) {
            (Some(f), Some(name)) if f == "env" => find(OsStr::new(name))?,
            _ => PathBuf::from(interpreter),
        };
        return check(&target, depth + 1);
    }
    let show = path.display();
    if !head.starts_with(b"\x7fELF") || head.len() < 64 {
        return Ok(None);
    }
    if head[4] != 2 {
        let why = "is a 32-bit program; Busbar serves 64-bit programs only, as CUDA does: use a \
                   64-bit build of it";
        return fail(UNFIT, format!("{show} {why}"));
    }
    let u16_at = |i: usize| u16::from_le_bytes([head[i], head[i + 1]]);
    if u16_at(18) != 62 {
        let why = "is built for another processor than this build of Busbar: use its x86-64 build";
        return fail(UNFIT, format!("{show} {why}"));
    }
    match interpreter(&head) {
        Some(i) if i.contains("musl") => fail(
            UNFIT,
            format!(
                "{show} is linked against musl, and Busbar's libraries need glibc: use a glibc \
                 build of it (for Python, an image that is not Alpine)"
            ),
        ),
        Some(_) => Ok(None),
        None => Ok(Some(format!(
            "{show} is linked statically and can load no library, so it will see no accelerator \
             itself; programs that it starts may"
        ))),
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
        assert_eq!(check(Path::new("/proc/self/exe"), 0).unwrap(), None);
        elf[64] = 1;
        std::fs::write(dir.join("c"), &elf).unwrap();
        let note = check(&dir.join("c"), 0).unwrap();
        assert!(note.unwrap().contains("statically"));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
