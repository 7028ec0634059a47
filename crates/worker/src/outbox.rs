//! What a worker says to its client. Cheap to clone; any thread may speak.

use crate::prelude::*;
use busbar_channel::{Bulk, Channel, Closed};
use busbar_wire::Writer;
use busbar_wire::limits::BULK_CHUNK;
use busbar_wire::record::Notice;
use std::any::Any;

/// How long a client may take to hear that its session is over.
const LAST_WORD: Duration = Duration::from_millis(200);

/// The worker's end of the session, for sending.
#[derive(Clone, Default)]
pub struct Outbox {
    channel: Arc<OnceLock<Channel>>,
}

impl Outbox {
    pub(crate) fn connect(&self, channel: Channel) {
        let _ = self.channel.set(channel);
    }

    fn channel(&self) -> Result<&Channel, Closed> {
        self.channel
            .get()
            .ok_or_else(|| Closed("the session has not begun".into()))
    }

    /// Bytes that have come and gone over the session's connections.
    pub(crate) fn carried(&self) -> [[u64; 2]; 2] {
        let counters = self.channel.get().map(Channel::counters);
        let n = |of: &AtomicU64| of.load(Ordering::Relaxed);
        counters.map_or_else(Default::default, |c| {
            let all = [n(&c.received), n(&c.sent)];
            [all, [n(&c.rdma_received), n(&c.rdma_sent)]]
        })
    }

