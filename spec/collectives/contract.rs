//! What both ends agree on beside messages: the kinds of collectives.

const ALL_REDUCE: u32 = 0;
const BROADCAST: u32 = 1;
const REDUCE: u32 = 2;
const ALL_GATHER: u32 = 3;
const REDUCE_SCATTER: u32 = 4;
const ALL_TO_ALL: u32 = 5;
const GATHER: u32 = 6;
const SCATTER: u32 = 7;
const SEND: u32 = 8;
const RECV: u32 = 9;
