//! Contexts.

use super::prelude::*;
use crate::opencl::state::told::Notify;

/// Checks a list of context properties; returns the platform that it names.
fn platform(list: &Properties) -> Result<Option<&'static Object<Platform>>> {
    let mut platform = None;
    for (key, value) in list.pairs(CL_INVALID_PROPERTY)? {
        match key {
            // SAFETY: the program says that this is a platform, and platforms live on.
            CL_CONTEXT_PLATFORM => platform = Some(unsafe { Take::take(value as Handle)? }),
            CL_CONTEXT_INTEROP_USER_SYNC if value <= 1 => {}
            _ => return Err(CL_INVALID_PROPERTY),
        }
    }
    Ok(platform)
}

fn create(
    devices: Vec<Ref<Device>>,
    properties: Properties,
    notify: Option<Notify>,
    user: User,
) -> Result<Handle> {
    let server = devices[0].server;
    refuse_if(server.lost(), CL_DEVICE_NOT_AVAILABLE)?;
    let id = server.id();
    server.queue(&wire::CreateContext {
        context: id,
        devices: devices.iter().map(|d| d.id).collect(),
        notify: notify.is_some().into(),
    })?;
    if let Some(f) = notify {
        lock(&server.hub.listeners).add(id, f, user);
    }
    Ok(Object::new(server, id, Context::new(devices, properties.0)).give())
}

/// `clCreateContext`.
pub fn clCreateContext(
    _: &Client,
    properties: Properties,
    devices: Handles<'_>,
    notify: Option<Notify>,
    user: User,
) -> Result<Handle> {
    refuse_if(notify.is_none() && !user.get().is_null(), CL_INVALID_VALUE)?;
    devices.check()?;
    let (named, given) = (platform(&properties)?, devices.some::<Device>()?);
    let of = |d: &Object<Device>| d.platform().map(|p| p.handle());
    let wanted = named.map_or_else(|| of(given[0]), |p| Some(p.handle()));
    let mut list: Vec<Ref<Device>> = Vec::new();
    for d in given {
        refuse_if(of(d) != wanted, CL_INVALID_DEVICE)?;
        if !list.iter().any(|o| o.is(d)) {
            list.push(d.keep());
        }
    }
    create(list, properties, notify, user)
}

/// `clCreateContextFromType`.
pub fn clCreateContextFromType(
    client: &Client,
    properties: Properties,
    kind: u64,
    notify: Option<Notify>,
    user: User,
) -> Result<Handle> {
    refuse_if(notify.is_none() && !user.get().is_null(), CL_INVALID_VALUE)?;
    let list = client.platform(platform(&properties)?)?.of_kind(kind)?;
    let list = list.into_iter().cloned().collect();
    create(list, properties, notify, user)
}

/// `clGetContextInfo`.
pub fn clGetContextInfo(c: &Object<Context>, param: u32, to: Answer) -> Result<()> {
    to.give(&match param {
        CL_CONTEXT_REFERENCE_COUNT => c.count().plain(),
        CL_CONTEXT_NUM_DEVICES => (c.devices.len() as u32).plain(),
        CL_CONTEXT_DEVICES => c.devices.iter().flat_map(|d| d.handle().plain()).collect(),
        CL_CONTEXT_PROPERTIES => c.properties.plain(),
        _ => return Err(CL_INVALID_VALUE),
    })
}

/// `clSetContextDestructorCallback`.
pub fn clSetContextDestructorCallback(
    c: &Object<Context>,
    f: Option<OfObject>,
    user: User,
) -> Result<()> {
    c.goodbyes.add(farewell(f, user)?);
    Ok(())
}

/// `clGetSupportedImageFormats`.
pub fn clGetSupportedImageFormats(
    c: &Object<Context>,
    flags: u64,
    kind: u32,
    room: Room<ImageFormat>,
) -> Result<()> {
    refuse_if(room.wanted() == Some(0), CL_INVALID_VALUE)?;
    let known = lock(&c.formats).get(&(flags, kind)).cloned();
    let bytes = match known {
        Some(b) => b,
        None => {
            let context = c.id;
            let body = c.server.call(&wire::ImageFormats {
                context,
                flags,
                kind,
            })?;
            let b = decode::<wire::ImageFormatsReply>(&body)?.formats.to_vec();
            lock(&c.formats).insert((flags, kind), b.clone());
            b
        }
    };
    let word = |b: &[u8]| b.iter().rev().fold(0, |n, b| n << 8 | u32::from(*b));
    let formats = bytes.chunks_exact(8).map(|f| ImageFormat {
        order: word(&f[..4]),
        data_type: word(&f[4..]),
    });
    room.give(formats.len(), formats);
    Ok(())
}
