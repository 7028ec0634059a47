//! Which launches may be submitted side by side.
//!
//! A driver takes some microseconds for a launch, on the thread that makes it. Threads of a program
//! that launch on streams of their own get several times as many through as one; records come in
//! one queue. So where launches on several streams follow each other with nothing else between,
//! each stream is given a lane, whose thread submits what the lane gets in its order. Whatever else
//! is queued comes after all lanes are empty: streams have no order between them but what such
//! records make.

/// Streams that have lanes at a time, at most.
const PLACES: usize = 64;
/// Launches in a row, on average, from which on lanes are used, and below which they are not.
const WORTH: u32 = 16;
const WORTHLESS: u32 = 8;
/// So long a row is looked at as a whole.
const LONG: u32 = 64;

/// A stream of a context, by their ids; stream 0 is the context's legacy default stream.
type Place = (u32, u32);

/// Where a launch is submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// By the executor. All lanes are empty.
    Here,
    /// In a lane.
    Lane(usize),
    /// In a lane, once all lanes are empty.
    Anew(usize),
}

/// See the module.
pub struct Abreast {
    lanes: usize,
    /// Streams that have launched since all lanes were last empty: the lane is their place here.
    places: Vec<Place>,
    last: Place,
    /// Launches since the last record of another kind, or the last look.
    row: u32,
    /// Whether they are on more than one stream.
    several: bool,
    /// How long rows on several streams are on average, times eight.
    mean: u32,
    used: bool,
}

impl Abreast {
    /// With so many lanes; fewer than two are none.
    pub fn new(lanes: usize) -> Self {
        Self {
            lanes,
            places: Vec::new(),
            last: (0, 0),
            row: 0,
            several: false,
            mean: 0,
            used: false,
        }
    }

    /// Whether another kind of record has anything to end.
    #[inline]
    pub fn in_row(&self) -> bool {
        self.row != 0
    }

    /// A launch is next. `may` says whether it could go to a lane.
    #[inline]
    pub fn launch(&mut self, place: Place, may: bool) -> Way {
        self.several |= place != self.last && self.row != 0;
        self.last = place;
        self.row += 1;
        if self.row == LONG {
            self.look();
            (self.row, self.several) = (1, false);
        }
        if self.used && may {
            self.lane(place)
        } else {
            Way::Here
        }
    }

    fn lane(&mut self, place: Place) -> Way {
        if let Some(at) = self.places.iter().position(|p| *p == place) {
            return Way::Lane(at % self.lanes);
        }
        // The legacy stream has an order with others of its context.
        let tied = |p: &Place| p.0 == place.0 && (p.1 == 0) != (place.1 == 0);
        if self.places.len() == PLACES || self.places.iter().any(tied) {
            self.end_row();
            (self.row, self.last) = (1, place);
            self.places.push(place);
            return Way::Anew(0);
        }
        self.places.push(place);
        Way::Lane((self.places.len() - 1) % self.lanes)
    }

    /// Something else is next, and all lanes are empty.
    pub fn end_row(&mut self) {
        self.places.clear();
        if self.row == 0 {
            return;
        }
        self.look();
        (self.row, self.several) = (0, false);
        self.used = self.lanes > 1 && self.mean / 8 >= if self.used { WORTHLESS } else { WORTH };
    }

    /// Counts a row. Lanes that are used may hold launches: that they are used no more, only
    /// another record decides.
    fn look(&mut self) {
        let found = if self.several { self.row } else { 0 };
        self.mean = self.mean - self.mean / 8 + found;
        self.used |= self.lanes > 1 && self.mean / 8 >= WORTH;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(a: &mut Abreast, place: Place) -> Way {
        a.launch(place, true)
    }

    /// Has lanes used.
    fn used() -> Abreast {
        let mut a = Abreast::new(3);
        for i in 0..2000 {
            launch(&mut a, (1, 1 + i % 4));
        }
        a.end_row();
        a
    }

    #[test]
    fn one_stream_is_submitted_here() {
        let mut a = Abreast::new(3);
        for _ in 0..1000 {
            assert_eq!(launch(&mut a, (1, 7)), Way::Here);
        }
    }

    #[test]
    fn a_stream_keeps_its_lane_until_something_else_comes() {
        let mut a = used();
        let ways: Vec<_> = (1..=5).map(|s| launch(&mut a, (1, s))).collect();
        assert_eq!(ways, [0, 1, 2, 0, 1].map(Way::Lane));
        for (stream, lane) in [(4, 0), (2, 1), (1, 0), (5, 1), (3, 2)] {
            assert_eq!(launch(&mut a, (1, stream)), Way::Lane(lane));
        }
        a.end_row();
        assert_eq!(launch(&mut a, (1, 3)), Way::Lane(0), "whoever is first");
    }

    #[test]
    fn the_legacy_stream_waits_for_others_of_its_context_and_they_for_it() {
        let mut a = used();
        assert_eq!(launch(&mut a, (1, 5)), Way::Lane(0));
        assert_eq!(launch(&mut a, (2, 0)), Way::Lane(1), "another context's");
        assert_eq!(launch(&mut a, (1, 0)), Way::Anew(0));
        assert_eq!(launch(&mut a, (1, 0)), Way::Lane(0));
        assert_eq!(launch(&mut a, (3, 0)), Way::Lane(1));
        assert_eq!(launch(&mut a, (1, 5)), Way::Anew(0));
    }

    #[test]
    fn short_rows_are_not_worth_it() {
        let mut a = Abreast::new(3);
        for _ in 0..1000 {
            for stream in 1..=3 {
                assert_eq!(launch(&mut a, (1, stream)), Way::Here);
            }
            a.end_row();
        }
        let mut a = used();
        let mut here = 0;
        for _ in 0..1000 {
            for stream in 1..=3 {
                here += u32::from(launch(&mut a, (1, stream)) == Way::Here);
            }
            a.end_row();
        }
        assert!(here > 2800, "lanes are left soon: {here}");
    }

    #[test]
    fn lanes_are_left_between_rows_alone() {
        let mut a = used();
        assert_eq!(launch(&mut a, (1, 1)), Way::Lane(0));
        // One stream for long: what the lane holds must not be overtaken.
        for _ in 0..10_000 {
            assert_eq!(launch(&mut a, (1, 1)), Way::Lane(0));
        }
        a.end_row();
        assert_eq!(launch(&mut a, (1, 1)), Way::Here);
    }

    #[test]
    fn there_are_so_many_places_and_no_more() {
        let mut a = used();
        for stream in 1..=PLACES as u32 {
            assert!(matches!(launch(&mut a, (1, stream)), Way::Lane(_)));
        }
        assert_eq!(launch(&mut a, (1, 1000)), Way::Anew(0));
        assert_eq!(launch(&mut a, (1, 1)), Way::Lane(1));
    }

    #[test]
    fn without_lanes_or_leave_all_is_submitted_here() {
        for (lanes, may) in [(0, true), (1, true), (4, false)] {
            let mut a = Abreast::new(lanes);
            for i in 0..10_000 {
                assert_eq!(a.launch((1, i % 3), may), Way::Here);
            }
        }
    }
}
