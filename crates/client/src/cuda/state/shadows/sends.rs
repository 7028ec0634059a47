//! What the program has written goes to the device.

use super::{Areas, Far, MOST_SCANNED, Pages, longest_first, soon, words};
use crate::cuda::state::area::Area;
use busbar_abi::cuda::*;

impl Areas {
    /// Sends what the program has written; what is queued from now on finds it. Where the device
    /// `writes`, its bytes are the valid ones from now on.
    pub fn push(&mut self, pages: &impl Pages, far: &impl Far, writes: bool) -> Result<()> {
        let (mut any, mut done) = match self.send_written(pages, far, |_| true) {
            Ok(any) => (any, Ok(())),
            Err(e) => (true, Err(e)),
        };
        match self.send_edges(pages, far, |_| true) {
            Ok(sent) => any |= sent,
            Err(e) => done = done.and(Err(e)),
        }
        if writes {
            let doubts = std::mem::take(&mut self.doubts);
            self.each_lively(|a| {
                if !doubts.are_quiet(a) {
                    let left = a.leave_to_device(pages);
                    done = std::mem::replace(&mut done, Ok(())).and(left);
                }
            });
            self.doubts = doubts;
            let areas = &self.areas;
            let lively = |start: &u64| areas.get(start).is_some_and(Area::is_lively);
            self.lively.retain(lively);
        }
        if any {
            done = done.and(far.fence());
        }
        done
    }

    /// Sends what the program has written in protected pages; whether there was anything. What it
    /// wrote beside work that goes on is sent last, as changes of an edge are.
    pub(super) fn send_written(
        &mut self,
        pages: &impl Pages,
        far: &impl Far,
        which: impl Fn(&Area) -> bool,
    ) -> Result<bool> {
        let (mut any, mut done) = (false, Ok(()));
        let (mut found, mut sent) = (std::mem::take(&mut self.found), self.sent);
        let mut note = |dst, bytes: &[u8]| {
            if bytes.len() <= MOST_SCANNED {
                found.extend(far.suspects().among(words(dst, bytes)));
            }
        };
        let mut beside = Vec::new();
        self.each_lively(|a| {
            if a.has_news() && which(a) {
                let context = a.context;
                let send = |dst, bytes: &[u8]| {
                    note(dst, bytes);
                    (any, sent) = (true, sent + 1);
                    far.push(context, dst, bytes)
                };
                match a.push(pages, send) {
                    Ok(own) => beside.extend(own.into_iter().map(|b| (context, b))),
                    Err(e) => done = done.and(Err(e)),
                }
            }
        });
        longest_first(&mut beside, |(_, b)| b.place());
        for (context, b) in &beside {
            note(b.dst, &b.bytes);
            any = true;
            let times = far.push_parts(*context, b);
            done = done.and(times.map(|n| sent += n));
        }
        (self.found, self.sent) = (found, sent);
        done.map(|()| any)
    }

    /// Sends what the program has changed where nothing is protected; whether there was anything.
    /// Long pieces go first: a word that stands alone says that the others are there, as a rule.
    fn send_edges(
        &mut self,
        pages: &impl Pages,
        far: &impl Far,
        which: impl Fn(&Area) -> bool,
    ) -> Result<bool> {
        let mut news = Vec::new();
        let mut found = std::mem::take(&mut self.found);
        self.each_lively(|a| {
            if which(a) {
                let note = |dst, bytes: &[u8]| {
                    found.extend(far.suspects().among(words(dst, bytes)));
                };
                let own = a.edge_news(pages, note);
                news.extend(own.into_iter().map(|n| (a.start, a.context, n)));
            }
        });
        self.found = found;
        longest_first(&mut news, |(.., n)| (n.dst, n.bytes.len()));
        for (start, context, n) in &news {
            let len = n.bytes.len();
            far.push(*context, n.dst, &n.bytes)?;
            self.sent += 1;
            let heard = self.areas.get_mut(start).and_then(|a| {
                a.went(self.sent, n.at, len);
                n.first.then(|| soon(self.told, len, a.is_watched()))
            });
            if let Some(heard) = heard {
                far.open(n.dst, len, (n.at, heard), None)?;
                self.opened(*start, n.at, len, heard);
            }
        }
        Ok(!news.is_empty())
    }

    /// Sends what the program has changed where nothing is protected, while work is under way.
    pub fn push_edges(&mut self, pages: &impl Pages, far: &impl Far) -> Result<bool> {
        let any = self.send_edges(pages, far, Area::is_watched)?;
        if any {
            far.fence()?;
        }
        Ok(any)
    }
}
