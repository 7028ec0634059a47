//! The time of one device, and whose it is: a pure state machine over what workers are seen to do.
//!
//! One session at a time has the **turn**, and only its worker submits. Every session has a
//! balance: device time that is used is taken from whoever used it, and given to all that want
//! some, by weight. Who has the most gets the next turn. So a kernel that was longer than a turn is
//! repaid by shorter or fewer ones, and what an idle session leaves is the others' at once. A
//! session that has a device to itself has a free pass, and nothing here is asked; so have all
//! sessions of a device of which nobody was promised a share, and nobody goes first.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Duration;

/// Thousandths of a device's time.
pub type Share = u32;
/// All of it.
pub const WHOLE: Share = 1000;

/// What a session is to have of a device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Part {
    /// What is promised; `None` for as much of the rest as others who have no promise.
    pub share: Option<Share>,
    /// Who goes first, the higher.
    pub priority: i32,
}

/// What a worker does with a turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Use {
    /// It has none, or has handed it over.
    #[default]
    None,
    /// It has it, and nothing has been under way since then.
    Idle(Duration),
    /// Work is under way.
    Busy,
}

/// What is seen of a worker.
#[derive(Debug, Clone, Copy, Default)]
pub struct Seen {
    /// What it does with its turn.
    pub turn: Use,
    /// It has some use for the device.
    pub present: bool,
    /// It has work to submit, and waits.
    pub wants: bool,
    /// Work of its is under way, in its turn or out of it.
    pub under_way: bool,
    /// How long work of its was under way in turns, in all.
    pub busy: Duration,
    /// A number that changes when work is done.
    pub done: u32,
    /// Since its turn began it has run dry: nothing was there to submit, and next to nothing under
    /// way.
    pub dry: bool,
}

/// What a worker is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// There are no turns: submit, and ask nobody.
    Free,
    /// Do not submit.
    Wait,
    /// Have the turn.
    Go,
    /// Have the turn no longer: submit nothing, and hand it over once all work is done.
    Stop,
    /// Others have waited for a kernel for too long: its session ends.
    End,
}

/// What a session has had.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Had {
    /// Of the last second, in thousandths.
    pub second: Share,
    /// Of the last minute.
    pub minute: Share,
    /// Device time in all.
    pub used: Duration,
    /// Time in which it waited for a turn.
    pub waited: Duration,
}

/// How much more than the holder another must be owed for the turn to pass on: two with equal parts
/// have turns of twice that. Less costs throughput, for the end of a turn is some 150 us without
/// work; with more, a second is not divided well.
const GAP: i64 = 10_000_000;
/// The shortest turn that ends because another one's promise is not kept.
const SHORTEST: Duration = Duration::from_millis(5);
/// The shortest turn that ends because its session has run dry.
const DRY: Duration = Duration::from_millis(2);
/// What a session may be owed, or owe.
const MOST: i64 = 1_000_000_000;
/// What one that is idle is owed at most.
const CREDIT: i64 = 10_000_000;
/// How long a turn may be held idle while others wait.
const GRACE: Duration = Duration::from_millis(1);
/// How long the end of a turn waits for work that is under way.
const DRAIN: Duration = Duration::from_millis(50);
/// The same where work of an earlier turn is under way still.
const DRAIN_AGAIN: Duration = Duration::from_millis(5);
/// How often is looked while somebody waits.
const LOOK: Duration = Duration::from_micros(500);
/// The weight of who has no promise where all is promised, in thousandths: not quite nothing.
const LEAST: i64 = 10;
/// Who has waited for a turn for so long goes first once, whatever others are owed and whoever goes
/// before it, for the shortest turn.
const LONG: Duration = Duration::from_secs(1);
/// From one such turn to the next, at least: that is what all others lose by them.
const APART: Duration = Duration::from_millis(100);

/// Use is remembered in steps of this.
const STEP: Duration = Duration::from_millis(100);
const STEPS: usize = 600;

#[derive(Debug)]
struct Member {
    part: Part,
    said: Word,
    /// Device time that it is owed, in ns.
    balance: i64,
    present: bool,
    wants: bool,
    under_way: bool,
    /// It has wanted something since this turn began, and not before.
    fresh: bool,
    /// Until when it collects work, after a turn in which it ran dry.
    collects: Duration,
    busy: Duration,
    done: u32,
    /// Since when nothing of its was done although it had no turn, or was to hand one over.
    stuck: Option<Duration>,
    used: Duration,
    waited: Duration,
    /// Since when it has wanted a turn, and had none.
    hungry: Option<Duration>,
    /// Device time in each of the last steps, by number.
    steps: Vec<u32>,
}

