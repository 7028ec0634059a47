//! Failures on command: `FAKEDEV_FAULTS="cuMemAlloc_v2@3=2,cuLaunchKernel@10=719s,lost@500"`.
//!
//! `function@n=code` fails the n-th call of a function; with an `s` after the code, the current
//! context stays broken, as after a failed kernel. `function@n=slow:50ms` delays it. `lost@n` or
//! `lost@n=code`: after n driver calls of any kind the device is gone and everything fails. A rule
//! that cannot be read fails `cuInit`, so that a typing error is not a test that passes.

use crate::config;
use crate::ffi::{CUresult, UNKNOWN};
use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::Duration;

/// What a rule does to the call that it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The call fails with this code.
    Fail(CUresult),
    /// The call fails with this code, and so does the context from now on.
    FailSticky(CUresult),
    /// The call is late.
    Slow(Duration),
}

#[derive(Default)]
struct Rules {
    calls: HashMap<String, Vec<(u64, Action)>>,
    lost: Option<(u64, CUresult)>,
    bad: bool,
}

static RULES: LazyLock<Rules> = LazyLock::new(|| {
    let text = config::get("FAKEDEV_FAULTS").unwrap_or_default();
    parse(&text).unwrap_or(Rules {
        bad: true,
        ..Rules::default()
    })
});

/// Whether the setting could be read.
pub fn readable() -> bool {
    !RULES.bad
}

/// What to do with the n-th call of a function.
pub fn at(name: &str, nth: u64) -> Option<Action> {
    let rules = RULES.calls.get(name)?;
    rules
        .iter()
        .find(|(n, _)| *n == nth)
        .map(|(_, action)| *action)
}

/// The error of a device that is lost by the n-th call of all. Names of errors can still be asked.
pub fn lost(name: &str, total: u64) -> Option<CUresult> {
    let (after, code) = RULES.lost?;
    (total > after && !name.starts_with("cuGetError")).then_some(code)
}

fn parse(text: &str) -> Option<Rules> {
    let mut rules = Rules::default();
    for rule in text
        .split(',')
        .map(str::trim)
        .filter(|rule| !rule.is_empty())
    {
        let (name, rest) = rule.split_once('@')?;
        if name == "lost" {
            let (after, code) = match rest.split_once('=') {
                Some((after, code)) => (after, code.parse().ok()?),
                None => (rest, UNKNOWN),
            };
            rules.lost = Some((after.parse().ok()?, code));
            continue;
        }
        let (nth, action) = rest.split_once('=')?;
        let action = parse_action(action)?;
        rules
            .calls
            .entry(name.to_owned())
            .or_default()
            .push((nth.parse().ok()?, action));
    }
    Some(rules)
}

fn parse_action(text: &str) -> Option<Action> {
    if let Some(time) = text.strip_prefix("slow:") {
        let time = if let Some(ms) = time.strip_suffix("ms") {
            Duration::from_millis(ms.parse().ok()?)
        } else {
            Duration::from_micros(time.strip_suffix("us")?.parse().ok()?)
        };
        return Some(Action::Slow(time));
    }
    match text.strip_suffix('s') {
        Some(code) => Some(Action::FailSticky(code.parse().ok()?)),
        None => Some(Action::Fail(text.parse().ok()?)),
    }
}
