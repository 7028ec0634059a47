//! Other servers that this one is dialling for its clients' sessions: so many at a time, and no
//! tenant all of them.

use busbar_transport::lock::lock;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// The most at a time.
const MOST: usize = 64;

/// Those that are being dialled, by tenant.
#[derive(Default)]
pub(crate) struct Dials(Mutex<BTreeMap<String, usize>>);

/// One of them, for as long as it takes.
pub(crate) struct Dial<'a> {
    all: &'a Dials,
    tenant: String,
}

impl Dials {
    /// Begins one, unless the tenant has as many as are left for others: whatever some do, there is
    /// room for whoever has none.
    pub fn begin(&self, tenant: &str) -> Option<Dial<'_>> {
        let mut all = lock(&self.0);
        let left = MOST.saturating_sub(all.values().sum());
        let own = all.get(tenant).copied().unwrap_or(0);
        (own < left).then(|| {
            all.insert(tenant.into(), own + 1);
            Dial {
                all: self,
                tenant: tenant.into(),
            }
        })
    }
}

impl Drop for Dial<'_> {
    fn drop(&mut self) {
        let mut all = lock(&self.all.0);
        if let Some(own) = all.get_mut(&self.tenant) {
            *own -= 1;
            if *own == 0 {
                all.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_tenants_have_dialled_another_one_can_dial() {
        let dials = Dials::default();
        let mut held = Vec::new();
        let mut all_of = |tenant: &str| {
            let before = held.len();
            held.extend(std::iter::from_fn(|| dials.begin(tenant)));
            held.len() - before
        };
        // Each in turn takes as many as it gets: as many as it leaves.
        let had = ["a", "b", "c", "d"].map(&mut all_of);
        assert_eq!(had, [32, 16, 8, 4]);
        assert_eq!(all_of("a"), 0);
        let one = dials.begin("e");
        assert!(one.is_some());
        drop((one, held));
        assert!(lock(&dials.0).is_empty(), "each is given back");
    }
}
