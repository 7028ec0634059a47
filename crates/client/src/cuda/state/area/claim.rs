//! What says that kernels have an area's address.

/// How sure that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Evidence {
    /// A word of one launch's parameters, which may be what is left of something else.
    Passing,
    /// Such a word of a graph's node, which any number of launches have; or a graph copies there.
    Lasting,
    /// It is an address.
    Sure,
}

/// Memory that no launch has named for so many copies was named by mistake.
const COPIES: u32 = 4;

/// What is known so far.
#[derive(Debug)]
pub struct Claim {
    evidence: Evidence,
    /// Copies with an end there since a launch named it.
    copies: u32,
}

impl Claim {
    /// The first to be known.
    pub fn of(evidence: Evidence) -> Self {
        Self {
            evidence,
            copies: 0,
        }
    }

    /// A launch names it, or a graph has it.
    pub fn named(&mut self, e: Evidence) {
        (self.evidence, self.copies) = (self.evidence.max(e), 0);
    }

    /// A copy has an end there; whether the last word that named it is taken for a mistake.
    pub fn copied(&mut self) -> bool {
        self.copies = self.copies.saturating_add(1);
        self.is_over()
    }

    /// Whether the last word that named it is taken for a mistake.
    pub fn is_over(&self) -> bool {
        self.may_end() && self.copies > COPIES
    }

    /// Whether only what launches do with it says that kernels have its address.
    pub fn may_end(&self) -> bool {
        self.evidence == Evidence::Passing
    }

    /// Whether it may have been named by mistake: then the program must not wait for anything that
    /// it would not wait for without that.
    pub fn is_in_doubt(&self) -> bool {
        self.evidence < Evidence::Sure
    }
}
