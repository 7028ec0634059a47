//! The time of one device, and whose it is: a pure state machine over what workers are seen to do.
//!
//! One session at a time has the **turn**, and only its worker submits; those who leave the device
//! idle have theirs together. Every session has a
//! balance: device time that is used is taken from whoever used it, and given to all that want
//! some, by weight. Who has the most gets the next turn. So a kernel that was longer than a turn is
//! repaid by shorter or fewer ones, and what an idle session leaves is the others' at once. A
//! session that has a device to itself has a free pass, and nothing here is asked; so have all
//! sessions of a device of which nobody was promised a share, and nobody goes first.

mod part;
mod past;

pub use part::{Part, Share, WHOLE};
use past::Past;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

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
    /// How long the device was behind what it had submitted, in all.
    pub behind: Duration,
    /// A number that changes when work is done.
    pub done: u32,
}

/// What a worker is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// There are no turns: submit, and ask nobody.
    Free,
    /// Do not submit.
    Wait,
    /// As `Wait`, but the turn that is being handed over is to be yours: look out for it.
    Soon,
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
/// What a session may be owed, or owe.
const MOST: i64 = 1_000_000_000;
/// What one that is idle is owed at most. Beside one that has three quarters it has a turn of 15 ms
/// for that, and waits 40 ms for the next one: a quarter of the time, less what changing takes.
const CREDIT: i64 = 12_000_000;
/// How long a turn may be held idle while others wait.
const GRACE: Duration = Duration::from_millis(1);
/// How long the end of a turn waits for work that is under way.
const DRAIN: Duration = Duration::from_millis(50);
/// The same where work of an earlier turn is under way still.
const DRAIN_AGAIN: Duration = Duration::from_millis(5);
/// How often is looked while somebody waits.
const LOOK: Duration = Duration::from_micros(500);
/// The same while several have the turn together, and nobody waits.
const LOOK_TOGETHER: Duration = Duration::from_millis(20);
/// What one that is idle may still be owed beyond its credit, it keeps for so long: it may only be
/// hearing that its work is done.
const PAUSE: Duration = Duration::from_millis(20);
/// How much of a session's own turn shows whether it leaves the device idle.
const PROOF: Duration = Duration::from_millis(3);
/// Of so many such times, about, it must have done so on the whole.
const PROOFS: Share = 16;
/// For how long that is believed.
const BELIEVED: Duration = Duration::from_secs(2);
/// The weight of who has no promise where all is promised, in thousandths: not quite nothing.
const LEAST: i64 = 10;
/// Who has waited for a turn for so long goes first once, whatever others are owed and whoever goes
/// before it, for the shortest turn.
const LONG: Duration = Duration::from_secs(1);
/// From one such turn to the next, at least: that is what all others lose by them.
const APART: Duration = Duration::from_millis(100);

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
    /// It was idle for the shortest turn before it wanted something, and has had none since.
    rested: bool,
    /// Since when it has neither wanted a turn nor used one.
    idle: Option<Duration>,
    /// How long it had the turn alone since it last showed whether it leaves the device idle, and
    /// how long the device was behind then.
    proof: (Duration, Duration),
    /// How much of its turns alone the device was behind, of late, in thousandths.
    usual: Share,
    /// When it last showed that it leaves the device idle, if it did so the last time.
    sparse: Option<Duration>,
    busy: Duration,
    behind: Duration,
    done: u32,
    /// Since when nothing of its was done although it had no turn, or was to hand one over.
    stuck: Option<Duration>,
    used: Duration,
    waited: Duration,
    /// Since when it has wanted a turn, and had none.
    hungry: Option<Duration>,
    past: Past,
}

#[derive(Debug)]
struct Turn {
    /// One session, or several that leave the device idle.
    of: BTreeSet<u64>,
    since: Duration,
    stopped: Option<Duration>,
    /// Work of an earlier turn was under way when it began.
    stale: bool,
    /// It does not end before the shortest one: its session had waited for long, or had rested.
    firm: bool,
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
    /// The highest priority of all, at the last look.
    top: i32,
}

