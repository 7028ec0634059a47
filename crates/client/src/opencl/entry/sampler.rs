//! Samplers.

use super::prelude::*;

fn create(
    c: &Object<Context>,
    (normalized, addressing, filter): (u32, u32, u32),
    properties: Vec<u64>,
) -> Result<Handle> {
    refuse_if(!c.has(CL_DEVICE_IMAGE_SUPPORT), CL_INVALID_OPERATION)?;
    let repeats = matches!(addressing, CL_ADDRESS_REPEAT | CL_ADDRESS_MIRRORED_REPEAT);
    let doubt = normalized > 1
        || !(CL_ADDRESS_NONE..=CL_ADDRESS_MIRRORED_REPEAT).contains(&addressing)
        || !(CL_FILTER_NEAREST..=CL_FILTER_LINEAR).contains(&filter)
        || repeats && normalized == 0;
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
    let sampler = Object::new(c.server, id, sampler);
    if doubt {
        c.server.check(id)?;
    }
    Ok(sampler.give())
}

/// `clCreateSampler`.
pub fn clCreateSampler(
    c: &Object<Context>,
    normalized: u32,
    addressing: u32,
    filter: u32,
) -> Result<Handle> {
    create(c, (normalized, addressing, filter), Vec::new())
}

/// `clCreateSamplerWithProperties`.
pub fn clCreateSamplerWithProperties(
    c: &Object<Context>,
    properties: Properties,
) -> Result<Handle> {
    let mut wanted = (1, CL_ADDRESS_CLAMP, CL_FILTER_NEAREST);
    for (key, value) in properties.pairs(CL_INVALID_VALUE)? {
        match key {
            CL_SAMPLER_NORMALIZED_COORDS => wanted.0 = value as u32,
            CL_SAMPLER_ADDRESSING_MODE => wanted.1 = value as u32,
            CL_SAMPLER_FILTER_MODE => wanted.2 = value as u32,
            _ => return Err(CL_INVALID_VALUE),
        }
    }
    create(c, wanted, properties.0)
}

/// `clGetSamplerInfo`.
pub fn clGetSamplerInfo(s: &Object<Sampler>, param: u32, to: Answer) -> Result<()> {
    to.give(&match param {
        CL_SAMPLER_REFERENCE_COUNT => s.count().plain(),
        CL_SAMPLER_CONTEXT => s.context.handle().plain(),
        CL_SAMPLER_NORMALIZED_COORDS => s.normalized.plain(),
        CL_SAMPLER_ADDRESSING_MODE => s.addressing.plain(),
        CL_SAMPLER_FILTER_MODE => s.filter.plain(),
        CL_SAMPLER_PROPERTIES => s.properties.plain(),
        _ => return Err(CL_INVALID_VALUE),
    })
}