#[derive(Debug)]
struct Turn {
    of: u64,
    since: Duration,
    stopped: Option<Duration>,
    /// How long nothing has been under way; not counted yet, for the turn may end so.
    idle: Duration,
    /// Work of an earlier turn was under way when it began.
    stale: bool,
    /// Its session has it because it had waited for long.
    late: bool,
}

/// What right a session has to the next turn; the greatest has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    /// It has waited for long; its priority.
    first: (bool, i32),
    /// It does not collect work.
    is_ready: bool,
    balance: i64,
}

/// A device's time.
#[derive(Debug, Default)]
pub struct Timeshare {
    members: BTreeMap<u64, Member>,
    turn: Option<Turn>,
    at: Duration,
    /// Somebody waited when it was last looked.
    waited: bool,
    /// How long others wait for a kernel.
    limit: Option<Duration>,
    /// There are turns even if nobody has asked for any.
    always: bool,
    /// When somebody last had a turn because it had waited for long.
    fed: Option<Duration>,
}

fn ns(d: Duration) -> i64 {
    i64::try_from(d.as_nanos()).unwrap_or(i64::MAX)
}

fn step(now: Duration) -> usize {
    (now.as_nanos() / STEP.as_nanos()) as usize
}

impl Timeshare {
    /// A device whose kernels are ended after so long when others wait, if there is a limit. It is
    /// had in turns while somebody on it has a share or a priority, or `always`.
    pub fn new(limit: Option<Duration>, always: bool) -> Self {
        Self {
            limit,
            always,
            ..Self::default()
        }
    }

    /// A session comes.
    pub fn join(&mut self, of: u64, part: Part) {
        let m = Member {
            part,
            said: Word::Free,
            balance: 0,
            present: false,
            wants: false,
            under_way: false,
            fresh: false,
            collects: Duration::ZERO,
            busy: Duration::ZERO,
            done: 0,
            stuck: None,
            used: Duration::ZERO,
            waited: Duration::ZERO,
            hungry: None,
            steps: Vec::new(),
        };
        self.members.insert(of, m);
    }

    /// A session goes; the turn, if it has it, is free.
    pub fn leave(&mut self, of: u64) {
        self.members.remove(&of);
        self.turn.take_if(|t| t.of == of);
    }

    /// A session's part changes.
    pub fn set(&mut self, of: u64, part: Part) {
        if let Some(m) = self.members.get_mut(&of) {
            m.part = part;
        }
    }

    /// Whether it is had in turns. Otherwise the driver divides it.
    fn is_shared(&self) -> bool {
        let mut all = self.members.values().filter(|m| m.present);
        let many = all.clone().count() > 1;
        many && (self.always || all.any(|m| m.part != Part::default()))
    }

    /// Whether it is nobody's.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Looks at all workers: what each is told that has not been told so already, and when to look
    /// again, if nobody says anything.
    pub fn look(
        &mut self,
        now: Duration,
        mut see: impl FnMut(u64) -> Seen,
    ) -> (Vec<(u64, Word)>, Option<Duration>) {
        let now = now.max(self.at);
        let seen: BTreeMap<u64, Seen> = self.members.keys().map(|k| (*k, see(*k))).collect();
        self.account(now, &seen);
        let before: Vec<_> = self.members.iter().map(|(k, m)| (*k, m.said)).collect();
        if self.is_shared() {
            self.decide(now, &seen);
        } else {
            self.turn = None;
            self.members.values_mut().for_each(|m| m.said = Word::Free);
        }
        self.at = now;
        self.waited = self.waits();
        let changed = before.into_iter().filter_map(|(k, was)| {
            let is = self.members.get(&k)?.said;
            (is != was).then_some((k, is))
        });
        let late = |(k, m): (&u64, &Member)| m.under_way && self.holder() != Some(*k);
        let late = self.members.iter().any(late);
        let again = self.is_shared() && (self.waited || late);
        (changed.collect(), again.then_some(LOOK))
    }

    fn holder(&self) -> Option<u64> {
        self.turn.as_ref().map(|t| t.of)
    }

    fn waits(&self) -> bool {
        let turn = self.holder();
        self.members
            .iter()
            .any(|(k, m)| m.wants && turn != Some(*k))
    }

