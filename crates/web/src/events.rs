//! What changes, as server-sent events: first all there is, then what has become another, each
//! thing by its name and `null` for one that is gone.

use crate::app::{App, Seen, ask};
use crate::backend::View;
use crate::places::Place;
use axum::body::Bytes;
use http_body::{Body, Frame};
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::timeout;

/// How often is looked.
const STEP: Duration = Duration::from_secs(5);
/// How long nothing is said if there is nothing to say.
const SILENCE: Duration = Duration::from_secs(15);

/// Things by their names, each as it is sent.
type Things = BTreeMap<String, Box<RawValue>>;

/// What somebody sees, thing by thing.
type All = BTreeMap<&'static str, Things>;

fn things<'a, T: Serialize>(all: impl Iterator<Item = (&'a str, T)>) -> Things {
    let raw = |(name, thing): (&str, T)| {
        let raw = serde_json::value::to_raw_value(&thing).ok()?;
        Some((name.to_string(), raw))
    };
    all.filter_map(raw).collect()
}

fn all(s: &Seen) -> All {
    [
        ("server", things(std::iter::once(("it", &s.server)))),
        ("devices", things(s.devices.iter().map(|d| (&*d.id, d)))),
        ("sessions", things(s.sessions.iter().map(|s| (&*s.name, s)))),
        ("leases", things(s.leases.iter().map(|l| (&*l.name, l)))),
        ("waiting", things(s.waiting.iter().map(|w| (&*w.name, w)))),
        ("quotas", things(s.quotas.iter().map(|q| (&*q.tenant, q)))),
    ]
    .into()
}

/// What of `new` was not so before.
fn changes<'a>(
    old: &'a All,
    new: &'a All,
) -> BTreeMap<&'static str, BTreeMap<&'a str, Option<&'a RawValue>>> {
    let none = Things::new();
    let of = |(kind, new): (&&'static str, &'a Things)| {
        let old = old.get(kind).unwrap_or(&none);
        let same =
            |name: &String, raw: &RawValue| old.get(name).is_some_and(|o| o.get() == raw.get());
        let mut changed = BTreeMap::new();
        for (name, raw) in new {
            if !same(name, raw) {
                changed.insert(name.as_str(), Some(&**raw));
            }
        }
        (*kind, changed)
    };
    let mut all: BTreeMap<_, _> = new.iter().map(of).collect();
    for (kind, things) in old {
        for name in things.keys() {
            if !new.get(kind).is_some_and(|n| n.contains_key(name)) {
                all.entry(kind).or_default().insert(name, None);
            }
        }
    }
    all.retain(|_, changed| !changed.is_empty());
    all
}

/// What is sent, as it comes.
pub(crate) struct Events {
    next: Receiver<Bytes>,
    /// The stream's place.
    _place: Place<String>,
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = self.next.poll_recv(cx);
        next.map(|bytes| bytes.map(|b| Ok(Frame::data(b))))
    }
}

/// Begins to tell somebody what changes.
pub(crate) fn start(app: Arc<App>, view: Arc<dyn View>, place: Place<String>) -> Events {
    // What is not taken yet is not made either.
    let (to, next) = channel(1);
    tokio::spawn(tell(app, view, to));
    Events {
        next,
        _place: place,
    }
}

/// Tells it until nobody listens, or the listener is let in no more.
async fn tell(app: Arc<App>, view: Arc<dyn View>, to: Sender<Bytes>) {
    let (mut old, mut told) = (All::new(), None::<Instant>);
    loop {
        let still = view.clone();
        if !matches!(ask(move || still.over()).await, Ok(None)) {
            return;
        }
        let Ok(seen) = app.see(&view).await else {
            return;
        };
        let new = all(&seen);
        let changes = changes(&old, &new);
        let text = match serde_json::to_string(&changes) {
            Ok(json) if !changes.is_empty() => format!("event: change\ndata: {json}\n\n"),
            _ => ": nothing\n\n".into(),
        };
        let due = told.is_none_or(|t| t.elapsed() >= SILENCE) || !changes.is_empty();
        old = new;
        if due {
            told = Some(Instant::now());
            if to.send(text.into()).await.is_err() {
                return;
            }
        }
        // One that goes is not waited for until the next look.
        if timeout(STEP, to.closed()).await.is_ok() {
            return;
        }
    }
}
