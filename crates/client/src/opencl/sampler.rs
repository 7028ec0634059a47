//! Samplers.

use super::context::Context;
use super::entry::{self, Plain, Result};
use super::object::{self, Body, Object, get};
use busbar_abi::opencl::*;
use busbar_wire::generated::opencl as wire;
use std::sync::Arc;

/// A sampler.
pub struct Sampler {
    context: Arc<Object<Context>>,
    normalized: u32,
    addressing: u32,
    filter: u32,
    properties: Vec<u64>,
}

impl Body for Sampler {
    const MAGIC: u32 = 0x6273_7009;
    const INVALID: i32 = CL_INVALID_SAMPLER;
    const LISTED: bool = true;
}

fn create(
    context: Handle,
    normalized: u32,
    addressing: u32,
    filter: u32,
    properties: Vec<u64>,
) -> Result<Handle> {
    // SAFETY: the program's handle.
    let c = unsafe { get::<Context>(context)? };
    if !c.any(|d| d.number(CL_DEVICE_IMAGE_SUPPORT) != 0) {
        return Err(CL_INVALID_OPERATION);
    }
    let repeats = matches!(addressing, CL_ADDRESS_REPEAT | CL_ADDRESS_MIRRORED_REPEAT);
    if normalized > 1
        || !(CL_ADDRESS_NONE..=CL_ADDRESS_MIRRORED_REPEAT).contains(&addressing)
        || !(CL_FILTER_NEAREST..=CL_FILTER_LINEAR).contains(&filter)
        || repeats && normalized == 0
    {
        return Err(CL_INVALID_VALUE);
    }
    let id = c.server.id();
    c.server.queue(&wire::CreateSampler {
        sampler: id,
        context: c.id,
        normalized,
        addressing,
        filter,
        properties: properties.clone(),
    })?;
    let sampler = Sampler {
        context: c.keep(),
        normalized,
        addressing,
        filter,
        properties,
    };
    Ok(Object::new(c.server, id, sampler).give())
}

/// `clCreateSampler`.
pub unsafe extern "C" fn create_sampler(
    context: Handle,
    normalized: u32,
    addressing: u32,
    filter: u32,
    code: *mut i32,
) -> Handle {
    let make = || create(context, normalized, addressing, filter, Vec::new());
    // SAFETY: null or the program's.
    unsafe { entry::object(code, make) }
}

/// `clCreateSamplerWithProperties`.
pub unsafe extern "C" fn create_sampler_with_properties(
    context: Handle,
    properties: *const u64,
    code: *mut i32,
) -> Handle {
    let make = || {
        // SAFETY: the program's list.
        let list = unsafe { entry::properties(properties)? };
        let (mut normalized, mut addressing, mut filter) = (1, CL_ADDRESS_CLAMP, CL_FILTER_NEAREST);
        let mut seen = Vec::new();
        for pair in list.chunks_exact(2) {
            if seen.contains(&pair[0]) {
                return Err(CL_INVALID_VALUE);
            }
            seen.push(pair[0]);
            let v = pair[1] as u32;
            match pair[0] as u32 {
                CL_SAMPLER_NORMALIZED_COORDS => normalized = v,
                CL_SAMPLER_ADDRESSING_MODE => addressing = v,
                CL_SAMPLER_FILTER_MODE => filter = v,
                _ => return Err(CL_INVALID_VALUE),
            }
        }
        create(context, normalized, addressing, filter, list)
    };
    // SAFETY: null or the program's.
    unsafe { entry::object(code, make) }
}

/// `clRetainSampler`.
pub unsafe extern "C" fn retain_sampler(sampler: Handle) -> i32 {
    // SAFETY: the program's handle.
    entry::status(|| unsafe { object::retain::<Sampler>(sampler) })
}

/// `clReleaseSampler`.
pub unsafe extern "C" fn release_sampler(sampler: Handle) -> i32 {
    // SAFETY: the program's handle.
    entry::status(|| unsafe { object::release::<Sampler>(sampler) })
}

/// `clGetSamplerInfo`.
pub unsafe extern "C" fn get_sampler_info(
    sampler: Handle,
    param: u32,
    size: usize,
    value: Handle,
    ret: *mut usize,
) -> i32 {
    entry::status(|| {
        // SAFETY: the program's handle.
        let s = unsafe { get::<Sampler>(sampler)? };
        let bytes = match param {
            CL_SAMPLER_REFERENCE_COUNT => s.count().plain(),
            CL_SAMPLER_CONTEXT => s.context.handle().plain(),
            CL_SAMPLER_NORMALIZED_COORDS => s.normalized.plain(),
            CL_SAMPLER_ADDRESSING_MODE => s.addressing.plain(),
            CL_SAMPLER_FILTER_MODE => s.filter.plain(),
            CL_SAMPLER_PROPERTIES => s.properties.plain(),
            _ => return Err(CL_INVALID_VALUE),
        };
        // SAFETY: the program's memory, as it says.
        unsafe { entry::answer(&bytes, size, value, ret) }
    })
}
