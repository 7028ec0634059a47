//! What built files need of the system that they run on, by what they say themselves.

use anyhow::{Context as _, Result, ensure};
use object::elf::{DT_NEEDED, FileHeader64};
use object::read::elf::{Dyn as _, FileHeader as _, SectionHeader as _};
use object::{Endianness, StringTable};
use std::collections::BTreeSet;
use std::fmt;

/// A version of glibc.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Version(pub u32, pub u32, u32);

impl Version {
    /// `2.28` or `2.2.5`.
    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split('.').map(|n| n.parse().ok());
        let version = Self(
            numbers.next()??,
            numbers.next()??,
            numbers.next().unwrap_or(Some(0))?,
        );
        numbers.next().is_none().then_some(version)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(major, minor, patch) = self;
        write!(f, "{major}.{minor}")?;
        match patch {
            0 => Ok(()),
            _ => write!(f, ".{patch}"),
        }
    }
}

/// What files need together.
#[derive(Debug, Default)]
pub struct Needs {
    /// The oldest glibc that they run with.
    pub glibc: Version,
    /// The shared libraries that they are linked with.
    pub libraries: BTreeSet<String>,
}

impl Needs {
    /// Adds what an ELF file needs.
    pub fn add(&mut self, file: &[u8]) -> Result<()> {
        let elf = FileHeader64::<Endianness>::parse(file).context("no 64-bit ELF file")?;
        let e = elf.endian()?;
        let sections = elf.sections(e, file)?;
        if let Some((entries, names)) = sections.dynamic(e, file)? {
            let strings = sections.strings(e, file, names)?;
            for d in entries.iter().filter(|d| d.d_tag(e) == DT_NEEDED) {
                self.libraries.insert(text(&strings, d.d_val(e) as u32)?);
            }
        }
        for section in sections.iter() {
            let Some((mut needed, names)) = section.gnu_verneed(e, file)? else {
                continue;
            };
            let strings = sections.strings(e, file, names)?;
            while let Some((_, mut versions)) = needed.next()? {
                while let Some(v) = versions.next()? {
                    let name = text(&strings, v.vna_name.get(e))?;
                    let version = name.strip_prefix("GLIBC_").and_then(Version::parse);
                    self.glibc = self.glibc.max(version.unwrap_or_default());
                }
            }
        }
        Ok(())
    }

    /// Fails if a newer glibc is needed than that.
    pub fn check(&self, most: &str) -> Result<()> {
        let most = Version::parse(most).with_context(|| format!("{most} is no version"))?;
        let needed = self.glibc;
        ensure!(
            needed <= most,
            "the tree needs glibc {needed}, but is to run with {most}"
        );
        Ok(())
    }

    /// The version that packages ask for: no older than 2.28, which all is tested with.
    pub fn least_glibc(&self) -> Version {
        self.glibc.max(Version(2, 28, 0))
    }

    /// Whether libgcc's library is needed, which the host's linker takes and zig does not.
    pub fn libgcc(&self) -> bool {
        self.libraries.contains("libgcc_s.so.1")
    }
}

fn text(strings: &StringTable<'_>, at: u32) -> Result<String> {
    let bytes = strings.get(at).ok().context("a name that is not there")?;
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_number() {
        let v = |t| Version::parse(t).unwrap();
        assert!(v("2.28") > v("2.4"));
        assert!(v("2.2.5") < v("2.3"));
        assert_eq!(v("2.2.5").to_string(), "2.2.5");
        for text in ["", "2", "2.", "2.x", "PRIVATE", "2.28.1.4"] {
            assert_eq!(Version::parse(text), None, "{text}");
        }
    }

    #[test]
    fn this_program_needs_a_c_library() {
        let file = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let mut needs = Needs::default();
        needs.add(&file).unwrap();
        assert!(needs.libraries.contains("libc.so.6"), "{needs:?}");
        assert!(needs.glibc >= Version(2, 2, 5), "{needs:?}");
        assert!(needs.check("2.2").is_err());
        needs.check("9.0").unwrap();
        assert!(needs.add(b"#!/bin/sh\n").is_err());
    }
}
