//! Platforms, and functions by name.

use super::prelude::*;
use crate::opencl::state::info::extension_of;
use busbar_abi::opencl::ext::CL_PLATFORM_NOT_FOUND_KHR;

type Given<'a> = Option<&'a Object<Platform>>;

/// `clGetPlatformIDs`.
pub fn clGetPlatformIDs(client: &Client, room: Room<Handle>) -> Result<()> {
    room.check_list()?;
    let all: Vec<_> = client.platforms().map(|p| p.handle()).collect();
    room.give(all.len(), all.iter().copied());
    refuse_if(all.is_empty(), CL_PLATFORM_NOT_FOUND_KHR)
}

/// `clGetPlatformInfo`.
pub fn clGetPlatformInfo(client: &Client, p: Given<'_>, param: u32, to: Answer) -> Result<()> {
    let p = client.platform(p)?;
    to.give(p.table.get(param).ok_or(CL_INVALID_VALUE)?)
}

/// `clUnloadPlatformCompiler`.
pub fn clUnloadPlatformCompiler(_: &Client, p: Given<'_>) -> Result<()> {
    p.map(drop).ok_or(CL_INVALID_PLATFORM)
}

/// `clUnloadCompiler`.
pub fn clUnloadCompiler(_: &Client) -> Result<()> {
    Ok(())
}

fn function(client: &Client, name: &str) -> Handle {
    let mut all = client.functions.iter();
    let found = all.find(|f| f.0 == name);
    found.map_or(std::ptr::null_mut(), |f| f.1.0.cast_mut())
}

/// `clGetExtensionFunctionAddress`: how the loader finds everything else. A function that came with
/// an extension is there only where the extension is.
pub fn clGetExtensionFunctionAddress(client: &Client, name: Option<String>) -> Result<Handle> {
    let name = name.unwrap_or_default();
    let offered = |e| client.platforms().any(|p| p.offers(e));
    match extension_of(&name).is_none_or(offered) {
        true => Ok(function(client, &name)),
        false => Ok(std::ptr::null_mut()),
    }
}

/// `clGetExtensionFunctionAddressForPlatform`.
pub fn clGetExtensionFunctionAddressForPlatform(
    client: &Client,
    p: Given<'_>,
    name: Option<String>,
) -> Result<Handle> {
    let (p, name) = (client.platform(p)?, name.unwrap_or_default());
    match extension_of(&name).is_none_or(|e| p.offers(e)) {
        true => Ok(function(client, &name)),
        false => Ok(std::ptr::null_mut()),
    }
}
