//! How a program finds Busbar's OpenCL driver.
//!
//! A loader, `libOpenCL.so.1`, loads the drivers that a folder names, and `OCL_ICD_VENDORS` names
//! the folder. A machine may lack a loader, and one that is older, or a vendor's own, may not know
//! the variable. There the driver itself is the loader: it exports the same functions, and a file
//! called `libOpenCL.so.1` that holds nothing but the versions of their names leads to it.

use crate::beside::{self, Item};
use crate::stub;
use anyhow::Result;
use std::path::{Path, PathBuf};

const NAME: &str = "libOpenCL.so.1";
/// The variable that a loader must know.
const VARIABLE: &str = "OCL_ICD_VENDORS";
/// Versions that loaders give their symbols. A program that was linked with one of them asks for
/// its versions.
const VERSIONS: [&str; 8] = [
    "OPENCL_1.0",
    "OPENCL_1.1",
    "OPENCL_1.2",
    "OPENCL_2.0",
    "OPENCL_2.1",
    "OPENCL_2.2",
    "OPENCL_3.0",
    "OPENCL_3.1",
];

/// The loader that a program gets.
#[derive(Debug, PartialEq, Eq)]
pub enum Loader {
    /// The machine's; it can be told where Busbar's driver is.
    Machine(PathBuf),
    /// Busbar's own: the machine's cannot be told.
    InsteadOf(PathBuf),
    /// Busbar's own: the machine has none.
    None,
}

impl Loader {
    /// Which it is, when programs look into `dirs` first.
    pub fn find(dirs: &[PathBuf]) -> Self {
        let cache = std::fs::read("/etc/ld.so.cache").unwrap_or_default();
        let usual = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"].map(PathBuf::from);
        let first = dirs.iter().map(|d| d.join(NAME));
        let last = usual.iter().map(|d| d.join(NAME));
        let found = first
            .chain(cached(&cache, NAME))
            .chain(last)
            .find(|p| p.exists());
        match found {
            None => Self::None,
            Some(p) if knows_the_variable(&p) => Self::Machine(p),
            Some(p) => Self::InsteadOf(p),
        }
    }

    /// For people.
    pub fn describe(&self) -> String {
        match self {
            Self::Machine(p) => format!("programs load Busbar's driver through {}", p.display()),
            Self::InsteadOf(p) => format!(
                "programs get Busbar's own {NAME}: {} does not know {VARIABLE}",
                p.display()
            ),
            Self::None => format!("programs get Busbar's own {NAME}: this machine has none"),
        }
    }
}

/// A loader that looks the variable up has its name among its data.
fn knows_the_variable(loader: &Path) -> bool {
    holds(loader, VARIABLE)
}

/// Whether a folder's loader is one that [`loader`] wrote.
pub fn holds_ours(dir: &Path) -> bool {
    holds(&dir.join(NAME), "/libbusbar_opencl.so\0")
}

fn holds(file: &Path, text: &str) -> bool {
    let text = text.as_bytes();
    std::fs::read(file).is_ok_and(|f| f.windows(text.len()).any(|w| w == text))
}

/// The files that the dynamic loader's cache gives for a name, for 64-bit x86 programs.
fn cached(cache: &[u8], name: &str) -> Vec<PathBuf> {
    const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
    const HEADER: usize = 48;
    const ENTRY: usize = 24;
    /// A library of glibc's, for x86-64.
    const KIND: u32 = 0x0303;
    let Some(start) = cache.windows(MAGIC.len()).position(|w| w == MAGIC) else {
        return Vec::new();
    };
    let cache = &cache[start..];
    let word =
        |at: usize| -> Option<u32> { Some(u32::from_le_bytes(*cache.get(at..)?.first_chunk()?)) };
    let text = |at: u32| -> Option<&str> {
        let rest = cache.get(at as usize..)?;
        std::str::from_utf8(rest.split(|b| *b == 0).next()?).ok()
    };
    let count = word(MAGIC.len()).unwrap_or(0) as usize;
    (0..count)
        .map_while(|i| {
            let at = HEADER + i * ENTRY;
            Some((word(at)?, word(at + 4)?, word(at + 8)?))
        })
        .filter(|(kind, key, _)| *kind == KIND && text(*key) == Some(name))
        .filter_map(|(.., value)| text(value).map(PathBuf::from))
        .collect()
}

/// A folder with an ICD file for the driver, as loaders want it: some, CUDA's among them, put its
/// path and a file's name together as they are, so it ends in a slash.
pub fn vendors(driver: &Path) -> Result<PathBuf> {
    let text = Item::File(format!("{}\n", driver.display()).into());
    Ok(beside::folder(driver, "vendors", &[("busbar.icd", text)])?.join(""))
}

/// A folder with a `libOpenCL.so.1` that leads to the driver.
pub fn loader(driver: &Path) -> Result<PathBuf> {
    // A symbol without a version, as the driver has them, serves every version.
    let stub = stub::library(NAME, &VERSIONS, &driver.to_string_lossy());
    // Programs that load it themselves often ask for it without its number.
    let items = [
        (NAME, Item::File(stub)),
        ("libOpenCL.so", Item::Link(NAME.into())),
    ];
    beside::folder(driver, "loader", &items)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_gives_a_librarys_files() {
        let mut cache = b"some older format....glibc-ld.so.cache1.1".to_vec();
        let start = 21;
        let strings = b"libOpenCL.so.1\0/a/libOpenCL.so.1\0libz.so.1\0/a/libz.so.1\0";
        let entries = [(0x0303u32, 0u32, 15u32), (0x0003, 0, 15), (0x0303, 33, 43)];
        cache.extend((entries.len() as u32).to_le_bytes());
        cache.resize(start + 48, 0);
        let base = 48 + 24 * entries.len() as u32;
        for (kind, key, value) in entries {
            for w in [kind, base + key, base + value, 0, 0, 0] {
                cache.extend(w.to_le_bytes());
            }
        }
        cache.extend(strings);
        let found = |name| cached(&cache, name);
        assert_eq!(
            found("libOpenCL.so.1"),
            [PathBuf::from("/a/libOpenCL.so.1")]
        );
        assert_eq!(found("libz.so.1"), [PathBuf::from("/a/libz.so.1")]);
        assert!(found("libcuda.so.1").is_empty());
        for n in 0..cache.len() {
            cached(&cache[..n], "libz.so.1"); // cut short, it is no reason to crash
        }
    }

    #[test]
    fn a_loader_that_knows_the_variable_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(NAME);
        let dirs = [dir.path().to_path_buf()];
        std::fs::write(&file, b"\x7fELF OCL_ICD_VENDORS\0").unwrap();
        assert_eq!(Loader::find(&dirs), Loader::Machine(file.clone()));
        std::fs::write(&file, b"\x7fELF /etc/OpenCL/vendors\0").unwrap();
        assert_eq!(Loader::find(&dirs), Loader::InsteadOf(file));
    }
}
