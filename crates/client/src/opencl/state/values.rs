//! Values as the bytes of an answer, and tables of answers.
#![forbid(unsafe_code)]

use super::prelude::*;
use busbar_abi::opencl::Handle;
use busbar_wire::{Reader, WireError};

/// Values as their bytes.
pub trait Plain {
    /// The bytes, as C would lay them out.
    fn plain(&self) -> Vec<u8>;
}

macro_rules! plain {
    ($($t:ty),*) => {$(
        impl Plain for $t {
            fn plain(&self) -> Vec<u8> {
                self.to_ne_bytes().to_vec()
            }
        }
    )*};
}

plain!(u8, u32, i32, u64, usize);

impl Plain for bool {
    fn plain(&self) -> Vec<u8> {
        u32::from(*self).plain()
    }
}

impl Plain for Handle {
    fn plain(&self) -> Vec<u8> {
        (*self as usize).plain()
    }
}

impl Plain for str {
    fn plain(&self) -> Vec<u8> {
        [self.as_bytes(), &[0]].concat()
    }
}

impl<T: Plain> Plain for [T] {
    fn plain(&self) -> Vec<u8> {
        self.iter().flat_map(Plain::plain).collect()
    }
}

/// A number of up to 8 bytes.
pub fn number(bytes: &[u8]) -> u64 {
    let bytes = bytes.iter().take(8).rev();
    bytes.fold(0, |n, b| n << 8 | u64::from(*b))
}

/// Answers to queries, by parameter.
#[derive(Clone, Default)]
pub struct Table(pub HashMap<u32, Vec<u8>>);

impl Table {
    /// Reads a table of answers.
    pub fn read(r: &mut Reader<'_>) -> std::result::Result<Self, WireError> {
        let n = r.count(4096, 8)?;
        let list = (0..n).map(|_| Ok((r.u32()?, r.bytes()?.to_vec())));
        list.collect::<std::result::Result<_, WireError>>()
            .map(Self)
    }

    /// An answer.
    pub fn get(&self, param: u32) -> Option<&[u8]> {
        self.0.get(&param).map(Vec::as_slice)
    }

    /// A number among the answers; 0 when there is none.
    pub fn number(&self, param: u32) -> u64 {
        number(self.get(param).unwrap_or_default())
    }

    /// A list of sizes.
    pub fn sizes(&self, param: u32) -> Vec<u64> {
        let bytes = self.get(param).unwrap_or_default();
        bytes.chunks_exact(8).map(number).collect()
    }

    /// A text, without its end.
    pub fn text(&self, param: u32) -> String {
        let text = String::from_utf8_lossy(self.get(param).unwrap_or_default());
        text.trim_end_matches('\0').into()
    }

    /// Sets an answer.
    pub fn set(&mut self, param: u32, value: Vec<u8>) {
        self.0.insert(param, value);
    }
}

/// Answers that are asked for when they are first needed, and kept.
#[derive(Default)]
pub struct Asked(Mutex<HashMap<u32, Result<Vec<u8>>>>);

impl Asked {
    /// The answer, from `f` the first time. An answer of `lost` is none.
    pub fn get(
        &self,
        param: u32,
        lost: i32,
        f: impl FnOnce() -> Result<Vec<u8>>,
    ) -> Result<Vec<u8>> {
        if let Some(v) = lock(&self.0).get(&param) {
            return v.clone();
        }
        let v = f();
        if v != Err(lost) {
            lock(&self.0).insert(param, v.clone());
        }
        v
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_reads_numbers_of_any_length_texts_and_lists() {
        let mut t = Table::default();
        t.set(1, 7u32.plain());
        t.set(2, "a b".plain());
        t.set(3, [1u64, 2].plain());
        assert_eq!((t.number(1), t.number(9)), (7, 0));
        assert_eq!((t.text(2).as_str(), t.text(9).as_str()), ("a b", ""));
        assert_eq!(t.sizes(3), [1, 2]);
    }

    #[test]
    fn an_answer_is_asked_for_once_unless_the_session_was_lost() {
        let asked = Asked::default();
        assert_eq!(asked.get(1, -2, || Err(-2)), Err(-2));
        assert_eq!(asked.get(1, -2, || Err(-30)), Err(-30));
        assert_eq!(asked.get(1, -2, || unreachable!()), Err(-30));
    }
}
