//! What both ends agree on.

/// What a cup holds.
const MOST: u64 = 1 << 8;

/// What is poured.
#[numbers]
enum Drink {
    /// Black.
    Tea = 1,
    /// Blacker.
    Coffee = 3,
}

/// Where cups stand.
#[ranges(1 << 20)]
enum Places {
    /// On tables.
    Tables = [0x10_0000; 2] + [0x50_0000; 1],
    /// In the sink.
    Sink = [0x30_0000; 1],
}
