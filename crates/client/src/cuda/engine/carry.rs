//! Bytes from the devices of one server to those of another, by streams of our own on both sides.
//!
//! They go over a link between the servers. Each piece is read at the one end, and expected and put
//! into its place at the other; the client says so and hears what has become of it, and sees
//! nothing of the bytes. Until a piece is whole at the other end nothing of it is written there: so
//! whatever a link has not brought is read once more, and goes through the client. That is the way
//! of all pieces where there is no link.

use super::prelude::*;
use crate::cuda::call::links::{Link, Place};
use crate::cuda::engine::helper::Helper;
use crate::cuda::state::rows::{ARRAY, End, Rows, shape};
use busbar_channel::Bulk;
use busbar_wire::codec::Message;
use busbar_wire::limits::{BULK_CHUNK, LINK_PIECE};
use busbar_wire::link::Came;
use std::sync::mpsc::{Receiver, channel};

/// How many bytes go at a time: both ways have room for as many.
const PIECE: usize = LINK_PIECE;
const _: () = assert!(PIECE <= BULK_CHUNK);
/// How many pieces of a copy are under way, at most: over a link, and through the client, where
/// they take the program's memory.
const BY_LINK: usize = 32;
const BY_CLIENT: usize = 16;
/// How long a copy waits for its turn on a link. What holds its places may wait, on a device, for
/// this very copy.
const PATIENCE: Duration = Duration::from_secs(2);

/// A copy in progress.
struct Carry {
    from: Helper,
    to: Helper,
    /// The ids of the arrays; 0 where an end is none.
    arrays: [u32; 2],
    link: Option<Arc<Link>>,
}

/// Carries a box, whose ends are known at their clients, and waits until it is there.
pub fn carry((d, s): (Cx, Cx), r: &Rows) -> Result<()> {
    let array = |cx: Cx, e: &End| match e.memory {
        ARRAY => cx.handle(Kind::Array, e.array),
        _ => Ok(0),
    };
    let arrays = [array(s, &r.src)?, array(d, &r.dst)?];
    let (from, to) = (Helper::of(s)?, Helper::of(d)?);
    // What of the program's memory has pages on a device, too, is to be up to date there.
    let sends = |of: &Helper| of.cx.work_if_shadowed(of.id, Touch::All);
    let _sending = (sends(&from)?, sends(&to)?);
    let links = d.client.all().first().map(|c| &c.links);
    let ends = [s, d].map(|cx| (cx.client.server, &cx.client.session));
    let link = links.and_then(|l| l.between(ends));
    let mut carry = Carry {
        from,
        to,
        arrays,
        link,
    };
    let done = carry.all(r);
    if done.is_err()
        && let Some(link) = &carry.link
    {
        // There may be pieces on it that nobody takes.
        link.lose();
    }
    done
}

impl Carry {
    fn all(&mut self, r: &Rows) -> Result<()> {
        let mut left = r.stripes(PIECE).flat_map(|r| r.boxes_of(PIECE)).peekable();
        let mut pieces = VecDeque::new();
        loop {
            while left.peek().is_some()
                && let Some(way) = self.way(pieces.len())
                && let Some(rows) = left.next()
            {
                pieces.push_back(self.begin(rows, way)?);
            }
            let Some(piece) = pieces.pop_front() else {
                return self.to.wait();
            };
            self.land(piece)?;
        }
    }

    /// The way of the next piece, while there is room on it for more than these.
    fn way(&mut self, under_way: usize) -> Option<Way> {
        self.link.take_if(|link| link.is_lost());
        let Some(link) = &self.link else {
            return (under_way < BY_CLIENT).then_some(Way::Client);
        };
        if under_way >= BY_LINK {
            return None;
        }
        let patience = match under_way {
            0 => PATIENCE,
            _ => Duration::ZERO,
        };
        match link.place(self.to.cx.client.server, patience) {
            Some(place) => Some(Way::Link(link.clone(), place)),
            None => (under_way == 0).then_some(Way::Client),
        }
    }

    fn begin(&self, rows: Rows, way: Way) -> Result<Piece> {
        let going = match way {
            Way::Link(link, place) => self.send_over(&rows, link, place)?,
            Way::Client => self.fetch(&rows)?,
        };
        self.from.cx.client.session.flush();
        self.to.cx.client.session.flush();
        Ok(Piece { rows, going })
    }

    fn send_over(&self, rows: &Rows, link: Arc<Link>, place: Place) -> Result<Going> {
        let (number, piece) = (link.number, link.next_piece());
        let came = ask(
            &self.to,
            &msg::LinkIn {
                link: number,
                pad: 0,
                piece,
                len: bytes(rows) as u64,
            },
            |m: msg::LinkInReply| m.came,
        )?;
        let s = shape(rows);
        let read = ask(
            &self.from,
            &msg::LinkOut {
                link: number,
                array: self.arrays[0],
                piece,
                shape: busbar_abi::bytes_of(&s),
                stream: self.from.id,
            },
            |m: msg::LinkOutReply| m.read,
        )?;
        Ok(Going::Link {
            link,
            _place: place,
            piece,
            read,
            came,
        })
    }