    /// Takes what was used since the last look from those who used it, and gives it to those who
    /// want some.
    fn account(&mut self, now: Duration, seen: &BTreeMap<u64, Seen>) {
        let past = now - self.at;
        let holder = self.holder();
        let late = seen
            .iter()
            .filter(|(k, s)| s.under_way && holder != Some(**k));
        let late: Vec<u64> = late.map(|(k, _)| *k).collect();
        let mut used: Vec<(u64, Duration)> = Vec::new();
        if let Some(h) = holder
            && let (Some(m), Some(s)) = (self.members.get(&h), seen.get(&h))
        {
            let before = self.turn.as_ref().map_or(Duration::ZERO, |t| t.idle);
            let idle = match s.turn {
                Use::Idle(since) => now.saturating_sub(since).min(before + past),
                _ => Duration::ZERO,
            };
            let time = match self.waited {
                // It has the device to itself, whether it uses it or not.
                true => past + before - idle,
                false => s.busy.saturating_sub(m.busy).min(past),
            };
            if let Some(t) = &mut self.turn {
                t.idle = idle;
            }
            used.push((h, time / (late.len() + 1) as u32));
        }
        // The driver divides the device among those whose work is under way.
        let n = late.len() + usize::from(used.iter().any(|(_, t)| !t.is_zero()));
        if self.is_shared() {
            used.extend(late.iter().map(|k| (*k, past / n.max(1) as u32)));
        }
        // Nobody looks while nobody waits: whoever begins to want some was owed nothing of what the
        // others had until then.
        let unwatched = (!self.waited).then(|| self.weights());
        for (k, m) in &mut self.members {
            let Some(s) = seen.get(k) else { continue };
            m.fresh |= s.wants && !m.wants;
            m.hungry = match s.wants && holder != Some(*k) {
                true if m.wants => {
                    m.waited += past;
                    m.hungry.or(Some(self.at))
                }
                true => Some(now),
                false => None,
            };
            (m.present, m.wants, m.under_way) = (s.present, s.wants, s.under_way);
            m.busy = s.busy;
        }
        let weights = unwatched.unwrap_or_else(|| self.weights());
        let all: i64 = weights.values().sum::<i64>().max(1);
        let time: i64 = used.iter().map(|(_, t)| ns(*t)).sum();
        for (k, t) in used {
            if let Some(m) = self.members.get_mut(&k) {
                m.balance -= ns(t);
                m.used += t;
                m.remember(now, t);
            }
        }
        let count = self.members.len() as i64;
        let of = |time: i64, w: i64, all: i64| {
            (i128::from(time) * i128::from(w) / i128::from(all)) as i64
        };
        // One that is idle pays its debt back all the same, and is owed a little. What it is owed
        // beyond that, the others have not used in its place.
        let mut left = 0;
        for (_, m) in self
            .members
            .iter_mut()
            .filter(|(k, _)| !weights.contains_key(k))
        {
            left += (m.balance - CREDIT).max(0);
            let whole = i64::from(WHOLE);
            let w = m.part.share.map_or(whole / count, i64::from);
            m.balance = (m.balance + of(ns(past), w, whole)).min(CREDIT);
        }
        let active = |(k, m): (&u64, &Member)| weights.contains_key(k).then_some(m.balance);
        let owed: i64 = self.members.iter().filter_map(active).sum::<i64>() + time;
        // Whoever owed it or was owed it has gone, or has paid while it was idle.
        left -= of(owed, ns(past).min(MOST), MOST);
        for (k, w) in &weights {
            if let Some(m) = self.members.get_mut(k) {
                m.balance += of(time + left, *w, all);
            }
        }
        for m in self.members.values_mut() {
            m.balance = m.balance.clamp(-MOST, MOST);
        }
    }

    /// What each has of what is used, of those who want some: what it is promised, and those who go
    /// first the rest. Who has neither is owed nothing, however long it waits.
    fn weights(&self) -> BTreeMap<u64, i64> {
        let holder = self.holder();
        let active = |(k, m): &(&u64, &Member)| m.wants || m.under_way || holder == Some(**k);
        let mut active: Vec<_> = self.members.iter().filter(active).collect();
        let top = active.iter().map(|(_, m)| m.part.priority).max();
        let first = |m: &Member| Some(m.part.priority) == top;
        active.retain(|(_, m)| m.part.share.is_some() || first(m));
        let sum = |of: &dyn Fn(&Member) -> bool| -> i64 {
            let all = active.iter().filter(|(_, m)| of(m));
            all.filter_map(|(_, m)| m.part.share).map(i64::from).sum()
        };
        let (promised, firsts) = (sum(&|_| true), sum(&first));
        let others = active.iter().filter(|(_, m)| m.part.share.is_none());
        let others = others.count() as i64;
        let rest = (i64::from(WHOLE) - promised).max(LEAST * others);
        // In a unit in which the rest can be divided among all who get of it.
        let of = |m: &Member| match m.part.share.map(i64::from) {
            None => rest,
            Some(s) if others > 0 => s * others,
            Some(s) if first(m) => s * firsts + s * rest,
            Some(s) => s * firsts,
        };
        active.iter().map(|(k, m)| (**k, of(m))).collect()
    }

