//! What programs advise about managed memory: for each page on its own.

use crate::ffi::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

const PAGE: u64 = 4096;
const LOCATION_HOST: i32 = 2;
const CPU: i32 = -1;
const NOWHERE: i32 = -2;

/// The attribute that is a list.
pub const ACCESSED_BY: i32 = 3;

#[derive(Clone, Default)]
struct Advice {
    mostly: bool,
    preferred: Option<(i32, i32)>,
    accessed: BTreeSet<i32>,
    prefetched: Option<(i32, i32)>,
}

/// By the page's number.
static ADVICE: Mutex<BTreeMap<u64, Advice>> = Mutex::new(BTreeMap::new());

/// Forgets all advice.
pub fn reset() {
    ADVICE.lock().unwrap().clear();
}

/// A device, or the host.
pub fn place(device: i32) -> Location {
    match device {
        CPU => Location {
            kind: LOCATION_HOST,
            id: 0,
        },
        id => Location {
            kind: LOCATION_DEVICE,
            id,
        },
    }
}

fn ordinal((kind, id): (i32, i32)) -> i32 {
    if kind == LOCATION_DEVICE { id } else { CPU }
}

fn pages((address, size): (u64, usize)) -> std::ops::Range<u64> {
    address / PAGE..(address + size as u64).div_ceil(PAGE)
}

fn change(range: (u64, usize), f: impl Fn(&mut Advice)) {
    let mut all = ADVICE.lock().unwrap();
    pages(range).for_each(|page| f(all.entry(page).or_default()));
}

/// Advice for a range.
pub fn advise(range: (u64, usize), advice: i32, place: Location) -> Res {
    let at = (place.kind, place.id);
    match advice {
        1 | 2 => change(range, |a| a.mostly = advice == 1),
        3 => change(range, |a| a.preferred = Some(at)),
        4 => change(range, |a| a.preferred = None),
        5 => change(range, |a| _ = a.accessed.insert(ordinal(at))),
        6 => change(range, |a| _ = a.accessed.remove(&ordinal(at))),
        _ => return Err(INVALID_VALUE),
    }
    Ok(())
}

/// A range is to be there.
pub fn prefetched(range: (u64, usize), place: Location) {
    change(range, |a| a.prefetched = Some((place.kind, place.id)));
}

/// A range's memory is gone.
pub fn forget(range: (u64, usize)) {
    let pages = pages(range);
    ADVICE
        .lock()
        .unwrap()
        .retain(|page, _| !pages.contains(page));
}

/// An attribute of a range: what holds for all of its pages.
pub fn attribute(which: i32, room: usize, range: (u64, usize)) -> R<Vec<i32>> {
    let known = ADVICE.lock().unwrap();
    let of = |page| known.get(&page).cloned().unwrap_or_default();
    let all: Vec<Advice> = pages(range).map(of).collect();
    let same = |f: fn(&Advice) -> Option<(i32, i32)>| {
        let first = f(&all[0])?;
        all.iter().all(|a| f(a) == Some(first)).then_some(first)
    };
    let (preferred, prefetched) = (same(|a| a.preferred), same(|a| a.prefetched));
    let kind = |at: Option<(i32, i32)>| at.map_or(0, |(kind, _)| kind);
    let id = |at: Option<(i32, i32)>| at.map_or(0, |(_, id)| id);
    Ok(vec![match which {
        1 => all.iter().all(|a| a.mostly).into(),
        2 => preferred.map_or(NOWHERE, ordinal),
        ACCESSED_BY => {
            let mut who = all[0].accessed.clone();
            who.retain(|d| all.iter().all(|a| a.accessed.contains(d)));
            let mut who: Vec<i32> = who.into_iter().collect();
            who.resize(room, NOWHERE);
            return Ok(who);
        }
        4 => prefetched.map_or(NOWHERE, ordinal),
        5 => kind(preferred),
        6 => id(preferred),
        7 => kind(prefetched),
        8 => id(prefetched),
        _ => return Err(INVALID_VALUE),
    }])
}
