//! What a record's handler gives back, and what its client is told of that.

use busbar_abi::Plain;
use busbar_wire::WireError;
use busbar_wire::codec::{Message, Writer};
use std::ffi::CString;

/// Why a record was not executed.
#[derive(Debug)]
pub enum Fail {
    /// The client broke the protocol.
    Wire(WireError),
    /// The library said no, or would have.
    Code(i32),
    /// As [`Fail::Code`], said behind what the completion engine has to say yet.
    Behind(i32),
}

impl From<WireError> for Fail {
    fn from(e: WireError) -> Self {
        Self::Wire(e)
    }
}

impl From<i32> for Fail {
    fn from(e: i32) -> Self {
        Self::Code(e)
    }
}

/// The failure of a record that the completion engine answers.
pub struct Behind(pub i32);

impl From<i32> for Behind {
    fn from(e: i32) -> Self {
        Self(e)
    }
}

impl From<Behind> for Fail {
    fn from(Behind(e): Behind) -> Self {
        Self::Behind(e)
    }
}

/// What a handler that did not fail has to tell.
pub trait Outcome {
    /// The result; `None` where the handler has answered, or left that to the completion engine.
    fn code(&self) -> Option<i32> {
        Some(0)
    }

    /// Writes the reply.
    fn encode(&self, w: &mut Writer<'_>);
}

impl<'a, M: Message<'a>> Outcome for M {
    fn encode(&self, w: &mut Writer<'_>) {
        Message::encode(self, w);
    }
}

/// The record is answered already, or will be.
pub struct Answered;

impl Outcome for Answered {
    fn code(&self) -> Option<i32> {
        None
    }

    fn encode(&self, _w: &mut Writer<'_>) {}
}

/// A reply that counts whatever the result is.
pub struct Always<T>(pub i32, pub T);

impl<T: Outcome> Outcome for Always<T> {
    fn code(&self) -> Option<i32> {
        Some(self.0)
    }

    fn encode(&self, w: &mut Writer<'_>) {
        self.1.encode(w);
    }
}

/// A reply that was written while what it borrows was there.
pub struct Encoded(Vec<u8>);

impl Encoded {
    /// The fields of a reply.
    pub fn of<'a>(m: &impl Message<'a>) -> Self {
        let mut bytes = Vec::new();
        m.encode(&mut Writer::new(&mut bytes));
        Self(bytes)
    }
}

impl Outcome for Encoded {
    fn encode(&self, w: &mut Writer<'_>) {
        w.raw(&self.0);
    }
}

/// A structure of the library's that travelled as its bytes.
pub fn plain<T: Plain>(bytes: &[u8]) -> Result<T, WireError> {
    busbar_abi::from_bytes(bytes).ok_or(WireError::BadValue("structure"))
}

/// As [`plain`], of an array.
pub fn items<T: Plain>(bytes: &[u8]) -> Result<Vec<T>, WireError> {
    busbar_abi::items_from_bytes(bytes).ok_or(WireError::BadValue("array"))
}

/// Text for the library.
pub fn text(s: impl Into<Vec<u8>>) -> Result<CString, WireError> {
    CString::new(s).map_err(|_| WireError::BadText)
}
