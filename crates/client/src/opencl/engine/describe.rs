//! A server's description: its platforms and devices.

use super::prelude::*;
use crate::opencl::call::{Device, Platform, Ref, decode};
use crate::opencl::state::info;
use crate::opencl::state::object::Owner;
use crate::opencl::state::values::Table;
use busbar_wire::{Reader, WireError};

/// Reads one device, or a part of `parent`.
fn device(
    server: &'static Server,
    r: &mut Reader<'_>,
    parent: Option<Ref<Device>>,
) -> std::result::Result<Ref<Device>, WireError> {
    let id = r.u32()?;
    let mut table = Table::read(r)?;
    info::adjust_device(&mut table, server.address.as_deref());
    server.ids().reserve(id);
    Ok(Object::new(server, id, Device::new(table, parent)))
}

fn parse(
    server: &'static Server,
    bytes: &[u8],
    one_of_many: bool,
) -> std::result::Result<Vec<Ref<Platform>>, WireError> {
    let mut r = Reader::new(bytes);
    let n = r.count(256, 8)?;
    let mut list = Vec::new();
    for _ in 0..n {
        let mut table = Table::read(&mut r)?;
        // Programs compare the names of platforms whole, so one server's are left as they are; its
        // devices say where they are in any case.
        info::adjust_platform(
            &mut table,
            server.address.as_deref().filter(|_| one_of_many),
        );
        let n = r.count(4096, 8)?;
        let devices = (0..n).map(|_| device(server, &mut r, None));
        let devices = devices.collect::<std::result::Result<_, _>>()?;
        let platform = Object::new(server, 0, Platform { table, devices });
        for d in &platform.devices {
            let _ = d.platform.set(Arc::downgrade(&platform));
        }
        list.push(platform);
    }
    r.finish()?;
    Ok(list)
}

/// Asks a new server what it has. Where it is `one_of_many`, names of platforms say its address.
pub fn describe(server: &'static Server, one_of_many: bool) -> std::result::Result<(), String> {
    let body = server
        .call(&wire::Describe {})
        .map_err(|e| format!("the server does not describe its devices (error {e})"))?;
    let damaged = |e: &dyn std::fmt::Display| format!("the server's description is damaged: {e}");
    let reply: wire::DescribeReply = decode(&body).map_err(|e| damaged(&e))?;
    let list = parse(server, reply.platforms, one_of_many).map_err(|e| damaged(&e))?;
    let _ = server.platforms.set(list);
    Ok(())
}

/// Parts of a device, and how many there could be. `room`: how many are wanted, if any.
pub fn create_sub_devices(
    d: &Object<Device>,
    properties: Vec<u64>,
    room: Option<usize>,
) -> Result<(usize, Vec<Ref<Device>>)> {
    // The worker gives no more than the device has compute units.
    let units = busbar_abi::opencl::CL_DEVICE_MAX_COMPUTE_UNITS;
    let range = d.table.number(units).clamp(1, 4096) as u32;
    let most = room.unwrap_or(0).min(range as usize) as u32;
    let body = d.server.call(&wire::CreateSubDevices {
        device: d.id,
        first: d.server.ids().range(range),
        most,
        properties,
    })?;
    let reply: wire::CreateSubDevicesReply = decode(&body)?;
    let mut r = Reader::new(reply.devices);
    let mut read = || {
        let n = r.u32()? as usize;
        let made = if room.is_some() { r.u32()? } else { 0 };
        let parts = (0..made).map(|_| device(d.server, &mut r, Some(d.keep())));
        Ok::<_, WireError>((n, parts.collect::<std::result::Result<_, _>>()?))
    };
    read().map_err(|_| LOST)
}
