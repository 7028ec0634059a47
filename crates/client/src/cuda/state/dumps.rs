//! What a program has set of core dumps, for a context or for all.
//!
//! A context has what was set for all when it was made. Some settings are flags under names of
//! their own.

use super::prelude::*;

/// The longest name of a file, with its end.
const LONGEST: usize = 1024;
/// For all contexts that are made from now on.
pub const ALL: Of = Of {
    context: 0,
    serial: u64::MAX,
};

/// Whose settings: a context's, by its id, and the number of all that were made before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Of {
    /// Its id.
    pub context: u32,
    /// See there.
    pub serial: u64,
}

/// What is set.
#[derive(Debug, Clone, Default)]
struct Values {
    flags: CUCoredumpGenerationFlags,
    file: Vec<u8>,
    pipe: Vec<u8>,
}

#[derive(Debug, Default)]
struct Inner {
    /// What contexts have that were made from this number on, the newest last.
    all: Vec<(u64, Values)>,
    /// What those have for which something was set.
    own: BTreeMap<u32, Values>,
}

impl Inner {
    fn values(&self, of: Of) -> Values {
        let made = |(since, _): &&(u64, Values)| *since <= of.serial;
        let then = self.all.iter().rev().find(made).map(|(_, v)| v);
        let own = self.own.get(&of.context);
        own.or(then).cloned().unwrap_or_default()
    }
}

/// What is set for each context, and for all.
#[derive(Debug, Default)]
pub struct Settings(Mutex<Inner>);

impl Settings {
    /// Whether it is a text, which may be shorter than there is room.
    pub fn is_text(name: CUcoredumpSettings) -> bool {
        matches!(name, CU_COREDUMP_FILE | CU_COREDUMP_PIPE)
    }

    /// How many bytes a setting takes, or at most, where `of` has it.
    pub fn size(of: Of, name: CUcoredumpSettings) -> Result<usize> {
        match name {
            // They are about the process.
            CU_COREDUMP_ENABLE_USER_TRIGGER | CU_COREDUMP_PIPE if of != ALL => {
                Err(CUDA_ERROR_INVALID_VALUE)
            }
            CU_COREDUMP_ENABLE_ON_EXCEPTION
            | CU_COREDUMP_TRIGGER_HOST
            | CU_COREDUMP_LIGHTWEIGHT
            | CU_COREDUMP_ENABLE_USER_TRIGGER => Ok(1),
            CU_COREDUMP_FILE | CU_COREDUMP_PIPE => Ok(LONGEST),
            CU_COREDUMP_GENERATION_FLAGS => Ok(4),
            _ => Err(CUDA_ERROR_INVALID_VALUE),
        }
    }

    /// A setting's bytes; a text without its end.
    pub fn get(&self, of: Of, name: CUcoredumpSettings) -> Result<Vec<u8>> {
        Self::size(of, name)?;
        let v = lock(&self.0).values(of);
        let has = |flags| v.flags & flags == flags;
        Ok(match name {
            CU_COREDUMP_FILE => v.file,
            CU_COREDUMP_PIPE => v.pipe,
            CU_COREDUMP_GENERATION_FLAGS => v.flags.to_le_bytes().to_vec(),
            CU_COREDUMP_TRIGGER_HOST => vec![u8::from(!has(CU_COREDUMP_SKIP_ABORT))],
            CU_COREDUMP_LIGHTWEIGHT => vec![u8::from(has(CU_COREDUMP_LIGHTWEIGHT_FLAGS))],
            // Nothing of that can be begun.
            _ => vec![0],
        })
    }

