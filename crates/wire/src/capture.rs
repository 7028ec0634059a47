//! What `CaptureInfo.detail` asks for, besides whether a stream captures, and under which id.

/// The graph that it captures into.
pub const WANTS_GRAPH: u32 = 1;
/// The nodes that the next one will come behind.
pub const WANTS_NODES: u32 = 2;
