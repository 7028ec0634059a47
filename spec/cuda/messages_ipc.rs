//! Messages of memory and events that are shared between processes.

/// Offers the mapping that an address lies in to whoever knows the secret. `tag` names the worker's
/// socket, `base` and `size` say what the mapping is.
#[id(0x8240)] #[message] #[waits] #[family(ipc)]
fn IpcExport(va: u64) -> (tag: [u8; 8], secret: [u8; 16], base: u64, size: u64);

/// Maps what another worker offers.
#[id(0x8241)] #[message] #[waits] #[family(ipc)]
#[creates(Memory, va)]
fn IpcImport(va: u64, size: u64, device: i32, tag: [u8; 8], secret: [u8; 16]);

/// The driver's own handle of an event.
#[id(0x8242)] #[message] #[waits] #[family(ipc)]
fn IpcEventExport(event: u32) -> (handle: Bytes);

/// Opens an event by another process's handle.
#[id(0x8243)] #[message] #[waits] #[family(ipc)]
#[creates(Event)]
fn IpcEventImport(event: u32, handle: Bytes);