    /// Sets one; a text may end before `value` does. What is set for all, contexts have that are
    /// made from now on, whose numbers are `next` and more.
    pub fn set(&self, of: Of, name: CUcoredumpSettings, value: &[u8], next: u64) {
        let mut inner = lock(&self.0);
        let mut v = inner.values(of);
        let text = || value.split(|b| *b == 0).next().unwrap_or_default().to_vec();
        let on = value.iter().any(|b| *b != 0);
        let mut flag = |flags: CUCoredumpGenerationFlags, on| match on {
            true => v.flags |= flags,
            false => v.flags &= !flags,
        };
        match name {
            CU_COREDUMP_TRIGGER_HOST => flag(CU_COREDUMP_SKIP_ABORT, !on),
            CU_COREDUMP_LIGHTWEIGHT => flag(CU_COREDUMP_LIGHTWEIGHT_FLAGS, on),
            CU_COREDUMP_FILE => v.file = text(),
            CU_COREDUMP_PIPE => v.pipe = text(),
            CU_COREDUMP_GENERATION_FLAGS => {
                v.flags = value.first_chunk().map_or(0, |b| u32::from_le_bytes(*b));
            }
            _ => {}
        }
        if of != ALL {
            inner.own.insert(of.context, v);
            return;
        }
        inner.all.retain(|(since, _)| *since != next);
        inner.all.push((next, v));
    }

    /// A context is gone.
    pub fn forget(&self, context: u32) {
        lock(&self.0).own.remove(&context);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_has_what_was_set_for_all_before_it_was_there() {
        let s = Settings::default();
        let of = |context, serial| Of { context, serial };
        let (first, second, third) = (of(1, 1), of(2, 2), of(3, 3));
        let get = |of, name| s.get(of, name).expect("it is known");
        assert_eq!(get(first, CU_COREDUMP_FILE), b"");
        assert_eq!(get(ALL, CU_COREDUMP_TRIGGER_HOST), [1]);
        s.set(ALL, CU_COREDUMP_FILE, b"lost", 2);
        s.set(ALL, CU_COREDUMP_FILE, b"all", 2);
        assert_eq!(get(first, CU_COREDUMP_FILE), b"", "it was there before");
        assert_eq!(get(second, CU_COREDUMP_FILE), b"all");
        s.set(ALL, CU_COREDUMP_FILE, b"new\0", 3);
        assert_eq!(get(second, CU_COREDUMP_FILE), b"all");
        s.set(second, CU_COREDUMP_FILE, b"two\0more", 3);
        assert_eq!(get(second, CU_COREDUMP_FILE), b"two");
        assert_eq!(get(third, CU_COREDUMP_FILE), b"new");
        assert_eq!(get(ALL, CU_COREDUMP_FILE), b"new");
        s.forget(2);
        assert_eq!(
            get(of(2, 7), CU_COREDUMP_FILE),
            b"new",
            "another one of its id"
        );
        for unknown in [0, CU_COREDUMP_MAX, 99] {
            assert_eq!(s.get(first, unknown), Err(CUDA_ERROR_INVALID_VALUE));
        }
        assert_eq!(
            s.get(first, CU_COREDUMP_PIPE),
            Err(CUDA_ERROR_INVALID_VALUE)
        );
    }

    #[test]
    fn settings_with_names_of_their_own_are_flags() {
        let s = Settings::default();
        let get = |name| s.get(ALL, name).expect("it is known");
        s.set(ALL, CU_COREDUMP_TRIGGER_HOST, &[0], 1);
        assert_eq!(get(CU_COREDUMP_GENERATION_FLAGS), [16, 0, 0, 0]);
        s.set(ALL, CU_COREDUMP_LIGHTWEIGHT, &[1], 1);
        assert_eq!(get(CU_COREDUMP_LIGHTWEIGHT), [1]);
        assert_eq!(get(CU_COREDUMP_TRIGGER_HOST), [0]);
        s.set(ALL, CU_COREDUMP_GENERATION_FLAGS, &[1, 0, 0, 0], 1);
        assert_eq!(get(CU_COREDUMP_LIGHTWEIGHT), [0]);
        assert_eq!(get(CU_COREDUMP_TRIGGER_HOST), [1]);
    }
}
