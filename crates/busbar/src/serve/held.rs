//! What there is one of for each login while somebody has it.

use super::identity::Who;
use busbar_transport::lock::lock;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

/// One for each login. Whoever makes one has its place locked, and keeps nobody else's waiting.
pub(super) struct Held<T>(Mutex<HashMap<Who, Arc<Mutex<Weak<T>>>>>);

impl<T> Default for Held<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Held<T> {
    /// The owner's, if somebody has it and it is `well`, or a new one.
    pub(super) fn of<E>(
        &self,
        owner: &Who,
        well: impl FnOnce(&T) -> bool,
        make: impl FnOnce() -> Result<Arc<T>, E>,
    ) -> Result<Arc<T>, E> {
        let place = {
            let mut all = lock(&self.0);
            // A place that somebody waits for is not locked here.
            all.retain(|_, p| Arc::strong_count(p) > 1 || lock(p).strong_count() > 0);
            all.entry(owner.clone()).or_default().clone()
        };
        let mut place = lock(&place);
        if let Some(there) = place.upgrade().filter(|t| well(t)) {
            return Ok(there);
        }
        let made = make()?;
        *place = Arc::downgrade(&made);
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn who(name: &str) -> Who {
        let mut who = Who::default();
        who.name = name.into();
        who
    }

    #[test]
    fn one_is_there_while_somebody_has_it_and_is_well() {
        let (held, a, b) = (Held::default(), Who::default(), who("b"));
        let of = |who: &Who, well: bool, n: u32| {
            let Ok(one) = held.of(who, |_| well, || Ok::<_, Infallible>(Arc::new(n)));
            one
        };
        let first = of(&a, true, 1);
        assert_eq!((*of(&a, true, 2), *of(&b, true, 3)), (1, 3));
        let next = of(&a, false, 4);
        assert_eq!(
            (*next, *of(&a, true, 5)),
            (4, 4),
            "one that is not well has a successor"
        );
        drop((first, next));
        assert_eq!(*of(&a, true, 6), 6, "nobody has it any more");
        assert_eq!(held.of(&b, |_| true, || Err("no room")), Err("no room"));
        let _b = of(&b, true, 8);
        assert_eq!(lock(&held.0).len(), 1, "places that nobody needs go");
    }
}