    /// Has a piece come to the program.
    fn fetch(&self, rows: &Rows) -> Result<Going> {
        let len = bytes(rows);
        let mut bytes = vec![0; len];
        let s = shape(rows);
        let m = msg::CopyOutRows {
            shape: busbar_abi::bytes_of(&s),
            array: self.arrays[0],
            len: len as u64,
            stream: self.from.id,
        };
        let (tx, came) = channel();
        let place = Some((bytes.as_mut_ptr(), len));
        let then = move |a: Option<crate::calls::Answer>| {
            let status = a.map_or(CUDA_ERROR_DEVICE_UNAVAILABLE, |a| a.status);
            let _ = tx.send(status);
        };
        let from = self.from.cx;
        let session = &from.client.session;
        // SAFETY: the bytes stay where they are until the answer has come: `Fetched` waits for it.
        let asked = unsafe { session.call_async(from.scope, &m, place, then) };
        asked.map_err(|_| CUDA_ERROR_DEVICE_UNAVAILABLE)?;
        Ok(Going::Client(Fetched { bytes, came }))
    }

    /// Waits for a piece, and has it put into its place, on whichever way it gets there.
    fn land(&self, p: Piece) -> Result<()> {
        let s = shape(&p.rows);
        let shape = busbar_abi::bytes_of(&s);
        let (array, stream, to) = (self.arrays[1], self.to.id, self.to.cx);
        let fetched = match p.going {
            Going::Client(fetched) => fetched,
            Going::Link {
                link,
                piece,
                read,
                came,
                ..
            } => {
                let read = hear(&read);
                let fate = hear(&came)?;
                let read = read?;
                if fate == Came::Whole {
                    let link = link.number;
                    return to.send(&msg::LinkLand {
                        link,
                        array,
                        piece,
                        shape,
                        stream,
                    });
                }
                if [read, fate].contains(&Came::Lost) {
                    link.lose();
                }
                match self.fetch(&p.rows)? {
                    Going::Client(fetched) => fetched,
                    Going::Link { .. } => return Err(CUDA_ERROR_UNKNOWN),
                }
            }
        };
        self.from.cx.client.session.flush();
        let data = fetched.come()?;
        let m = msg::CopyInRows {
            shape,
            array,
            stream,
            data: &[],
        };
        to.send_bulk(&m, Bulk::Copy(data))
    }
}

/// By which way a piece goes.
enum Way {
    Link(Arc<Link>, Place),
    Client,
}

/// What an answer says of a piece.
type Fate = Receiver<Result<Came>>;

enum Going {
    Link {
        link: Arc<Link>,
        _place: Place,
        piece: u64,
        read: Fate,
        came: Fate,
    },
    Client(Fetched),
}

/// A piece on its way.
struct Piece {
    rows: Rows,
    going: Going,
}

/// Bytes on their way to the program.
struct Fetched {
    bytes: Vec<u8>,
    came: Receiver<CUresult>,
}

impl Fetched {
    fn come(&self) -> Result<&[u8]> {
        match self.came.recv() {
            Ok(CUDA_SUCCESS) => Ok(&self.bytes),
            Ok(e) => Err(e),
            Err(_) => Err(CUDA_ERROR_DEVICE_UNAVAILABLE),
        }
    }
}

impl Drop for Fetched {
    fn drop(&mut self) {
        // At once, where it was waited for: nobody sends any more.
        let _ = self.came.recv();
    }
}

fn bytes(r: &Rows) -> usize {
    r.width * r.height * r.depth
}

/// Asks for a piece at one end of a link: what becomes of it will be told.
fn ask<'a, R: busbar_wire::codec::Request<'a>, A>(
    at: &Helper,
    m: &R,
    fate: fn(A) -> u32,
) -> Result<Fate>
where
    A: for<'b> Message<'b> + 'static,
{
    let (tx, told) = channel();
    let then = move |a: Option<crate::calls::Answer>| {
        let _ = tx.send(match a {
            None => Err(CUDA_ERROR_DEVICE_UNAVAILABLE),
            Some(a) if a.status != CUDA_SUCCESS => Err(a.status),
            Some(a) => decode::<A>(&a.body)
                .and_then(|m| Came::from_u32(fate(m)).map_err(|_| CUDA_ERROR_UNKNOWN)),
        });
    };
    let session = &at.cx.client.session;
    // SAFETY: no bytes come with that answer.
    let asked = unsafe { session.call_async(at.cx.scope, m, None, then) };
    asked.map_err(|_| CUDA_ERROR_DEVICE_UNAVAILABLE)?;
    Ok(told)
}

fn hear(fate: &Fate) -> Result<Came> {
    fate.recv().unwrap_or(Err(CUDA_ERROR_DEVICE_UNAVAILABLE))
}
