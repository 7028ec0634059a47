//! Every length has a maximum, and this is where they stand.

/// The longest body of a frame. A record that would not fit is split by its sender.
pub const MAX_FRAME_BODY: usize = 8 << 20;
/// The longest byte field of a message.
pub const MAX_BYTES: usize = MAX_FRAME_BODY - 4096;
/// The most bulk bytes that one record carries; longer copies are cut into pieces of this size.
pub const BULK_CHUNK: usize = 1 << 20;
/// The most bytes of a piece that goes over a link between servers.
pub const LINK_PIECE: usize = BULK_CHUNK;
/// The most pieces that a session has on their way over one link, in each direction.
pub const LINK_PIECES: usize = 4096;
/// The most items of a counted list.
pub const MAX_ITEMS: usize = 1 << 20;
/// How many bytes of unacknowledged frames a sender keeps before it stops taking more.
pub const WINDOW_BYTES: usize = 32 << 20;
/// How many bytes a receiver takes in before it acknowledges unasked.
pub const ACK_EVERY: usize = 1 << 20;
/// The longest JSON document in a hello: what a stranger may make a server read.
pub const MAX_HELLO: usize = 64 << 10;
/// The longest JSON document in an answer to a hello.
pub const MAX_WELCOME: usize = 1 << 20;