fn ns(d: Duration) -> i64 {
    i64::try_from(d.as_nanos()).unwrap_or(i64::MAX)
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
            rested: false,
            idle: Some(Duration::ZERO),
            proof: Default::default(),
            usual: WHOLE,
            sparse: None,
            busy: Duration::ZERO,
            behind: Duration::ZERO,
            done: 0,
            stuck: None,
            used: Duration::ZERO,
            waited: Duration::ZERO,
            hungry: None,
            past: Past::default(),
        };
        self.members.insert(of, m);
    }

    /// A session goes; the turn, if it has it, is free.
    pub fn leave(&mut self, of: u64) {
        self.members.remove(&of);
        self.turn.take_if(|t| t.of.remove(&of) && t.of.is_empty());
    }

    /// Whether a session is there.
    pub fn has_joined(&self, of: u64) -> bool {
        self.members.contains_key(&of)
    }

    /// What a session was told last.
    pub fn said(&self, of: u64) -> Option<Word> {
        self.members.get(&of).map(|m| m.said)
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
        let priorities = self.members.values().map(|m| m.part.priority);
        self.top = priorities.max().unwrap_or_default();
        let before: Vec<_> = self.members.iter().map(|(k, m)| (*k, m.said)).collect();
        if self.is_shared() {
            self.decide(now, &seen);
            self.announce(now);
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
        let late = self.beside().next().is_some();
        let together = self.turn.as_ref().is_some_and(|t| t.of.len() > 1);
        let again = match self.is_shared() {
            true if self.waited || late => Some(LOOK),
            true if together => Some(LOOK_TOGETHER),
            _ => None,
        };
        (changed.collect(), again)
    }

    /// How long a turn had been on its way to the next one at the last look, if one is.
    pub fn hands_over(&self) -> Option<Duration> {
        let stopped = self.turn.as_ref()?.stopped?;
        Some(self.at.saturating_sub(stopped))
    }

    /// Who has the turn, whether it ends, and of each session what it was told, what it is owed and
    /// what it does: for a log, on one line.
    pub fn line(&self) -> String {
        let turn = self.turn.as_ref();
        let of: Vec<_> = turn
            .iter()
            .flat_map(|t| &t.of)
            .map(u64::to_string)
            .collect();
        let ends = if self.hands_over().is_some() {
            " ends"
        } else {
            ""
        };
        let mut line = format!("turn={}{ends}", of.join("+"));
        for (k, m) in self.members.iter().filter(|(_, m)| m.present) {
            let owed = m.balance / 1000;
            line += &format!("; {k} {:?} owed_us={owed} behind={}", m.said, m.usual);
            for (is, word) in [(m.wants, " wants"), (m.under_way, " under_way")] {
                line += if is { word } else { "" };
            }
        }
        line.to_lowercase()
    }

    /// How many have the turn, if a session is among them.
    pub fn holders(&self, of: u64) -> usize {
        let turn = self.turn.as_ref().filter(|t| t.of.contains(&of));
        turn.map_or(0, |t| t.of.len())
    }

    /// Whose work is under way although the turn is not theirs.
    pub fn beside(&self) -> impl Iterator<Item = u64> {
        let all = self.members.iter();
        all.filter(|(k, m)| m.under_way && !self.has(**k))
            .map(|(k, _)| *k)
    }

    /// Whether a session has the turn, alone or with others.
    fn has(&self, of: u64) -> bool {
        self.turn.as_ref().is_some_and(|t| t.of.contains(&of))
    }

    /// Who has the turn alone.
    fn alone(&self) -> Option<u64> {
        let one = self.turn.as_ref().filter(|t| t.of.len() == 1)?;
        one.of.first().copied()
    }

    fn waits(&self) -> bool {
        self.members.iter().any(|(k, m)| m.wants && !self.has(*k))
    }

    /// Takes what was used since the last look from those who used it, and gives it to those who
    /// want some.
    fn account(&mut self, now: Duration, seen: &BTreeMap<u64, Seen>) {
        let past = now - self.at;
        let used = self.used(now, seen);
        self.prove(now, seen);
        // Nobody looks while nobody waits: whoever begins to want some was owed nothing of what the
        // others had until then.
        let unwatched = (!self.waited).then(|| self.weights());
        let turn = self.turn.as_ref().map(|t| t.of.clone()).unwrap_or_default();
        for (k, m) in &mut self.members {
            let Some(s) = seen.get(k) else { continue };
            // Whoever has just handed a turn over, with work under way still, only goes on.
            if let Some(from) = m.idle.filter(|_| s.wants) {
                m.fresh = true;
                m.rested |= now - from >= SHORTEST;
            }
            m.hungry = match s.wants && !turn.contains(k) {
                true if m.wants => {
                    m.waited += past;
                    m.hungry.or(Some(self.at))
                }
                true => Some(now),
                false => None,
            };
            (m.present, m.wants, m.under_way) = (s.present, s.wants, s.under_way);
            (m.busy, m.behind) = (s.busy, s.behind);
            // Of several who have the turn together each may be idle for a moment.
            let together = turn.len() > 1 && turn.contains(k) && used.contains_key(k);
            let active = m.wants || m.under_way || together;
            m.idle = (!active).then(|| m.idle.unwrap_or(now));
        }
        let weights = unwatched.unwrap_or_else(|| self.weights());
        let all: i64 = weights.values().sum::<i64>().max(1);
        let time: i64 = used.values().map(|t| ns(*t)).sum();
        for (k, t) in used {
            if let Some(m) = self.members.get_mut(&k) {
                m.balance -= ns(t);
                m.used += t;
                m.past.remember(now, t);
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
            let pauses = m.idle.is_some_and(|from| now - from < PAUSE);
            let most = if pauses {
                m.balance.max(CREDIT)
            } else {
                CREDIT
            };
            left += (m.balance - most).max(0);
            let whole = i64::from(WHOLE);
            let w = m.part.share.map_or(whole / count, i64::from);
            m.balance = (m.balance + of(ns(past), w, whole)).min(most);
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

    /// What each has used since the last look: the driver divides the device among those whose work
    /// is under way, in a turn that they have together or beyond their own.
    fn used(&self, now: Duration, seen: &BTreeMap<u64, Seen>) -> BTreeMap<u64, Duration> {
        let past = now - self.at;
        let together = self.turn.as_ref().is_some_and(|t| t.of.len() > 1);
        let time = |(k, m): (&u64, &Member)| {
            let s = seen.get(k)?;
            let time = match s.turn {
                _ if !self.has(*k) => match s.under_way && self.is_shared() {
                    true => past,
                    false => Duration::ZERO,
                },
                // Of several who have it together each may be idle for a moment.
                Use::Idle(since)
                    if together && self.waited && now.saturating_sub(since) < GRACE =>
                {
                    past
                }
                // While others wait it has the device to itself, whether it uses it or not.
                Use::Idle(since) if self.waited => since.clamp(self.at, now) - self.at,
                _ if self.waited => past,
                _ => s.busy.saturating_sub(m.busy).min(past),
            };
            (!time.is_zero()).then_some((*k, time))
        };
        let mut used: BTreeMap<_, _> = self.members.iter().filter_map(time).collect();
        let n = used.len().max(1) as u32;
        used.values_mut().for_each(|t| *t /= n);
        used
    }

    /// Sees whether whoever has the turn alone leaves the device idle. With others' work beside its
    /// own that would not show: the device would be behind by theirs.
    fn prove(&mut self, now: Duration, seen: &BTreeMap<u64, Seen>) {
        let Some(of) = self.alone() else { return };
        let beside = |(k, s): (&u64, &Seen)| *k != of && s.under_way;
        let going_on = self.turn.as_ref().is_some_and(|t| t.stopped.is_none());
        if !going_on || seen.iter().any(beside) {
            return;
        }
        let past = now - self.at;
        if let (Some(m), Some(s)) = (self.members.get_mut(&of), seen.get(&of)) {
            m.proof.0 += past;
            m.proof.1 += s.behind.saturating_sub(m.behind).min(past);
            if m.proof.0 >= PROOF {
                let (whole, behind) = std::mem::take(&mut m.proof);
                let now_behind = (ns(behind) * i64::from(WHOLE) / ns(whole)) as Share;
                m.usual = ((PROOFS - 1) * m.usual + now_behind) / PROOFS;
                // A program may leave the device idle in a part of each of its steps: that is no
                // proof.
                m.sparse = (m.usual.max(now_behind) < WHOLE / 2).then_some(now);
            }
        }
    }

    /// What each has of what is used, of those who want some: what it is promised, and those who go
    /// first the rest. Who has neither is owed nothing, however long it waits.
    fn weights(&self) -> BTreeMap<u64, i64> {
        let holder = self.alone();
        let active = |(k, m): &(&u64, &Member)| m.idle.is_none() || holder == Some(**k);
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

    /// Who goes first of two who want the device: who has waited for long, and then by priority,
    /// against which a promise holds.
    fn class(&self, now: Duration, m: &Member) -> (bool, i32) {
        let first = match m.part.share.is_some() && m.balance > 0 {
            true => self.top,
            false => m.part.priority,
        };
        (self.is_late(now, m), first)
    }

    /// As [`Timeshare::class`], then who has rested and had less than its part, then by what each
    /// is owed.
    fn rank(&self, now: Duration, m: &Member) -> ((bool, i32), bool, i64) {
        (self.class(now, m), m.rested && m.balance > 0, m.balance)
    }

    /// Who has the best right to the next turn, of those who have none.
    fn next(&self, now: Duration) -> Option<(u64, &Member)> {
        let wanting = self
            .members
            .iter()
            .filter(|(k, m)| m.wants && !self.has(**k) && !matches!(m.said, Word::End));
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
        let turn = |k: &u64| seen.get(k).map_or(Use::None, |s| s.turn);
        let Some(t) = &self.turn else {
            return self.give(now);
        };
        if t.of.iter().all(|k| turn(k) == Use::None) {
            // It has handed it over, or never taken it up.
            self.take_back();
            return self.give(now);
        }
        if let Some(stopped) = t.stopped {
            let most = if t.stale { DRAIN_AGAIN } else { DRAIN };
            if now.saturating_sub(stopped) >= most {
                // What is under way still is charged as it runs on beside the next one's work.
                self.take_back();
                self.give(now);
            }
            return;
        }
        self.part(now);
        self.gather(now);
        let (Some(t), Some((_, best))) = (&self.turn, self.next(now)) else {
            return;
        };
        let since = t.since;
        let holders = t.of.iter().filter_map(|k| self.members.get(k));
        let active = holders.clone().filter(|m| m.idle.is_none());
        let Some(holder) = active.chain(holders).max_by_key(|m| {
            let idle = m.idle.is_some();
            (!idle, self.class(now, m), m.balance)
        }) else {
            return;
        };
        let (theirs, ours) = (self.class(now, best), self.class(now, holder));
        let first = best.part.priority > holder.part.priority && theirs > ours;
        let gap = if best.fresh { 0 } else { GAP };
        let over = match theirs.cmp(&ours) {
            Ordering::Greater => now.saturating_sub(since) >= SHORTEST,
            Ordering::Equal => best.balance - holder.balance >= gap,
            Ordering::Less => false,
        };
        let idle = |k| match turn(k) {
            Use::Idle(from) => now.saturating_sub(from.max(since)) >= GRACE,
            other => other == Use::None,
        };
        let idle = t.of.iter().all(idle);
        let short = t.firm && now.saturating_sub(since) < SHORTEST;
        if !short && self.rank(now, best).1 && theirs >= ours {
            // It has little to do, or would not have rested: beside what is under way of the
            // holder's it is done sooner than behind that.
            self.take_back();
            self.give(now);
        } else if idle || !short && (first || over) {
            if let Some(t) = &mut self.turn {
                t.stopped = Some(now);
            }
            self.tell_all(Word::Stop);
        }
    }

    /// Whoever has the best right to the turn that is being handed over knows it, and nobody else.
    fn announce(&mut self, now: Duration) {
        let ends = self.turn.as_ref().is_some_and(|t| t.stopped.is_some());
        let next = self.next(now).filter(|_| ends).map(|(k, _)| k);
        for (k, m) in &mut self.members {
            m.said = match m.said {
                Word::Wait if next == Some(*k) => Word::Soon,
                Word::Soon if next != Some(*k) => Word::Wait,
                other => other,
            };
        }
    }

    /// Tells all who have the turn.
    fn tell_all(&mut self, word: Word) {
        let all = self.turn.as_ref().map(|t| t.of.clone());
        for k in all.unwrap_or_default() {
            self.say(k, word);
        }
    }

    /// Nobody has the turn any more.
    fn take_back(&mut self) {
        self.tell_all(Word::Wait);
        self.turn = None;
    }

    fn is_sparse(&self, now: Duration, m: &Member) -> bool {
        m.sparse.is_some_and(|at| now.saturating_sub(at) < BELIEVED)
    }

    /// Of those who have the turn together, has leave it who must show again that it leaves the
    /// device idle, or has had too much.
    fn part(&mut self, now: Duration) {
        let Some(t) = self.turn.as_ref().filter(|t| t.of.len() > 1) else {
            return;
        };
        let all = t.of.iter().filter_map(|k| Some((*k, self.members.get(k)?)));
        let most = all.clone().filter(|(_, m)| m.idle.is_none());
        let most = most.map(|(_, m)| m.balance).max().unwrap_or(-MOST);
        let leaves = |m: &Member| !self.is_sparse(now, m) || most - m.balance > 2 * GAP;
        let leave: Vec<_> = all.filter(|(_, m)| leaves(m)).map(|(k, _)| k).collect();
        for k in leave {
            if let Some(t) = self.turn.as_mut().filter(|t| t.of.len() > 1) {
                t.of.remove(&k);
                self.say(k, Word::Wait);
            }
        }
    }

    /// If those who have the turn leave the device idle, others who do have it with them.
    fn gather(&mut self, now: Duration) {
        let Some(t) = &self.turn else { return };
        let holders = t.of.iter().filter_map(|k| self.members.get(k));
        if !holders.clone().all(|m| self.is_sparse(now, m)) {
            return;
        }
        let Some(first) = holders.clone().map(|m| self.class(now, m)).max() else {
            return;
        };
        let most = holders.map(|m| m.balance).max().unwrap_or(MOST);
        let joins = |(k, m): &(&u64, &Member)| {
            m.wants
                && !self.has(**k)
                && !matches!(m.said, Word::End)
                && self.is_sparse(now, m)
                && self.class(now, m) >= first
                && most - m.balance <= GAP
        };
        let join: Vec<_> = self.members.iter().filter(joins).map(|(k, _)| *k).collect();
        for k in join {
            if let Some(t) = &mut self.turn {
                t.of.insert(k);
            }
            self.begin(k);
        }
    }

    /// A session has the turn from now on.
    fn begin(&mut self, of: u64) {
        if let Some(m) = self.members.get_mut(&of) {
            (m.rested, m.fresh) = (false, false);
        }
        self.say(of, Word::Go);
    }

    /// Gives the turn, which nobody has.
    fn give(&mut self, now: Duration) {
        let Some((of, m)) = self.next(now) else {
            return;
        };
        let (stale, late) = (m.under_way, self.is_late(now, m));
        let firm = late || self.rank(now, m).1;
        if late {
            self.fed = Some(now);
        }
        self.turn = Some(Turn {
            of: BTreeSet::from([of]),
            since: now,
            stopped: None,
            stale,
            firm,
        });
        self.members.values_mut().for_each(|m| m.fresh = false);
        self.begin(of);
        self.gather(now);
    }

    /// Ends who has kept others waiting for longer than the limit by one piece of work.
    fn end_stuck(&mut self, now: Duration, seen: &BTreeMap<u64, Seen>) {
        let going_on = self.turn.as_ref().filter(|t| t.stopped.is_none());
        let holders = going_on.map(|t| t.of.clone()).unwrap_or_default();
        let wanted = |but: u64| {
            let others = self.members.iter().filter(|(k, _)| **k != but);
            others
                .into_iter()
                .any(|(k, m)| m.wants || m.under_way || holders.contains(k))
        };
        let wanted: BTreeMap<u64, bool> = self.members.keys().map(|k| (*k, wanted(*k))).collect();
        for (k, m) in &mut self.members {
            let Some(s) = seen.get(k) else { continue };
            let moved = m.done != s.done;
            m.done = s.done;
            if moved || !s.under_way || !wanted[k] {
                m.stuck = None;
            } else if m.stuck.is_none() && !holders.contains(k) {
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
        Some(Had {
            second: m.past.share(self.at, past::SECOND),
            minute: m.past.share(self.at, past::MINUTE),
            used: m.used,
            waited: m.waited,
        })
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod world;