    /// Whether somebody has waited for so long that the next turn is its.
    fn is_late(&self, now: Duration, m: &Member) -> bool {
        let since = |from: Option<Duration>| from.map(|from| now.saturating_sub(from));
        since(m.hungry).is_some_and(|d| d >= LONG) && since(self.fed).is_none_or(|d| d >= APART)
    }

    /// Who goes first of two who want the device: who has waited for long, then by priority,
    /// against which a promise holds, then who does not collect work, then by what each is owed.
    fn rank(&self, now: Duration, m: &Member) -> Rank {
        let top = || self.members.values().map(|m| m.part.priority).max();
        let first = match m.part.share.is_some() && m.balance > 0 {
            true => top().unwrap_or_default(),
            false => m.part.priority,
        };
        Rank {
            first: (self.is_late(now, m), first),
            is_ready: now >= m.collects,
            balance: m.balance,
        }
    }

    /// Who has the best right to the next turn, but for this one.
    fn next(&self, now: Duration, but: Option<u64>) -> Option<(u64, &Member)> {
        let wanting = self
            .members
            .iter()
            .filter(|(k, m)| m.wants && but != Some(**k) && !matches!(m.said, Word::End));
        let best = wanting.max_by_key(|(k, m)| (self.rank(now, m), std::cmp::Reverse(**k)));
        best.map(|(k, m)| (*k, m))
    }

    fn say(&mut self, to: u64, word: Word) {
        if let Some(m) = self.members.get_mut(&to)
            && m.said != Word::End
        {
            m.said = word;
        }
    }

    fn decide(&mut self, now: Duration, seen: &BTreeMap<u64, Seen>) {
        for m in self.members.values_mut() {
            if m.said == Word::Free && m.present {
                m.said = Word::Wait;
            }
        }
        self.end_stuck(now, seen);
        let Some(t) = &self.turn else {
            return self.give(now, None);
        };
        let (of, since, stopped, stale, late) = (t.of, t.since, t.stopped, t.stale, t.late);
        let turn = seen.get(&of).map_or(Use::None, |s| s.turn);
        if turn == Use::None {
            // It has handed it over, or never taken it up.
            self.turn = None;
            self.say(of, Word::Wait);
            return self.give(now, Some(of));
        }
        if let Some(stopped) = stopped {
            let most = if stale { DRAIN_AGAIN } else { DRAIN };
            if now.saturating_sub(stopped) >= most {
                // What is under way still is charged as it runs on beside the next one's work.
                self.turn = None;
                self.say(of, Word::Wait);
                self.give(now, Some(of));
            }
            return;
        }
        let Some((_, best)) = self.next(now, Some(of)) else {
            return;
        };
        let holder = &self.members[&of];
        let (theirs, ours) = (self.rank(now, best), self.rank(now, holder));
        let had = now.saturating_sub(since);
        let more = theirs.balance - ours.balance;
        // One that was idle is owed no more than that, whatever the holder is owed.
        let rightly = more >= 0 || best.balance >= CREDIT;
        let first = best.part.priority > holder.part.priority && theirs.first > ours.first;
        let over = match theirs.first.cmp(&ours.first) {
            Ordering::Greater => had >= SHORTEST,
            Ordering::Equal => theirs.is_ready && (more >= GAP || best.fresh && rightly),
            Ordering::Less => false,
        };
        let others = theirs.first >= ours.first && theirs.is_ready && more > -GAP;
        if seen[&of].dry && had >= DRY && others {
            // Little is under way: the next one need not wait for that.
            self.turn = None;
            self.say(of, Word::Wait);
            if let Some(m) = self.members.get_mut(&of) {
                m.collects = now + SHORTEST;
            }
            return self.give(now, Some(of));
        }
        let idle = matches!(turn, Use::Idle(from) if now.saturating_sub(from.max(since)) >= GRACE);
        let short = late && had < SHORTEST;
        if idle || !short && (first || over) {
            if let Some(t) = &mut self.turn {
                t.stopped = Some(now);
            }
            self.say(of, Word::Stop);
        }
    }

