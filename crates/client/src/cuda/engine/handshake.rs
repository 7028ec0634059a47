//! The question that the CUDA runtime asks to see whether it talks to a driver.
//!
//! The answer is an HMAC over things that only this process knows, the addresses of our own tables
//! among them, so it is computed here and never forwarded.

use crate::cuda::call::Cx;
use crate::cuda::state::devices::Device;
use hmac::{KeyInit, Mac, SimpleHmac};
use md2::Md2;

const KEY: [u8; 16] = [
    0x14, 0x6a, 0xdd, 0xae, 0x53, 0xa9, 0xa7, 0x52, 0xaa, 0x08, 0x41, 0x36, 0x0b, 0xf5, 0x5a, 0x9f,
];

/// What goes into the answer beside the question.
pub struct Facts<'a> {
    /// What `cuDriverGetVersion` answers.
    pub driver: u32,
    /// The calling process.
    pub pid: u32,
    /// The low half of `pthread_self()`.
    pub thread: u32,
    /// Addresses: the runtime's main table, the handshake's table, the handshake's function.
    pub addresses: [u64; 3],
    /// UUID, PCI domain, bus and device of each device.
    pub devices: &'a [([u8; 16], [i32; 3])],
}

/// The devices of a session, as [`Facts`] wants them.
pub fn devices(cx: Cx) -> Vec<([u8; 16], [i32; 3])> {
    let of = |d: &Device| (d.uuid, d.pci());
    cx.client.every_device().into_iter().map(of).collect()
}

/// The answer to question `version` asked at `seconds`.
pub fn answer(version: u32, seconds: u64, facts: &Facts<'_>) -> [u64; 2] {
    match version % 10 {
        0 => return [0x3341_181c_03cb_675c, 0x8ed3_83aa_1f4c_d1e8],
        1 => return [0x1841_181c_03cb_675c, 0x8ed3_83aa_1f4c_d1e8],
        _ => {}
    }
    let mut text = Vec::with_capacity(48 + 28 * facts.devices.len());
    for v in [facts.driver, version, facts.pid, facts.thread] {
        text.extend_from_slice(&v.to_le_bytes());
    }
    for v in facts.addresses {
        text.extend_from_slice(&v.to_le_bytes());
    }
    text.extend_from_slice(&seconds.to_le_bytes());
    for (uuid, pci) in facts.devices {
        text.extend_from_slice(uuid);
        for v in pci {
            text.extend_from_slice(&v.to_le_bytes());
        }
    }
    let mut mac = SimpleHmac::<Md2>::new_from_slice(&KEY).expect("any length of key will do");
    mac.update(&text);
    let out = mac.finalize().into_bytes();
    let half = |i: usize| {
        let mut b = [0; 8];
        b.copy_from_slice(&out[i..i + 8]);
        u64::from_le_bytes(b)
    };
    [half(0), half(8)]
}