    fn say(
        &self,
        kind: Notice,
        call: u32,
        status: i32,
        fields: impl FnOnce(&mut Writer<'_>),
    ) -> Result<(), Closed> {
        self.put(kind, call, status, fields)?;
        self.flush();
        Ok(())
    }

    fn put(
        &self,
        kind: Notice,
        call: u32,
        status: i32,
        fields: impl FnOnce(&mut Writer<'_>),
    ) -> Result<(), Closed> {
        self.channel()?
            .put(kind as u16, call, status as u32, |out| {
                fields(&mut Writer::new(out))
            })
    }

    /// Sends what was put here and not sent.
    pub fn flush(&self) {
        if let Ok(c) = self.channel() {
            c.flush();
        }
    }

    /// Answers a call. Whether the client is still there shows at the next record, not here.
    pub fn reply(&self, call: u32, status: i32, fields: impl FnOnce(&mut Writer<'_>)) {
        self.put_reply(call, status, fields);
        self.flush();
    }

    /// As [`Outbox::reply`], but [`Outbox::flush`] sends it.
    pub fn put_reply(&self, call: u32, status: i32, fields: impl FnOnce(&mut Writer<'_>)) {
        let _ = self.put(Notice::Reply, call, status, fields);
        // Only what breaks the protocol asks without a number.
        if call != 0
            && let Ok(c) = self.channel()
        {
            c.answered();
        }
    }

    /// Sends a piece of a call's bulk answer, copying it.
    pub fn chunk(&self, call: u32, offset: u64, bytes: &[u8]) {
        for (i, piece) in bytes.chunks(BULK_CHUNK).enumerate() {
            let at = offset + (i * BULK_CHUNK) as u64;
            self.put_bulk(call, at, Bulk::Copy(piece));
            self.flush();
        }
    }

    /// Sends, with [`Outbox::flush`], bytes that lie in memory of their own, which is dropped once
    /// the client has them.
    ///
    /// # Safety
    /// As many bytes at the address stay readable and unchanged until `memory` is dropped.
    pub unsafe fn put_owned<M: Any + Send + Sync>(
        &self,
        call: u32,
        offset: u64,
        (ptr, len): (*const u8, usize),
        memory: M,
    ) {
        /// Less is copied in any case: then nothing has to be made that keeps the memory.
        const KEPT_FROM: usize = 16 << 10;
        if len < KEPT_FROM {
            // SAFETY: the caller's promise.
            let bytes = unsafe { std::slice::from_raw_parts(ptr, len) };
            return self.put_bulk(call, offset, Bulk::Copy(bytes));
        }
        let keep: Arc<dyn Any + Send + Sync> = Arc::new(memory);
        for i in (0..len).step_by(BULK_CHUNK) {
            let n = BULK_CHUNK.min(len - i);
            let at = offset + i as u64;
            if i > 0 {
                self.flush();
            }
            self.put_bulk(call, at, Bulk::Shared(ptr.wrapping_add(i), n, &keep));
        }
    }

    fn put_bulk(&self, call: u32, offset: u64, bulk: Bulk<'_>) {
        if let Ok(c) = self.channel() {
            let head = |out: &mut Vec<u8>| out.extend_from_slice(&offset.to_le_bytes());
            let _ = c.put_bulk(Notice::Chunk as u16, call, 0, head, bulk);
        }
    }

    /// Tells of a failure that no reply carries: a queued call's, or the device's.
    pub fn error(&self, status: i32, fields: impl FnOnce(&mut Writer<'_>)) {
        let _ = self.say(Notice::Error, 0, status, fields);
    }

    /// Asks for a function of the program to be run.
    pub fn callback(&self, call: u32, status: i32, fields: impl FnOnce(&mut Writer<'_>)) {
        let _ = self.say(Notice::Callback, call, status, fields);
    }

    /// As [`Outbox::callback`], of nothing that is to run: what is behind it is sent with it.
    pub fn put_word(&self, status: i32, fields: impl FnOnce(&mut Writer<'_>)) {
        let _ = self.put(Notice::Callback, 0, status, fields);
    }

    /// Passes on what the device printed.
    pub fn output(&self, text: &[u8]) {
        for piece in text.chunks(BULK_CHUNK) {
            let _ = self.say(Notice::Output, 0, 0, |w| w.raw(piece));
        }
    }

    /// Passes on what belongs on the program's stderr.
    pub fn complaint(&self, text: &[u8]) {
        for piece in text.chunks(BULK_CHUNK) {
            let _ = self.say(Notice::Output, 1, 0, |w| w.raw(piece));
        }
    }

    /// Says something for an API beside the session's own.
    pub fn word(&self, fields: impl FnOnce(&mut Writer<'_>)) {
        let _ = self.say(Notice::Word, 0, 0, fields);
    }

    /// Asks for content by hash.
    pub fn need_content(&self, hash: &[u8; 32]) {
        let _ = self.say(Notice::NeedContent, 0, 0, |w| w.raw(hash));
    }

    /// Says a sentence for the client's log.
    pub fn news(&self, text: &str, loss: bool) {
        let _ = self.say(Notice::News, 0, i32::from(loss), |w| w.raw(text.as_bytes()));
    }

    /// Says why the session ends.
    pub fn goodbye(&self, why: &str) {
        let _ = self.say(Notice::Goodbye, 0, 0, |w| w.raw(why.as_bytes()));
    }

    /// Ends the session for a reason that is not the client's, and this process with it.
    pub(crate) fn leave(&self, why: &str) -> ! {
        // A client that reads nothing must not keep us: the alarm's default action ends us.
        // SAFETY: no preconditions.
        unsafe { libc::alarm(1) };
        self.goodbye(why);
        if let Some(c) = self.channel.get() {
            c.close(why, LAST_WORD);
        }
        // No exit handlers: a vendor's may wait for work that never ends.
        // SAFETY: _exit has no preconditions.
        unsafe { libc::_exit(0) };
    }

    /// What has been received must wait before more is.
    pub(crate) fn lives(&self) {
        if let Some(c) = self.channel.get() {
            c.lives();
        }
    }

    /// Whether the connection has ended at the client's side, though some of it may be unread.
    pub(crate) fn hung_up(&self) -> bool {
        self.channel.get().is_some_and(Channel::hung_up)
    }

    /// Whether the session is over.
    pub fn closed(&self) -> bool {
        self.channel.get().is_some_and(|c| c.closed().is_some())
    }
}
