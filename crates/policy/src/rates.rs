//! How often tenants open something.

use crate::policy::{Forbidden, Policy, What};
use std::collections::HashMap;
use std::time::Duration;

const MINUTE: f64 = 60.0;
/// The most tenants whose rates are kept. Those that have opened nothing for a minute are forgotten
/// first; who is forgotten begins with all that it may.
const MOST: usize = 4096;

/// What a tenant may still open, and when that was so.
#[derive(Debug, Clone, Copy)]
struct Left {
    opens: f64,
    at: Duration,
}

impl Left {
    fn now(self, most: f64, now: Duration) -> f64 {
        let waited = now.saturating_sub(self.at).as_secs_f64();
        (self.opens + most * waited / MINUTE).min(most)
    }
}

/// What tenants have opened lately: each has all that it may open in a minute at once, and what it
/// has opened comes back little by little.
#[derive(Debug, Default)]
pub struct Rates(HashMap<String, Left>);

impl Rates {
    /// Counts that a tenant opens something, if it may.
    pub fn open(&mut self, p: &Policy, tenant: &str, now: Duration) -> Result<(), Forbidden> {
        let Some(n) = p.of(tenant).opens else {
            return Ok(());
        };
        let most = n as f64;
        let had = self.0.get(tenant);
        let left = had.map_or(most, |l| l.now(most, now));
        if left < 1.0 {
            let again = (MINUTE * (1.0 - left) / most).ceil();
            return Err(Policy::no(tenant, What::Opens(n, again as u64)));
        }
        if had.is_none() && self.0.len() >= MOST {
            let minute = Duration::from_secs(60);
            self.0.retain(|_, l| now.saturating_sub(l.at) < minute);
            if self.0.len() >= MOST {
                self.0.clear();
            }
        }
        let opens = left - 1.0;
        self.0.insert(tenant.into(), Left { opens, at: now });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_opened_comes_back_in_a_minute() {
        let text = "[default]\nopens_per_minute = 6\n[tenant.free]\n\
                    opens_per_minute = \"unlimited\"\n\
                    [tenant.none]\nopens_per_minute = 0";
        let p = crate::parse(text).unwrap();
        let mut r = Rates::default();
        let at = Duration::from_secs_f64;
        let mut opened = |who: &str, now| {
            (0..100)
                .filter(|_| r.open(&p, who, at(now)).is_ok())
                .count()
        };
        assert_eq!(opened("a", 5.0), 6);
        assert_eq!(
            (opened("b", 5.0), opened("free", 5.0), opened("none", 5.0)),
            (6, 100, 0)
        );
        assert_eq!(
            (opened("a", 14.9), opened("a", 15.1), opened("a", 15.2)),
            (0, 1, 0)
        );
        assert_eq!(opened("a", 35.2), 2);
        assert_eq!(opened("a", 9e9), 6, "and no more than that");
        let said = r.open(&p, "a", at(9e9)).unwrap_err();
        assert!(
            said.to_string()
                .contains("6 session(s) a minute: try again in 10 s"),
            "{said}"
        );
        assert!(!said.may_pass());
    }

    #[test]
    fn many_tenants_take_little_room() {
        let p = crate::parse("[default]\nopens_per_minute = 1").unwrap();
        let mut r = Rates::default();
        for n in 0..3 * MOST {
            assert!(r.open(&p, &n.to_string(), Duration::from_secs(1)).is_ok());
            assert!(r.0.len() <= MOST);
        }
    }
}
