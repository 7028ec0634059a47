//! What a program has set of core dumps, for a context or for all.

use super::prelude::*;

/// The longest name of a file, with its end.
const LONGEST: usize = 1024;
/// For all contexts that have nothing of their own: no context's number.
pub const ALL: u32 = 0;

/// Values by context and name.
#[derive(Debug, Default)]
pub struct Settings(Mutex<BTreeMap<(u32, CUcoredumpSettings), Vec<u8>>>);

impl Settings {
    /// Whether it is a text, which may be shorter than there is room.
    pub fn is_text(name: CUcoredumpSettings) -> bool {
        matches!(name, CU_COREDUMP_FILE | CU_COREDUMP_PIPE)
    }

    /// How many bytes it takes, or at most.
    pub fn size(name: CUcoredumpSettings) -> Result<usize> {
        match name {
            CU_COREDUMP_ENABLE_ON_EXCEPTION
            | CU_COREDUMP_TRIGGER_HOST
            | CU_COREDUMP_LIGHTWEIGHT
            | CU_COREDUMP_ENABLE_USER_TRIGGER => Ok(1),
            CU_COREDUMP_FILE | CU_COREDUMP_PIPE => Ok(LONGEST),
            CU_COREDUMP_GENERATION_FLAGS => Ok(4),
            _ => Err(CUDA_ERROR_INVALID_VALUE),
        }
    }

    /// The value that a context has: its own, that of all, or the one that a driver begins with.
    pub fn get(&self, context: u32, name: CUcoredumpSettings) -> Result<Vec<u8>> {
        let most = Self::size(name)?;
        let all = lock(&self.0);
        let set = all.get(&(context, name)).or(all.get(&(ALL, name)));
        Ok(set.cloned().unwrap_or_else(|| match name {
            CU_COREDUMP_TRIGGER_HOST => vec![1],
            _ if Self::is_text(name) => vec![0],
            _ => vec![0; most],
        }))
    }

    /// Sets one. A text ends where it says, or where it is over.
    pub fn set(&self, context: u32, name: CUcoredumpSettings, value: &[u8]) {
        let mut value = value.to_vec();
        if Self::is_text(name) {
            let end = value.iter().position(|b| *b == 0);
            value.truncate(end.unwrap_or(value.len()));
            value.push(0);
        }
        lock(&self.0).insert((context, name), value);
    }

    /// A context is gone.
    pub fn forget(&self, context: u32) {
        lock(&self.0).retain(|(of, _), _| *of != context || *of == ALL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_has_what_is_set_for_it_or_for_all_or_what_a_driver_begins_with() {
        let s = Settings::default();
        let get = |context, name| s.get(context, name).expect("it is known");
        assert_eq!(get(1, CU_COREDUMP_FILE), [0]);
        assert_eq!(get(ALL, CU_COREDUMP_TRIGGER_HOST), [1]);
        assert_eq!(get(1, CU_COREDUMP_GENERATION_FLAGS), [0; 4]);
        s.set(ALL, CU_COREDUMP_FILE, b"all");
        s.set(1, CU_COREDUMP_FILE, b"one\0more");
        assert_eq!(get(1, CU_COREDUMP_FILE), b"one\0");
        assert_eq!(get(2, CU_COREDUMP_FILE), b"all\0");
        s.forget(1);
        assert_eq!(get(1, CU_COREDUMP_FILE), b"all\0");
        for unknown in [0, CU_COREDUMP_MAX, 99] {
            assert_eq!(s.get(1, unknown), Err(CUDA_ERROR_INVALID_VALUE));
        }
    }
}
