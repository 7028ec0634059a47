//! Pieces of copies that go to devices of another server, and come from there.

use super::address::{check_destination, check_source};
use super::copy::register_one;
use super::copy_rows::{array, from_packed, packed, shape};
use super::done::{Kept, Then};
use super::prelude::*;
use super::reach;
use crate::across::{Link, Room};
use busbar_channel::switches::Switch;
use busbar_wire::codec::Message as _;
use busbar_wire::limits::LINK_PIECE;
use busbar_wire::link::Came;

/// Page-locked memory for a piece, if there is some.
fn room(w: &mut Cuda, len: usize) -> Option<Room> {
    if Switch::Staging.on() && !w.links.arena().is_registered() {
        let context = w.scope();
        register_one(w.driver, context, w.links.arena());
    }
    w.links.room(len).or_else(|| {
        // Copies may be done that nobody has looked for.
        w.completer.sweep();
        w.links.room(len)
    })
}

/// Why a piece is not being read: the result of the call, and what is said of the piece.
type Why = (CUresult, Came);

/// Has a piece read behind what a stream holds: where it will be.
fn read(w: &mut Cuda, m: &msg::LinkOut<'_>, mut c: CUDA_MEMCPY3D, len: usize) -> Result<Room, Why> {
    let room = room(w, len).ok_or((CUDA_SUCCESS, Came::NoRoom))?;
    let rc = attempt(|| {
        let stream = w.running_stream(m.stream)? as CUstream;
        c.srcArray = array(w, m.array)?;
        check_source(w, &c)?;
        // No box so far out that its rows cannot be named.
        let rows = c.srcY.checked_add(c.Height);
        let slices = c.srcZ.checked_add(c.Depth);
        refuse_if(rows.is_none() || slices.is_none(), CUDA_ERROR_INVALID_VALUE)?;
        packed(&mut c, room.at());
        // SAFETY: a source that was checked; room for as many bytes as the box has, which is kept
        // until they are sent.
        unsafe { reach::rows(w, stream, &c) }
    });
    match rc {
        CUDA_SUCCESS => Ok(room),
        rc => Err((rc, Came::Unread)),
    }
}

/// A piece that was to be read is there, or will not be: what the client is to hear of it.
fn pass_on(link: &Link, piece: u64, read: Result<Room, Came>) -> Came {
    match read {
        Ok(room) => match link.send(piece, room) {
            true => Came::Whole,
            false => Came::Lost,
        },
        Err(came) => {
            link.unread(piece);
            came
        }
    }
}

pub fn link_out(w: &mut Cuda, m: msg::LinkOut<'_>) -> Result<Answered, WireError> {
    let (c, len) = shape(m.shape)?;
    if !(1..=LINK_PIECE).contains(&len) {
        return Err(WireError::BadValue("length of a piece"));
    }
    let (outbox, call, piece) = (w.outbox.clone(), w.record.call, m.piece);
    let answer = move |rc, read: Came| {
        let m = msg::LinkOutReply { read: read as u32 };
        outbox.put_reply(call, rc, |w| m.encode(w));
    };
    let Some(link) = w.links.get(m.link) else {
        answer(CUDA_SUCCESS, Came::Lost);
        w.outbox.flush();
        return Ok(Answered);
    };
    let (stream, ctx) = w.here(m.stream);
    match read(w, &m, c, len) {
        Ok(room) => {
            let then = move |rc| {
                let read = match rc {
                    CUDA_SUCCESS => Ok(room),
                    _ => Err(Came::Unread),
                };
                answer(rc, pass_on(&link, piece, read));
            };
            w.completer.after(stream, ctx, Then::Run(Box::new(then)));
        }
        Err((rc, why)) => {
            let then = move |rc| answer(rc, pass_on(&link, piece, Err(why)));
            w.completer.now(rc, Then::Run(Box::new(then)));
        }
    }
    Ok(Answered)
}

pub fn link_in(w: &mut Cuda, m: msg::LinkIn) -> Result<Answered, WireError> {
    let len = m.len as usize;
    if !(1..=LINK_PIECE).contains(&len) {
        return Err(WireError::BadValue("length of a piece"));
    }
    let (outbox, call) = (w.outbox.clone(), w.record.call);
    let told = move |came: Came| {
        let m = msg::LinkInReply { came: came as u32 };
        outbox.reply(call, CUDA_SUCCESS, |w| m.encode(w));
    };
    match w.links.get(m.link) {
        Some(link) => link.expect(m.piece, room(w, len), Box::new(told)),
        None => told(Came::Lost),
    }
    Ok(Answered)
}

pub fn link_land(w: &mut Cuda, m: msg::LinkLand<'_>) -> Result<(), Fail> {
    let (mut c, len) = shape(m.shape)?;
    let link = w.links.get(m.link).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    let room = link.take(m.piece).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    if room.len() != len {
        return Err(WireError::BadValue("length of a piece").into());
    }
    let stream = w.running_stream(m.stream)? as CUstream;
    c.dstArray = array(w, m.array)?;
    check_destination(w, &c)?;
    // SAFETY: as many bytes as the box has, which are kept until the copy is done.
    unsafe { from_packed(w, &mut c, room.at(), stream)? };
    let (stream, ctx) = w.here(m.stream);
    let kept = Kept::Shared(Arc::new(room));
    w.completer.after(stream, ctx, Then::Release(kept));
    Ok(())
}

pub fn link_end(w: &mut Cuda, m: msg::LinkEnd) -> Result {
    w.links.end(m.link);
    Ok(())
}
