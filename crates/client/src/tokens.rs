//! What of the program's its server may ask for, by tokens.
//!
//! A server gets numbers and never an address: a token stands for what the program has registered,
//! as often as was promised, and any other number for nothing.

use std::collections::BTreeMap;

struct Entry<T> {
    what: T,
    once: bool,
}

/// The tokens that a server has. None is ever used again.
pub struct Tokens<T> {
    next: u64,
    live: BTreeMap<u64, Entry<T>>,
}

impl<T> Tokens<T> {
    fn add(&mut self, what: T, once: bool) -> u64 {
        let token = self.next;
        self.next += 1;
        self.live.insert(token, Entry { what, once });
        token
    }

    /// A token that is good once.
    pub fn once(&mut self, what: T) -> u64 {
        self.add(what, true)
    }

    /// A token that is good until it is taken back.
    pub fn often(&mut self, what: T) -> u64 {
        self.add(what, false)
    }

    /// Takes a token back: what it stood for, and whether that was good once.
    pub fn take(&mut self, token: u64) -> Result<(T, bool), String> {
        let e = self.live.remove(&token).ok_or_else(|| forged(token))?;
        Ok((e.what, e.once))
    }

    /// What a living token stands for.
    pub fn get(&self, token: u64) -> Option<&T> {
        self.live.get(&token).map(|e| &e.what)
    }

    /// Uses a token: what it stands for, and whether that was the only time.
    pub fn redeem(&mut self, token: u64) -> Result<(T, bool), String>
    where
        T: Copy,
    {
        match self.live.get(&token) {
            Some(e) if !e.once => Ok((e.what, false)),
            _ => self.take(token),
        }
    }

    /// Takes all of them back, in the order in which they were given.
    pub fn drain(&mut self) -> impl Iterator<Item = T> + use<T> {
        std::mem::take(&mut self.live).into_values().map(|e| e.what)
    }
}

impl<T> Default for Tokens<T> {
    fn default() -> Self {
        let (next, live) = (1, BTreeMap::new());
        Self { next, live }
    }
}

fn forged(token: u64) -> String {
    format!(
        "the server asked for a function or memory of the program that it was not given, or not \
         so often (token {token:#x}): it is not to be trusted"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_as_often_as_was_promised() {
        let mut t = Tokens::default();
        let (a, b) = (t.once('a'), t.often('b'));
        assert_eq!(t.redeem(a), Ok(('a', true)));
        assert!(t.redeem(a).is_err(), "once");
        for _ in 0..3 {
            assert_eq!(t.redeem(b), Ok(('b', false)));
        }
        assert_eq!(t.take(b), Ok(('b', false)));
        assert!(t.redeem(b).is_err() && t.take(b).is_err() && t.get(b).is_none());
    }

    #[test]
    fn a_number_that_was_never_given_stands_for_nothing() {
        let mut t = Tokens::default();
        let given: Vec<_> = (0..100).map(|i| t.once(i)).collect();
        for forged in [0, 101, 1 << 32, u64::MAX, std::ptr::from_ref(&t) as u64] {
            assert!(t.redeem(forged).is_err() && t.get(forged).is_none());
        }
        assert_eq!(t.drain().collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
        assert!(given.iter().all(|g| t.redeem(*g).is_err()));
        assert!(!given.contains(&t.once(0)), "no token comes again");
    }
}
