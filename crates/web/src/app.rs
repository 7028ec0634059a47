//! What all requests share: who lets callers in, and what was seen lately.

use crate::api::{self, Device, Lease, Quota, Server, Session, Waiting};
use crate::backend::{Gate, Overview, Row, View};
use crate::history::{self, Kept};
use crate::openapi;
use crate::places::Places;
use crate::problem::Fault;
use axum::body::Bytes;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::Mutex as Turn;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

/// How old may be what callers are told.
const FRESH: Duration = Duration::from_secs(1);
/// The most who are told what changes, and those of them who have shown the same.
const LISTENERS: usize = 64;
const LISTENERS_OF_ONE: usize = 16;
/// How long it is kept that nobody asks for.
const KEPT: Duration = Duration::from_secs(30);

/// What a caller sees.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub server: Server,
    pub devices: Vec<Device>,
    pub sessions: Vec<Session>,
    pub leases: Vec<Lease>,
    pub waiting: Vec<Waiting>,
    pub quotas: Vec<Quota>,
    pub rows: Vec<Row>,
    pub refusals: BTreeMap<String, u64>,
}

impl Seen {
    fn of(o: Overview) -> Self {
        let s = &o.status;
        Self {
            server: Server {
                version: s.version.clone(),
                host: o.host,
                address: o.address,
                started: o.started,
                draining: o.draining,
                isolation: o.isolation,
                sessions: s.sessions.len(),
                most_sessions: o.most_sessions,
                forbidden: s.forbidden.clone(),
                driver: Some(s.gpus.driver.clone()).filter(|d| !d.is_empty()),
                missing: api::missing(s),
            },
            devices: api::devices(s),
            sessions: api::sessions(s),
            leases: api::leases(s, o.started),
            waiting: api::waiting(s),
            quotas: api::with_memory(o.quotas, s),
            rows: o.rows,
            refusals: o.refusals,
        }
    }
}

/// What a caller has seen last, and when. One looks at a time; the others get what it saw.
type Last = Arc<Turn<Option<(Instant, Arc<Seen>)>>>;

/// What all requests share.
pub(crate) struct App {
    pub gate: Arc<dyn Gate>,
    /// Whether only this machine reaches the port.
    pub local: bool,
    /// What can be asked for.
    pub document: Bytes,
    /// The last day.
    pub history: Kept,
    /// Places for those who are told what changes.
    pub listeners: Places<String>,
    seen: Mutex<HashMap<String, (Instant, Last)>>,
}

impl App {
    pub fn new(gate: Arc<dyn Gate>, local: bool) -> Self {
        Self {
            gate,
            local,
            document: format!("{:#}\n", openapi::document()).into(),
            history: Kept::default(),
            listeners: Places::new(LISTENERS, LISTENERS_OF_ONE),
            seen: Mutex::default(),
        }
    }

    fn last(&self, key: String) -> Last {
        let now = Instant::now();
        let mut all = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, (asked, _)| now - *asked < KEPT);
        let entry = all.entry(key).or_insert_with(|| (now, Last::default()));
        entry.0 = now;
        entry.1.clone()
    }

    /// What a caller sees now, or has seen a moment ago.
    pub async fn see(&self, view: &Arc<dyn View>) -> Result<Arc<Seen>, Fault> {
        let last = self.last(view.key());
        let mut last = last.lock().await;
        if let Some((at, seen)) = &*last
            && at.elapsed() < FRESH
        {
            return Ok(seen.clone());
        }
        let view = view.clone();
        let seen = ask(move || Arc::new(Seen::of(view.overview()))).await?;
        *last = Some((Instant::now(), seen.clone()));
        Ok(seen)
    }

    /// Keeps what is seen for a day, for as long as the server runs.
    pub async fn remember(&self) {
        let own = self.gate.own();
        loop {
            if let Ok(seen) = self.see(&own).await {
                let now = SystemTime::now().duration_since(UNIX_EPOCH);
                let now = now.map_or(0, |d| d.as_secs());
                self.history.note(now, &seen.devices);
            }
            sleep(Duration::from_secs(history::STEP)).await;
        }
    }

    /// Something was changed: nobody is told what was so before.
    pub fn forget(&self) {
        let mut all = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        all.clear();
    }
}

/// Has the server do something, which may take it a moment.
pub(crate) async fn ask<T: Send + 'static>(
    f: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Fault> {
    let done = spawn_blocking(f).await;
    done.map_err(|_| Fault::busy("the server could not do it; its log may say more"))
}
