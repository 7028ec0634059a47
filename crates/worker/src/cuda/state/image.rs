//! The program's memory as far as devices reach it from here: one file in memory, in which each
//! byte of the program's has its address for its offset. Pages exist once they are touched.
//!
//! What a kernel, a copy of a graph, or the program sees of it are views: several of them may
//! show the same bytes, as parts of the program's memory may overlap.

use super::prelude::*;
use crate::cuda::vacant;
use busbar_transport::shared::Segment;
use std::io;

/// Addresses of programs are below this.
const END: u64 = 1 << 57;
const PAGE: u64 = 4096;

#[derive(Debug, Default)]
struct State {
    file: Option<Segment>,
    /// What the views show: first address of the program's, and end.
    shown: Vec<(u64, u64)>,
}

/// The image. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Image {
    state: Arc<Mutex<State>>,
}

/// Part of the image, mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    /// Where it is.
    pub at: u64,
    /// The program's address of its first byte.
    pub origin: u64,
    /// Bytes.
    pub len: u64,
}

impl Image {
    /// Shows whole pages of the program's: at an address where nothing is yet, or anywhere.
    pub fn show(&self, at: Option<u64>, origin: u64, len: u64) -> io::Result<View> {
        let end = origin.checked_add(len).filter(|end| *end <= END);
        let whole = len > 0 && (origin | len).is_multiple_of(PAGE);
        let Some(end) = end.filter(|_| whole) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let mut state = lock(&self.state);
        if state.file.is_none() {
            state.file = Some(Segment::new(END)?);
        }
        let file = state.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let at = match at {
            Some(at) => {
                if !vacant::claim(at, len) {
                    return Err(io::ErrorKind::AlreadyExists.into());
                }
                // SAFETY: claimed, so that nothing is there.
                let mapped = unsafe { file.map_over(at, origin, len) };
                // SAFETY: as above.
                mapped.inspect_err(|_| unsafe { vacant::leave(at, len) })?;
                at
            }
            None => file.map_part_anywhere(origin, len)?,
        };
        state.shown.push((origin, end));
        Ok(View { at, origin, len })
    }

    /// Ends a view. Pages that no other shows go back to the system.
    ///
    /// # Safety
    /// Nobody uses it any more.
    pub unsafe fn hide(&self, v: View) {
        let mut state = lock(&self.state);
        let whole = (v.origin, v.origin + v.len);
        let Some(i) = state.shown.iter().position(|s| *s == whole) else {
            return;
        };
        state.shown.swap_remove(i);
        // SAFETY: passed on to the caller.
        unsafe { vacant::leave(v.at, v.len) };
        let mut left = vec![whole];
        for (from, to) in &state.shown {
            let around = |(a, b): (u64, u64)| [(a, b.min(*from)), (a.max(*to), b)];
            left = left.into_iter().flat_map(around).collect();
            left.retain(|(a, b)| a < b);
        }
        for (a, b) in left {
            state.file.iter().for_each(|f| f.clear(a, b - a));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(p: u64) -> *mut u64 {
        p as *mut u64
    }

    #[test]
    fn views_of_the_same_bytes_agree_and_the_last_one_takes_them_along() {
        let image = Image::default();
        let p = 0x7fff_1234_5000;
        let a = image.show(None, p, 3 * PAGE).unwrap();
        let b = image.show(None, p + 2 * PAGE, 2 * PAGE).unwrap();
        // SAFETY: views of that many bytes, which nobody else uses.
        unsafe {
            word(a.at + 2 * PAGE + 8).write_volatile(5);
            word(a.at).write_volatile(6);
            assert_eq!(word(b.at + 8).read_volatile(), 5);
            image.hide(a);
            assert_eq!(word(b.at + 8).read_volatile(), 5, "shown still");
            let a = image.show(None, p, 3 * PAGE).unwrap();
            assert_eq!(word(a.at).read_volatile(), 0, "shown by none");
            assert_eq!(word(a.at + 2 * PAGE + 8).read_volatile(), 5);
            image.hide(a);
            image.hide(b);
            let b = image.show(None, p + 2 * PAGE, 2 * PAGE).unwrap();
            assert_eq!(word(b.at + 8).read_volatile(), 0);
            image.hide(b);
        }
    }

    #[test]
    fn there_are_views_of_whole_pages_of_a_program_alone() {
        let image = Image::default();
        for (origin, len) in [
            (1, PAGE),
            (PAGE, 1),
            (PAGE, 0),
            (END, PAGE),
            (u64::MAX - 1, 2),
        ] {
            assert!(image.show(None, origin, len).is_err(), "{origin:#x} {len}");
        }
    }
}
