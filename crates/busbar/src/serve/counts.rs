//! What has been counted since the server's start, of sessions that have ended, too.

use super::entry::SessionEntry;
use busbar_transport::lock::lock;
use busbar_web::Row;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// The most rows; tenants of certificates can have any names.
const MOST: usize = 4096;
/// Whose what is counted beyond them.
const OTHERS: &str = "(others)";

/// What has been counted. Where it is asked together with sessions that go on, and where one of
/// those becomes one that has ended, the lock on sessions is held: nothing is counted twice, or
/// not at all.
#[derive(Default)]
pub(crate) struct Counts(Mutex<State>);

#[derive(Default)]
struct State {
    /// By tenant and API.
    rows: BTreeMap<(String, String), Row>,
}

impl State {
    fn row(&mut self, s: &SessionEntry) -> &mut Row {
        let key = (s.who.tenant.clone(), s.api.clone());
        let full = self.rows.len() >= MOST && !self.rows.contains_key(&key);
        let key = if full { (OTHERS.into(), key.1) } else { key };
        let (tenant, api) = key.clone();
        let new = || Row {
            tenant,
            api,
            ..Row::default()
        };
        self.rows.entry(key).or_insert_with(new)
    }
}

/// Adds what a session has done so far.
fn add(to: &mut Row, s: &SessionEntry) {
    to.traffic += s.holding.traffic;
    for (device, t) in &s.had {
        let had = to.time.entry(format!("{}:{device}", s.api)).or_default();
        had.used_ms += t.used_ms;
        had.waited_ms += t.waited_ms;
    }
}

impl Counts {
    /// A session has begun.
    pub fn opened(&self, s: &SessionEntry) {
        lock(&self.0).row(s).opened += 1;
    }

    /// One goes on over another connection.
    pub fn resumed(&self, s: &SessionEntry) {
        lock(&self.0).row(s).resumed += 1;
    }

    /// One has ended.
    pub fn ended(&self, s: &SessionEntry) {
        let mut state = lock(&self.0);
        let row = state.row(s);
        row.ended += 1;
        add(row, s);
    }

    /// All rows, with the sessions that go on; their lock is held.
    pub fn rows<'a>(&self, going: impl Iterator<Item = &'a SessionEntry>) -> Vec<Row> {
        let mut state = State {
            rows: lock(&self.0).rows.clone(),
        };
        for s in going {
            let row = state.row(s);
            add(row, s);
            row.memory += s.holding.bytes();
            let of = if s.connected {
                &mut row.connected
            } else {
                &mut row.disconnected
            };
            *of += 1;
        }
        state.rows.into_values().collect()
    }
}
