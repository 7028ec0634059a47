//! What the GPUs are doing: readings from the process that asks NVML, at most one set a second.

use super::events::Events;
use super::workers::Workers;
use busbar_control::gpu::{Gpu, Gpus, HAPPENING, Question, Said};
use busbar_transport::lock::lock;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How old readings may be that are given out again.
const FRESH: Duration = Duration::from_millis(500);
/// How long the process may take for one set; the first includes starting NVML.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long after a failure the process is started again.
const PAUSE: Duration = Duration::from_secs(10);

struct Helper {
    child: Child,
    ask: ChildStdin,
    lines: Receiver<String>,
    /// Ends with the process.
    reader: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    helper: Option<Helper>,
    last: Gpus,
    /// Nothing is asked before this.
    rest: Option<Instant>,
}

/// Keeps the process, its latest readings, and what it told of itself.
#[derive(Default)]
pub(crate) struct Monitor {
    state: Mutex<State>,
    events: Arc<Mutex<Events>>,
}

impl State {
    fn silent(&mut self) {
        tracing::warn!("the process that reads the GPUs does not answer");
        self.helper = None;
        self.last.gpus.clear();
        self.rest = Some(Instant::now() + PAUSE);
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Helper {
    fn start(workers: &Workers, events: Arc<Mutex<Events>>) -> Option<Self> {
        let mut child = workers.readings()?;
        let ask = child.stdin.take()?;
        let out = BufReader::new(child.stdout.take()?);
        let (send, lines) = sync_channel(1);
        let read = move || {
            for line in out.lines().map_while(Result::ok) {
                if let Some(told) = line.strip_prefix(HAPPENING) {
                    let told = serde_json::from_str(told);
                    told.into_iter().for_each(|h| lock(&events).add(h));
                } else if send.send(line).is_err() {
                    return;
                }
            }
        };
        let reader = std::thread::Builder::new()
            .name("readings".into())
            .stack_size(256 << 10)
            .spawn(read);
        match reader {
            Ok(reader) => Some(Self {
                child,
                ask,
                lines,
                reader,
            }),
            Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                None
            }
        }
    }

    fn ask<T: DeserializeOwned>(&mut self, question: &str) -> Option<T> {
        writeln!(self.ask, "{question}").ok()?;
        let line = self.lines.recv_timeout(PATIENCE).ok()?;
        serde_json::from_str(&line).ok()
    }
}

impl Monitor {
    /// The readings of now, or the last ones if those are enough: NVML takes its time for some of
    /// them, and a program that only counts GPUs need not wait for that. When they cannot be had,
    /// what never changes is still there: the driver's version.
    pub fn read(&self, workers: &Workers, last_is_enough: bool) -> Gpus {
        let mut s = lock(&self.state);
        // Who is content with the last readings may still wait for what happens.
        if s.helper.as_ref().is_some_and(|h| h.reader.is_finished()) {
            s.silent();
        }
        let enough = last_is_enough && !s.last.gpus.is_empty();
        if enough || s.rest.is_some_and(|t| Instant::now() < t) {
            return s.last.clone();
        }
        if s.helper.is_none() {
            s.helper = Helper::start(workers, self.events.clone());
        }
        match s.helper.as_mut().and_then(|h| h.ask::<Gpus>("")) {
            Some(g) => {
                if !g.missing.is_empty() && s.last.missing != g.missing {
                    tracing::info!(why = g.missing, "no readings of GPUs");
                }
                s.last = g;
                s.rest = Some(Instant::now() + FRESH);
            }
            None => s.silent(),
        }
        s.last.clone()
    }

    /// The readings of now, whatever was read a moment ago.
    pub fn read_now(&self, workers: &Workers) -> Gpus {
        let mut s = lock(&self.state);
        // After a failure it rests all the same.
        if s.helper.is_some() {
            s.rest = None;
        }
        drop(s);
        self.read(workers, false)
    }

    /// What happened to these GPUs of late.
    pub fn events(&self, gpus: impl Iterator<Item = String>) -> BTreeMap<String, Gpu> {
        lock(&self.events).of(gpus)
    }

    /// What NVML says to a question of a client's.
    pub fn ask(&self, question: &Question) -> Option<Said> {
        let text = serde_json::to_string(question).ok()?;
        let mut s = lock(&self.state);
        let answer = s.helper.as_mut()?.ask::<Option<Said>>(&text);
        if answer.is_none() {
            s.silent();
        }
        answer.flatten()
    }
}
