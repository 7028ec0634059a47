//! The lines of the spec that travel, as tables: see `build.rs`.

/// A message.
pub struct Line {
    /// Its id.
    pub op: u16,
    /// Its name, for people.
    pub name: &'static str,
    /// Whether its sender waits for an answer.
    pub waits: bool,
    /// Its fields in order.
    pub fields: &'static [Field],
}

/// A field.
pub struct Field {
    /// How it travels.
    pub wire: Wire,
    /// If it names objects: the number of their kind, and what becomes of them.
    pub object: Option<(u16, Act)>,
}

/// How a field travels.
pub enum Wire {
    /// So many bytes.
    Raw(usize),
    /// A count, and that many items of so many bytes.
    Counted(usize),
    /// Counted text.
    Text,
    /// All that is left.
    Rest,
}

/// What becomes of an object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// It is there afterwards.
    Creates,
    /// It must be there.
    Uses,
    /// It is gone afterwards.
    Destroys,
}

/// The line of a message among those of its API, which are in the order of their ids.
pub fn find(lines: &'static [Line], op: u16) -> Option<&'static Line> {
    let at = lines.binary_search_by_key(&op, |l| l.op).ok()?;
    Some(&lines[at])
}

include!(concat!(env!("OUT_DIR"), "/lines.rs"));
