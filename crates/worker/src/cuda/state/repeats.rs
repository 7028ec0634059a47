//! What the client names by the place that it is kept in: parameters of launches, and bytes that
//! are copied to devices.

use super::mirrors::Room;
use busbar_wire::WireError;
use busbar_wire::generated::cuda::contract::{
    COPY_BYTES, COPY_MOST, COPY_PLACES, KEPT_BYTES, KEPT_MOST, KEPT_PLACES,
};
use std::collections::HashMap;
use std::sync::Arc;

const PLACE: WireError = WireError::BadValue("place of what is kept");
const BYTES: WireError = WireError::BadValue("bytes of what is kept");
const CHANGES: WireError = WireError::BadValue("changes of what is kept");

/// Parameters of launches.
#[derive(Default)]
pub struct Parameters {
    /// By place; where there is nothing they are empty.
    all: Vec<Box<[u8]>>,
    bytes: usize,
}

impl Parameters {
    /// Keeps them, in the stead of what was there.
    pub fn put(&mut self, place: u32, params: &[u8]) -> Result<(), WireError> {
        if place >= KEPT_PLACES || params.len() > KEPT_BYTES as usize {
            return Err(PLACE);
        }
        let place = place as usize;
        let before = self.all.get(place).map_or(0, |p| p.len());
        let bytes = self.bytes - before + params.len();
        if bytes > KEPT_MOST as usize {
            return Err(BYTES);
        }
        if place >= self.all.len() {
            self.all.resize_with(place + 1, Box::default);
        }
        self.all[place] = params.into();
        self.bytes = bytes;
        Ok(())
    }

    /// Takes them out for the length of a launch.
    pub fn take(&mut self, place: u32) -> Result<Box<[u8]>, WireError> {
        let kept = self.all.get_mut(place as usize).map(std::mem::take);
        kept.filter(|p| !p.is_empty()).ok_or(PLACE)
    }

    /// Puts them back.
    pub fn put_back(&mut self, place: u32, params: Box<[u8]>) {
        self.all[place as usize] = params;
    }
}

/// Changes words of parameters, as `LaunchChanged` says them; all or none.
pub fn change(params: &mut [u8], changes: &[u8]) -> Result<(), WireError> {
    let (each, rest) = changes.as_chunks::<6>();
    let (words, _) = params.as_chunks_mut::<4>();
    let place = |c: &[u8; 6]| usize::from(u16::from_le_bytes([c[0], c[1]]));
    if !rest.is_empty() || each.iter().any(|c| place(c) >= words.len()) {
        return Err(CHANGES);
    }
    for c in each {
        words[place(c)].copy_from_slice(&c[2..]);
    }
    Ok(())
}

/// Bytes in page-locked memory, of which any number of copies may still read, and how many.
pub type Bytes = (Arc<Room>, usize);

/// Bytes that are copied.
#[derive(Default)]
pub struct Copies {
    all: HashMap<u32, Bytes>,
    bytes: usize,
}

impl Copies {
    /// There are to be so many bytes in a place: what was there goes.
    pub fn clear(&mut self, place: u32, len: usize) -> Result<(), WireError> {
        if place >= COPY_PLACES || len > COPY_BYTES as usize {
            return Err(PLACE);
        }
        self.bytes -= self.all.remove(&place).map_or(0, |(_, len)| len);
        match self.bytes + len > COPY_MOST as usize {
            true => Err(BYTES),
            false => Ok(()),
        }
    }

    /// They are there.
    pub fn put(&mut self, place: u32, bytes: Bytes) {
        self.bytes += bytes.1;
        self.all.insert(place, bytes);
    }

    /// What is in a place; nothing where there was no memory for it.
    pub fn get(&self, place: u32) -> Result<Option<Bytes>, WireError> {
        match place < COPY_PLACES {
            true => Ok(self.all.get(&place).cloned()),
            false => Err(PLACE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_kept_than_may_be() {
        let mut p = Parameters::default();
        let long = vec![1; KEPT_BYTES as usize];
        let fit = KEPT_MOST / KEPT_BYTES;
        for place in 0..fit {
            p.put(place, &long).expect("there is room");
        }
        assert_eq!(p.put(fit, &[0]), Err(BYTES));
        p.put(0, &[7]).expect("in the stead of more");
        p.put(fit, &[0]).expect("there is room again");
        assert_eq!(p.put(KEPT_PLACES, &[0]), Err(PLACE));
        assert_eq!(p.put(0, &[0; KEPT_BYTES as usize + 1]), Err(PLACE));
    }

    #[test]
    fn words_change_all_or_none_and_only_where_there_are_some() {
        let mut params = [0, 1, 2, 3, 4, 5, 6, 7, 8];
        let before = params;
        for bad in [
            &[0; 5][..],
            &[0; 7],
            &[2, 0, 9, 9, 9, 9],
            &[0, 0, 9, 9, 9, 9, 2, 0, 9, 9, 9, 9],
        ] {
            assert_eq!(change(&mut params, bad), Err(CHANGES));
            assert_eq!(params, before);
        }
        change(&mut params, &[]).expect("nothing changes");
        assert_eq!(params, before);
        let both = [1, 0, 11, 12, 13, 14, 0, 0, 21, 22, 23, 24];
        change(&mut params, &both).expect("two words");
        assert_eq!(params, [21, 22, 23, 24, 11, 12, 13, 14, 8]);
    }

    #[test]
    fn what_was_never_kept_is_not_there() {
        let mut p = Parameters::default();
        p.put(3, &[5, 6]).expect("there is room");
        assert_eq!(p.take(4), Err(PLACE));
        let taken = p.take(3).expect("it is kept");
        assert_eq!(*taken, [5, 6]);
        p.put_back(3, taken);
        assert_eq!(*p.take(3).expect("it is there still"), [5, 6]);
        let c = Copies::default();
        assert!(c.get(0).is_ok_and(|b| b.is_none()));
        assert!(c.get(COPY_PLACES).is_err());
    }
}
