//! The last day of each device, a number for each minute: in memory, and no more of it than that.

use crate::api::{Device, History, Past};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

/// How often is looked, in seconds.
pub(crate) const STEP: u64 = 60;
/// How often it is kept.
const MOST: usize = 24 * 60;
/// Of how many devices.
const DEVICES: usize = 256;

/// What is kept of a device; not a number where nothing is known.
#[derive(Debug, Clone, Copy)]
struct Point {
    utilization: f32,
    memory: f32,
    sessions: f32,
}

const NOTHING: Point = Point {
    utilization: f32::NAN,
    memory: f32::NAN,
    sessions: f32::NAN,
};

#[derive(Debug, Default)]
struct State {
    times: VecDeque<u64>,
    devices: BTreeMap<String, VecDeque<Point>>,
}

/// The last day.
#[derive(Debug, Default)]
pub(crate) struct Kept(Mutex<State>);

impl Point {
    fn of(d: &Device) -> Self {
        let t = d.telemetry.unwrap_or_default();
        let part = |used: u64| (d.memory > 0).then(|| used as f64 / d.memory as f64);
        let or_none = |n: Option<f64>| n.map_or(f32::NAN, |n| n as f32);
        Self {
            utilization: or_none(t.utilization),
            memory: or_none(t.memory_used.and_then(part)),
            sessions: d.sessions as f32,
        }
    }
}

impl Kept {
    /// Keeps what is so at a time.
    pub fn note(&self, at: u64, devices: &[Device]) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.times.push_back(at);
        let n = state.times.len();
        for d in devices {
            if state.devices.len() < DEVICES || state.devices.contains_key(&d.id) {
                let points = state.devices.entry(d.id.clone()).or_default();
                // One that is new was not there before.
                points.resize(n - 1, NOTHING);
                points.push_back(Point::of(d));
            }
        }
        for points in state.devices.values_mut() {
            points.resize(n, NOTHING);
        }
        if n > MOST {
            state.times.pop_front();
            for points in state.devices.values_mut() {
                points.pop_front();
            }
        }
    }

    /// What was kept of the devices that somebody sees.
    pub fn of(&self, devices: &[Device]) -> History {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let past = |d: &Device| {
            let points = state.devices.get(&d.id)?;
            let all = |f: fn(&Point) -> f32| {
                let each = points.iter().map(f);
                each.map(|n| (!n.is_nan()).then_some(n)).collect()
            };
            Some(Past {
                device: d.id.clone(),
                utilization: all(|p| p.utilization),
                memory: all(|p| p.memory),
                sessions: all(|p| p.sessions),
            })
        };
        History {
            step: STEP,
            times: state.times.iter().copied().collect(),
            devices: devices.iter().filter_map(past).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_kept_and_no_more() {
        let kept = Kept::default();
        let device = |id: &str, sessions| Device {
            id: id.into(),
            sessions,
            ..Device::default()
        };
        let (a, b) = (device("a", 1), device("b", 2));
        for i in 0..2000 {
            match i < 1900 {
                true => kept.note(i * STEP, std::slice::from_ref(&a)),
                false => kept.note(i * STEP, &[a.clone(), b.clone()]),
            }
        }
        let h = kept.of(&[a, b.clone()]);
        assert_eq!((h.times.len(), h.times[0]), (MOST, 560 * STEP));
        let numbers: Vec<_> = h.devices.iter().map(|d| d.sessions.len()).collect();
        assert_eq!(numbers, [MOST, MOST]);
        let there = h.devices[1].sessions.iter().filter(|n| n.is_some());
        assert_eq!(there.count(), 100);
        assert_eq!(h.devices[0].utilization[0], None);
        // Whoever sees one device gets one.
        assert_eq!(kept.of(&[b]).devices.len(), 1);
    }
}
