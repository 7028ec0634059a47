//! What was submitted and has no mark yet, and when it gets one.

use super::{Mark, Turn};
use busbar_transport::baton;

/// Whoever submits nothing for so long has paused: what it has submitted is marked then. A program
/// that is launched more slowly than it runs would have a mark behind each launch otherwise, which
/// costs more than the launch.
const PAUSE: u64 = 50_000;

/// Where work was submitted since the last mark: streams or queues, by device.
pub struct Unmarked<P> {
    places: Vec<(usize, P)>,
    /// When the last of it was, by the board's clock.
    last: u64,
}

impl<P> Default for Unmarked<P> {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            last: 0,
        }
    }
}

impl<P: PartialEq> Unmarked<P> {
    /// Work was submitted.
    pub fn add(&mut self, device: usize, place: P) {
        self.last = baton::now();
        if !self.places.iter().any(|(d, p)| *d == device && *p == place) {
            self.places.push((device, place));
        }
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether it is time for a mark: there is much of it, or its turn ends, or, with `leisure`, a
    /// program that has nothing queued has paused.
    pub fn is_due(&self, turn: &Turn, leisure: bool) -> bool {
        let much = || self.places.iter().any(|(device, _)| turn.is_due(*device));
        let paused = || leisure && baton::now().saturating_sub(self.last) >= PAUSE;
        !self.is_empty() && (turn.ends() || much() || paused())
    }

    /// All of it is marked: `put` has a mark live until the device has come so far in these places.
    pub fn mark(&mut self, turn: &Turn, mut put: impl FnMut(Vec<P>, Option<Mark>)) {
        let mut left = std::mem::take(&mut self.places);
        while let Some((device, _)) = left.first() {
            let device = *device;
            let (here, others): (Vec<_>, _) = left.into_iter().partition(|(d, _)| *d == device);
            left = others;
            let here = here.into_iter().map(|(_, place)| place);
            put(here.collect(), turn.mark(device));
        }
    }

    /// Some of these places are gone.
    pub fn retain(&mut self, stays: impl Fn(&P) -> bool) {
        self.places.retain(|(_, place)| stays(place));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::obeying;
    use super::*;
    use busbar_transport::baton::{IDLE, STOP};

    #[test]
    fn a_mark_comes_behind_much_work_or_a_pause_or_as_the_turn_ends() {
        let (turn, board, _bell) = obeying(1);
        let slot = board.slot(0).expect("a slot");
        slot.set(IDLE);
        let mut unmarked = Unmarked::default();
        assert!(!unmarked.is_due(&turn, true), "there is none");
        // Of an unknown kind one is thought to be much.
        turn.pass((0, 1), || false, || ());
        unmarked.add(0, 'a');
        assert!(unmarked.is_due(&turn, false));
        unmarked.mark(&turn, |places, mark| {
            assert_eq!(places, ['a']);
            assert!(mark.is_some());
        });
        assert!(unmarked.is_empty() && !unmarked.is_due(&turn, true));
        // Nothing more was submitted than has a mark, so that it is not much.
        unmarked.add(0, 'a');
        assert!(!unmarked.is_due(&turn, false));
        std::thread::sleep(std::time::Duration::from_nanos(2 * PAUSE));
        assert!(unmarked.is_due(&turn, true));
        assert!(!unmarked.is_due(&turn, false), "more is queued");
        slot.set(STOP);
        assert!(unmarked.is_due(&turn, false));
    }

    #[test]
    fn each_place_is_marked_once_with_those_of_its_device() {
        let (turn, board, _bell) = obeying(2);
        let mut unmarked = Unmarked::default();
        for (device, place) in [(0, 'a'), (1, 'b'), (0, 'c'), (0, 'a'), (1, 'd'), (1, 'e')] {
            board.slot(device).expect("a slot").set(IDLE);
            turn.pass((device, 1), || false, || ());
            unmarked.add(device, place);
        }
        unmarked.retain(|place| *place != 'd');
        let mut marked = Vec::new();
        unmarked.mark(&turn, |places, mark| {
            assert!(mark.is_some());
            marked.push(places);
        });
        assert_eq!(marked, [vec!['a', 'c'], vec!['b', 'e']]);
    }
}