    /// Gives the turn, which nobody has: to whom it was taken `from` only if nobody else wants it.
    fn give(&mut self, now: Duration, from: Option<u64>) {
        let next = self.next(now, from).or_else(|| self.next(now, None));
        let Some((of, m)) = next else {
            return;
        };
        let (stale, late) = (m.under_way, self.is_late(now, m));
        if late {
            self.fed = Some(now);
        }
        self.turn = Some(Turn {
            of,
            since: now,
            stopped: None,
            idle: Duration::ZERO,
            stale,
            late,
        });
        self.members.values_mut().for_each(|m| m.fresh = false);
        if let Some(m) = self.members.get_mut(&of) {
            m.collects = Duration::ZERO;
        }
        self.say(of, Word::Go);
    }

    /// Ends who has kept others waiting for longer than the limit by one piece of work.
    fn end_stuck(&mut self, now: Duration, seen: &BTreeMap<u64, Seen>) {
        let going_on = self.turn.as_ref().filter(|t| t.stopped.is_none());
        let holder = going_on.map(|t| t.of);
        let wanted = |but: u64| {
            let others = self.members.iter().filter(|(k, _)| **k != but);
            others
                .into_iter()
                .any(|(k, m)| m.wants || m.under_way || holder == Some(*k))
        };
        let wanted: BTreeMap<u64, bool> = self.members.keys().map(|k| (*k, wanted(*k))).collect();
        for (k, m) in &mut self.members {
            let Some(s) = seen.get(k) else { continue };
            let moved = m.done != s.done;
            m.done = s.done;
            if moved || !s.under_way || !wanted[k] {
                m.stuck = None;
            } else if m.stuck.is_none() && holder != Some(*k) {
                m.stuck = Some(now);
            }
            let long = m
                .stuck
                .map_or(Duration::ZERO, |from| now.saturating_sub(from));
            if self.limit.is_some_and(|limit| long >= limit) {
                m.said = Word::End;
            }
        }
    }

    /// What a session has had, as it is known at the last look; `None` while there are no turns,
    /// for then nobody counts.
    pub fn had(&self, of: u64) -> Option<Had> {
        let m = self.members.get(&of).filter(|m| m.said != Word::Free)?;
        let last = step(self.at);
        // The step that goes on is not whole.
        let sum = |n: usize| {
            let from = last.saturating_sub(n);
            let all = (from..last).filter_map(|i| m.at_step(i, last));
            let time: u64 = all.map(u64::from).sum();
            let whole = STEP.as_nanos() as u64 * n as u64;
            (time * u64::from(WHOLE) + whole / 2) / whole
        };
        Some(Had {
            second: sum(10) as Share,
            minute: sum(STEPS - 1) as Share,
            used: m.used,
            waited: m.waited,
        })
    }
}

impl Member {
    /// Notes device time that was used up to now.
    fn remember(&mut self, now: Duration, used: Duration) {
        let last = step(now);
        // The first word is the number of the newest step.
        if self.steps.is_empty() {
            self.steps = vec![0; STEPS + 1];
            self.steps[0] = last as u32;
        }
        let newest = self.steps[0] as usize;
        for i in newest + 1..=last.min(newest + STEPS) {
            self.steps[1 + i % STEPS] = 0;
        }
        self.steps[0] = newest.max(last) as u32;
        // A long piece belongs to the steps before, too.
        let (mut left, mut at) = (used.as_nanos() as u64, now.as_nanos() as u64);
        let long = STEP.as_nanos() as u64;
        for _ in 0..STEPS {
            if left == 0 {
                break;
            }
            let i = at.saturating_sub(1) / long;
            let part = left.min(at - i * long);
            if let Some(s) = self.steps.get_mut(1 + i as usize % STEPS) {
                *s = s.saturating_add(part as u32);
            }
            (left, at) = (left - part, at - part);
            if at == 0 {
                break;
            }
        }
    }

    /// The time of a step, if it is remembered.
    fn at_step(&self, i: usize, last: usize) -> Option<u32> {
        let newest = *self.steps.first()? as usize;
        let there = i <= newest && i + STEPS > newest.max(last);
        there.then(|| self.steps[1 + i % STEPS])
    }
}

#[cfg(test)]
mod tests;
