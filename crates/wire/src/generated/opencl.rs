//! Generated from `spec/opencl` by `cargo xtask codegen`. Do not edit.
#![allow(missing_docs)]
use crate::codec::{Message, Reader, Request, WireError, Writer};
/// Message ids.
pub mod op {
    pub const DESCRIBE: u16 = 0x0101;
    pub const DEVICE_INFO: u16 = 0x0102;
    pub const CREATE_SUB_DEVICES: u16 = 0x0103;
    pub const DEVICE_TIMER: u16 = 0x0104;
    pub const RELEASE: u16 = 0x0105;
    pub const CHECK: u16 = 0x0106;
    pub const BLOB: u16 = 0x0107;
    pub const CREATE_CONTEXT: u16 = 0x0201;
    pub const IMAGE_FORMATS: u16 = 0x0202;
    pub const CREATE_QUEUE: u16 = 0x0203;
    pub const SET_DEFAULT_QUEUE: u16 = 0x0204;
    pub const CREATE_BUFFER: u16 = 0x0301;
    pub const CREATE_SUB_BUFFER: u16 = 0x0302;
    pub const CREATE_IMAGE: u16 = 0x0303;
    pub const IMAGE_INFO: u16 = 0x0304;
    pub const CREATE_SAMPLER: u16 = 0x0305;
    pub const CREATE_PROGRAM_WITH_SOURCE: u16 = 0x0401;
    pub const CREATE_PROGRAM_WITH_BINARY: u16 = 0x0402;
    pub const CREATE_PROGRAM_WITH_BUILT_IN_KERNELS: u16 = 0x0403;
    pub const CREATE_PROGRAM_WITH_IL: u16 = 0x0404;
    pub const BUILD_PROGRAM: u16 = 0x0405;
    pub const COMPILE_PROGRAM: u16 = 0x0406;
    pub const LINK_PROGRAM: u16 = 0x0407;
    pub const PROGRAM_BINARIES: u16 = 0x0408;
    pub const SET_SPECIALIZATION_CONSTANT: u16 = 0x0409;
    pub const CREATE_KERNEL: u16 = 0x0501;
    pub const CLONE_KERNEL: u16 = 0x0502;
    pub const DESCRIBE_KERNEL: u16 = 0x0503;
    pub const KERNEL_EXEC_INFO: u16 = 0x0504;
    pub const SUB_GROUP_INFO: u16 = 0x0505;
    pub const SUGGESTED_LOCAL_SIZE: u16 = 0x0506;
    pub const LAUNCH_KERNEL: u16 = 0x0507;
    pub const WRITE_BUFFER: u16 = 0x0601;
    pub const READ_BUFFER: u16 = 0x0602;
    pub const COPY_BUFFER: u16 = 0x0603;
    pub const WRITE_BUFFER_RECT: u16 = 0x0604;
    pub const READ_BUFFER_RECT: u16 = 0x0605;
    pub const COPY_BUFFER_RECT: u16 = 0x0606;
    pub const FILL_BUFFER: u16 = 0x0607;
    pub const WRITE_IMAGE: u16 = 0x0608;
    pub const READ_IMAGE: u16 = 0x0609;
    pub const COPY_IMAGE: u16 = 0x060a;
    pub const COPY_IMAGE_TO_BUFFER: u16 = 0x060b;
    pub const COPY_BUFFER_TO_IMAGE: u16 = 0x060c;
    pub const FILL_IMAGE: u16 = 0x060d;
    pub const MIGRATE: u16 = 0x060e;
    pub const MARKER: u16 = 0x060f;
    pub const FINISH: u16 = 0x0610;
    pub const FLUSH: u16 = 0x0611;
    pub const CREATE_USER_EVENT: u16 = 0x0701;
    pub const SET_USER_EVENT_STATUS: u16 = 0x0702;
    pub const WAIT_FOR_EVENTS: u16 = 0x0703;
    pub const EVENT_STATUS: u16 = 0x0704;
    pub const EVENT_PROFILE: u16 = 0x0705;
    pub const EVENT_CALLBACK: u16 = 0x0706;
    pub const SVM_ALLOC: u16 = 0x0801;
    pub const SVM_FREE: u16 = 0x0802;
    pub const SVM_WRITE: u16 = 0x0803;
    pub const SVM_READ: u16 = 0x0804;
    pub const SVM_COPY: u16 = 0x0805;
    pub const SVM_FILL: u16 = 0x0806;
    pub const SVM_MIGRATE: u16 = 0x0807;
}
pub static NAMES: &[(u16, &str)] = &[
    (op::DESCRIBE, "Describe"),
    (op::DEVICE_INFO, "DeviceInfo"),
    (op::CREATE_SUB_DEVICES, "CreateSubDevices"),
    (op::DEVICE_TIMER, "DeviceTimer"),
    (op::RELEASE, "Release"),
    (op::CHECK, "Check"),
    (op::BLOB, "Blob"),
    (op::CREATE_CONTEXT, "CreateContext"),
    (op::IMAGE_FORMATS, "ImageFormats"),
    (op::CREATE_QUEUE, "CreateQueue"),
    (op::SET_DEFAULT_QUEUE, "SetDefaultQueue"),
    (op::CREATE_BUFFER, "CreateBuffer"),
    (op::CREATE_SUB_BUFFER, "CreateSubBuffer"),
    (op::CREATE_IMAGE, "CreateImage"),
    (op::IMAGE_INFO, "ImageInfo"),
    (op::CREATE_SAMPLER, "CreateSampler"),
    (op::CREATE_PROGRAM_WITH_SOURCE, "CreateProgramWithSource"),
    (op::CREATE_PROGRAM_WITH_BINARY, "CreateProgramWithBinary"),
    (
        op::CREATE_PROGRAM_WITH_BUILT_IN_KERNELS,
        "CreateProgramWithBuiltInKernels",
    ),
    (op::CREATE_PROGRAM_WITH_IL, "CreateProgramWithIl"),
    (op::BUILD_PROGRAM, "BuildProgram"),
    (op::COMPILE_PROGRAM, "CompileProgram"),
    (op::LINK_PROGRAM, "LinkProgram"),
    (op::PROGRAM_BINARIES, "ProgramBinaries"),
    (op::SET_SPECIALIZATION_CONSTANT, "SetSpecializationConstant"),
    (op::CREATE_KERNEL, "CreateKernel"),
    (op::CLONE_KERNEL, "CloneKernel"),
    (op::DESCRIBE_KERNEL, "DescribeKernel"),
    (op::KERNEL_EXEC_INFO, "KernelExecInfo"),
    (op::SUB_GROUP_INFO, "SubGroupInfo"),
    (op::SUGGESTED_LOCAL_SIZE, "SuggestedLocalSize"),
    (op::LAUNCH_KERNEL, "LaunchKernel"),
    (op::WRITE_BUFFER, "WriteBuffer"),
    (op::READ_BUFFER, "ReadBuffer"),
    (op::COPY_BUFFER, "CopyBuffer"),
    (op::WRITE_BUFFER_RECT, "WriteBufferRect"),
    (op::READ_BUFFER_RECT, "ReadBufferRect"),
    (op::COPY_BUFFER_RECT, "CopyBufferRect"),
    (op::FILL_BUFFER, "FillBuffer"),
    (op::WRITE_IMAGE, "WriteImage"),
    (op::READ_IMAGE, "ReadImage"),
    (op::COPY_IMAGE, "CopyImage"),
    (op::COPY_IMAGE_TO_BUFFER, "CopyImageToBuffer"),
    (op::COPY_BUFFER_TO_IMAGE, "CopyBufferToImage"),
    (op::FILL_IMAGE, "FillImage"),
    (op::MIGRATE, "Migrate"),
    (op::MARKER, "Marker"),
    (op::FINISH, "Finish"),
    (op::FLUSH, "Flush"),
    (op::CREATE_USER_EVENT, "CreateUserEvent"),
    (op::SET_USER_EVENT_STATUS, "SetUserEventStatus"),
    (op::WAIT_FOR_EVENTS, "WaitForEvents"),
    (op::EVENT_STATUS, "EventStatus"),
    (op::EVENT_PROFILE, "EventProfile"),
    (op::EVENT_CALLBACK, "EventCallback"),
    (op::SVM_ALLOC, "SvmAlloc"),
    (op::SVM_FREE, "SvmFree"),
    (op::SVM_WRITE, "SvmWrite"),
    (op::SVM_READ, "SvmRead"),
    (op::SVM_COPY, "SvmCopy"),
    (op::SVM_FILL, "SvmFill"),
    (op::SVM_MIGRATE, "SvmMigrate"),
];
/// The name of a message.
pub fn name(op: u16) -> Option<&'static str> {
    let at = NAMES.binary_search_by_key(&op, |n| n.0).ok()?;
    Some(NAMES[at].1)
}
/// Everything about the platforms and devices of this session.
#[derive(Debug, Clone, PartialEq)]
pub struct Describe {}
impl<'a> Message<'a> for Describe {
    #[inline]
    fn encode(&self, _w: &mut Writer<'_>) {}
    #[inline]
    fn decode(_r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {})
    }
}
impl<'a> Request<'a> for Describe {
    const OP: u16 = op::DESCRIBE;
    const NAME: &'static str = "Describe";
    const WAITS: bool = true;
}
/// The reply to [`Describe`].
#[derive(Debug, Clone, PartialEq)]
pub struct DescribeReply<'a> {
    pub platforms: &'a [u8],
}
impl<'a> Message<'a> for DescribeReply<'a> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.bytes(self.platforms);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            platforms: r.bytes()?,
        })
    }
}
/// A device query that the description does not hold.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceInfo {
    pub device: u32,
    pub param: u32,
}
impl<'a> Message<'a> for DeviceInfo {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.device);
        w.u32(self.param);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            device: r.u32()?,
            param: r.u32()?,
        })
    }
}
impl<'a> Request<'a> for DeviceInfo {
    const OP: u16 = op::DEVICE_INFO;
    const NAME: &'static str = "DeviceInfo";
    const WAITS: bool = true;
}
/// The reply to [`DeviceInfo`].
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceInfoReply<'a> {
    pub value: &'a [u8],
}
impl<'a> Message<'a> for DeviceInfoReply<'a> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.bytes(self.value);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self { value: r.bytes()? })
    }
}
/// Sub-devices get the ids from `first` on.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateSubDevices {
    pub device: u32,
    pub first: u32,
    pub most: u32,
    pub properties: Vec<u64>,
}
impl<'a> Message<'a> for CreateSubDevices {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.device);
        w.u32(self.first);
        w.u32(self.most);
        w.u64s(&self.properties);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            device: r.u32()?,
            first: r.u32()?,
            most: r.u32()?,
            properties: r.u64s()?,
        })
    }
}
impl<'a> Request<'a> for CreateSubDevices {
    const OP: u16 = op::CREATE_SUB_DEVICES;
    const NAME: &'static str = "CreateSubDevices";
    const WAITS: bool = true;
}
/// The reply to [`CreateSubDevices`].
#[derive(Debug, Clone, PartialEq)]
pub struct CreateSubDevicesReply<'a> {
    pub devices: &'a [u8],
}
impl<'a> Message<'a> for CreateSubDevicesReply<'a> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.bytes(self.devices);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            devices: r.bytes()?,
        })
    }
}
/// The device's clock and the worker's.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceTimer {
    pub device: u32,
}
impl<'a> Message<'a> for DeviceTimer {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.device);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self { device: r.u32()? })
    }
}
impl<'a> Request<'a> for DeviceTimer {
    const OP: u16 = op::DEVICE_TIMER;
    const NAME: &'static str = "DeviceTimer";
    const WAITS: bool = true;
}
/// The reply to [`DeviceTimer`].
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceTimerReply {
    pub device_time: u64,
    pub host_time: u64,
}
impl<'a> Message<'a> for DeviceTimerReply {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u64(self.device_time);
        w.u64(self.host_time);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            device_time: r.u64()?,
            host_time: r.u64()?,
        })
    }
}
/// Drops the client's reference to an object of any kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Release {
    pub object: u32,
}
impl<'a> Message<'a> for Release {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.object);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self { object: r.u32()? })
    }
}
impl<'a> Request<'a> for Release {
    const OP: u16 = op::RELEASE;
    const NAME: &'static str = "Release";
    const WAITS: bool = false;
}
/// Whether an object came to be; the status says why not.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    pub object: u32,
}
impl<'a> Message<'a> for Check {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.object);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self { object: r.u32()? })
    }
}
impl<'a> Request<'a> for Check {
    const OP: u16 = op::CHECK;
    const NAME: &'static str = "Check";
    const WAITS: bool = true;
}
/// A piece of data for a later message, which names it by `blob`.
#[derive(Debug, Clone, PartialEq)]
pub struct Blob<'a> {
    pub blob: u32,
    pub total: u64,
    pub offset: u64,
    pub data: &'a [u8],
}
impl<'a> Message<'a> for Blob<'a> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.blob);
        w.u64(self.total);
        w.u64(self.offset);
        w.raw(self.data);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            blob: r.u32()?,
            total: r.u64()?,
            offset: r.u64()?,
            data: r.rest(),
        })
    }
}
impl<'a> Request<'a> for Blob<'a> {
    const OP: u16 = op::BLOB;
    const NAME: &'static str = "Blob";
    const WAITS: bool = false;
}
/// A context over devices of one platform.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateContext {
    pub context: u32,
    pub devices: Vec<u32>,
}
impl<'a> Message<'a> for CreateContext {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.context);
        w.u32s(&self.devices);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            context: r.u32()?,
            devices: r.u32s()?,
        })
    }
}
impl<'a> Request<'a> for CreateContext {
    const OP: u16 = op::CREATE_CONTEXT;
    const NAME: &'static str = "CreateContext";
    const WAITS: bool = false;
}
/// Supported formats as pairs of u32.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageFormats {
    pub context: u32,
    pub flags: u64,
    pub kind: u32,
}
impl<'a> Message<'a> for ImageFormats {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.context);
        w.u64(self.flags);
        w.u32(self.kind);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            context: r.u32()?,
            flags: r.u64()?,
            kind: r.u32()?,
        })
    }
}
impl<'a> Request<'a> for ImageFormats {
    const OP: u16 = op::IMAGE_FORMATS;
    const NAME: &'static str = "ImageFormats";
    const WAITS: bool = true;
}
/// The reply to [`ImageFormats`].
#[derive(Debug, Clone, PartialEq)]
pub struct ImageFormatsReply<'a> {
    pub formats: &'a [u8],
}
impl<'a> Message<'a> for ImageFormatsReply<'a> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.bytes(self.formats);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            formats: r.bytes()?,
        })
    }
}
/// A queue; `properties` is the zero-ended list of pairs.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateQueue {
    pub queue: u32,
    pub context: u32,
    pub device: u32,
    pub properties: Vec<u64>,
}
impl<'a> Message<'a> for CreateQueue {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.queue);
        w.u32(self.context);
        w.u32(self.device);
        w.u64s(&self.properties);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            queue: r.u32()?,
            context: r.u32()?,
            device: r.u32()?,
            properties: r.u64s()?,
        })
    }
}
impl<'a> Request<'a> for CreateQueue {
    const OP: u16 = op::CREATE_QUEUE;
    const NAME: &'static str = "CreateQueue";
    const WAITS: bool = false;
}
/// Sets the default queue of a device.
#[derive(Debug, Clone, PartialEq)]
pub struct SetDefaultQueue {
    pub context: u32,
    pub device: u32,
    pub queue: u32,
}
impl<'a> Message<'a> for SetDefaultQueue {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.context);
        w.u32(self.device);
        w.u32(self.queue);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            context: r.u32()?,
            device: r.u32()?,
            queue: r.u32()?,
        })
    }
}
impl<'a> Request<'a> for SetDefaultQueue {
    const OP: u16 = op::SET_DEFAULT_QUEUE;
    const NAME: &'static str = "SetDefaultQueue";
    const WAITS: bool = true;
}
/// A buffer, with its contents in `blob` or `data` if the flags say so.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateBuffer<'a> {
    pub buffer: u32,
    pub context: u32,
    pub flags: u64,
    pub size: u64,
    pub svm: u64,
    pub blob: u32,
    pub data: &'a [u8],
}
impl<'a> Message<'a> for CreateBuffer<'a> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.buffer);
        w.u32(self.context);
        w.u64(self.flags);
        w.u64(self.size);
        w.u64(self.svm);
        w.u32(self.blob);
        w.raw(self.data);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            buffer: r.u32()?,
            context: r.u32()?,
            flags: r.u64()?,
            size: r.u64()?,
            svm: r.u64()?,
            blob: r.u32()?,
            data: r.rest(),
        })
    }
}
impl<'a> Request<'a> for CreateBuffer<'a> {
    const OP: u16 = op::CREATE_BUFFER;
    const NAME: &'static str = "CreateBuffer";
    const WAITS: bool = false;
}
/// A region of a buffer.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateSubBuffer {
    pub buffer: u32,
    pub parent: u32,
    pub flags: u64,
    pub origin: u64,
    pub size: u64,
}
impl<'a> Message<'a> for CreateSubBuffer {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.buffer);
        w.u32(self.parent);
        w.u64(self.flags);
        w.u64(self.origin);
        w.u64(self.size);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            buffer: r.u32()?,
            parent: r.u32()?,
            flags: r.u64()?,
            origin: r.u64()?,
            size: r.u64()?,
        })
    }
}
impl<'a> Request<'a> for CreateSubBuffer {
    const OP: u16 = op::CREATE_SUB_BUFFER;
    const NAME: &'static str = "CreateSubBuffer";
    const WAITS: bool = false;
}
/// An image. `shape`: width, height, depth, array size, row pitch, slice pitch, levels, samples.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateImage<'a> {
    pub image: u32,
    pub context: u32,
    pub flags: u64,
    pub format: [u32; 2],
    pub kind: u32,
    pub shape: [u64; 8],
    pub parent: u32,
    pub blob: u32,
    pub data: &'a [u8],
}
impl<'a> Message<'a> for CreateImage<'a> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.image);
        w.u32(self.context);
        w.u64(self.flags);
        for x in self.format {
            w.u32(x);
        }
        w.u32(self.kind);
        for x in self.shape {
            w.u64(x);
        }
        w.u32(self.parent);
        w.u32(self.blob);
        w.raw(self.data);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            image: r.u32()?,
            context: r.u32()?,
            flags: r.u64()?,
            format: [r.u32()?, r.u32()?],
            kind: r.u32()?,
            shape: [
                r.u64()?,
                r.u64()?,
                r.u64()?,
                r.u64()?,
                r.u64()?,
                r.u64()?,
                r.u64()?,
                r.u64()?,
            ],
            parent: r.u32()?,
            blob: r.u32()?,
            data: r.rest(),
        })
    }
}
impl<'a> Request<'a> for CreateImage<'a> {
    const OP: u16 = op::CREATE_IMAGE;
    const NAME: &'static str = "CreateImage";
    const WAITS: bool = false;
}
/// Answers to the queries about an image.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageInfo {
    pub image: u32,
}
impl<'a> Message<'a> for ImageInfo {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.image);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self { image: r.u32()? })
    }
}
impl<'a> Request<'a> for ImageInfo {
    const OP: u16 = op::IMAGE_INFO;
    const NAME: &'static str = "ImageInfo";
    const WAITS: bool = true;
}
/// The reply to [`ImageInfo`].
#[derive(Debug, Clone, PartialEq)]
pub struct ImageInfoReply<'a> {
    pub table: &'a [u8],
}
impl<'a> Message<'a> for ImageInfoReply<'a> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.bytes(self.table);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self { table: r.bytes()? })
    }
}
/// A sampler.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateSampler {
    pub sampler: u32,
    pub context: u32,
    pub normalized: u32,
    pub addressing: u32,
    pub filter: u32,
    pub properties: Vec<u64>,
}
impl<'a> Message<'a> for CreateSampler {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.sampler);
        w.u32(self.context);
        w.u32(self.normalized);
        w.u32(self.addressing);
        w.u32(self.filter);
        w.u64s(&self.properties);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            sampler: r.u32()?,
            context: r.u32()?,
            normalized: r.u32()?,
            addressing: r.u32()?,
            filter: r.u32()?,
            properties: r.u64s()?,
        })
    }
}
impl<'a> Request<'a> for CreateSampler {
    const OP: u16 = op::CREATE_SAMPLER;
    const NAME: &'static str = "CreateSampler";
    const WAITS: bool = false;
}
/// A program from source, in `blob` or `data`.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateProgramWithSource<'a> {
    pub program: u32,
    pub context: u32,
    pub blob: u32,
    pub data: &'a [u8],
}
impl<'a> Message<'a> for CreateProgramWithSource<'a> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.program);
        w.u32(self.context);
        w.u32(self.blob);
        w.raw(self.data);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            program: r.u32()?,
            context: r.u32()?,
            blob: r.u32()?,
            data: r.rest(),
        })
    }
}
impl<'a> Request<'a> for CreateProgramWithSource<'a> {
    const OP: u16 = op::CREATE_PROGRAM_WITH_SOURCE;
    const NAME: &'static str = "CreateProgramWithSource";
    const WAITS: bool = false;
}
/// A program from one binary for each device, one after the other in `blob`.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateProgramWithBinary {
    pub program: u32,
    pub context: u32,
    pub devices: Vec<u32>,
    pub lengths: Vec<u64>,
    pub blob: u32,
}
impl<'a> Message<'a> for CreateProgramWithBinary {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.program);
        w.u32(self.context);
        w.u32s(&self.devices);
        w.u64s(&self.lengths);
        w.u32(self.blob);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            program: r.u32()?,
            context: r.u32()?,
            devices: r.u32s()?,
            lengths: r.u64s()?,
            blob: r.u32()?,
        })
    }
}
impl<'a> Request<'a> for CreateProgramWithBinary {
    const OP: u16 = op::CREATE_PROGRAM_WITH_BINARY;
    const NAME: &'static str = "CreateProgramWithBinary";
    const WAITS: bool = true;
}
/// The reply to [`CreateProgramWithBinary`].
#[derive(Debug, Clone, PartialEq)]
pub struct CreateProgramWithBinaryReply<'a> {
    pub statuses: Vec<u32>,
    pub info: &'a [u8],
}
impl<'a> Message<'a> for CreateProgramWithBinaryReply<'a> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32s(&self.statuses);
        w.bytes(self.info);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            statuses: r.u32s()?,
            info: r.bytes()?,
        })
    }
}
/// A program of kernels that the devices bring along.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateProgramWithBuiltInKernels<'a> {
    pub program: u32,
    pub context: u32,
    pub devices: Vec<u32>,
    pub names: &'a str,
}
impl<'a> Message<'a> for CreateProgramWithBuiltInKernels<'a> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.program);
        w.u32(self.context);
        w.u32s(&self.devices);
        w.str(self.names);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            program: r.u32()?,
            context: r.u32()?,
            devices: r.u32s()?,
            names: r.str()?,
        })
    }
}
impl<'a> Request<'a> for CreateProgramWithBuiltInKernels<'a> {
    const OP: u16 = op::CREATE_PROGRAM_WITH_BUILT_IN_KERNELS;
    const NAME: &'static str = "CreateProgramWithBuiltInKernels";
    const WAITS: bool = true;
}
/// The reply to [`CreateProgramWithBuiltInKernels`].
#[derive(Debug, Clone, PartialEq)]
pub struct CreateProgramWithBuiltInKernelsReply<'a> {
    pub info: &'a [u8],
}
impl<'a> Message<'a> for CreateProgramWithBuiltInKernelsReply<'a> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.bytes(self.info);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self { info: r.bytes()? })
    }
}
/// A program from intermediate language.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateProgramWithIl {
    pub program: u32,
    pub context: u32,
    pub blob: u32,
}
impl<'a> Message<'a> for CreateProgramWithIl {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.program);
        w.u32(self.context);
        w.u32(self.blob);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            program: r.u32()?,
            context: r.u32()?,
            blob: r.u32()?,
        })
    }
}
impl<'a> Request<'a> for CreateProgramWithIl {
    const OP: u16 = op::CREATE_PROGRAM_WITH_IL;
    const NAME: &'static str = "CreateProgramWithIl";
    const WAITS: bool = true;
}
/// The reply to [`CreateProgramWithIl`].
#[derive(Debug, Clone, PartialEq)]
pub struct CreateProgramWithIlReply<'a> {
    pub info: &'a [u8],
}
impl<'a> Message<'a> for CreateProgramWithIlReply<'a> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.bytes(self.info);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self { info: r.bytes()? })
    }
}
/// Compiles and links. `files` are the headers found on the client; see the client's `headers`.
#[derive(Debug, Clone, PartialEq)]
pub struct BuildProgram<'a> {
    pub program: u32,
    pub devices: Vec<u32>,
    pub options: &'a str,
    pub files: u32,
}
impl<'a> Message<'a> for BuildProgram<'a> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.program);
        w.u32s(&self.devices);
        w.str(self.options);
        w.u32(self.files);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            program: r.u32()?,
            devices: r.u32s()?,
            options: r.str()?,
            files: r.u32()?,
        })
    }
}
impl<'a> Request<'a> for BuildProgram<'a> {
    const OP: u16 = op::BUILD_PROGRAM;
    const NAME: &'static str = "BuildProgram";
    const WAITS: bool = true;
}
/// The reply to [`BuildProgram`].
#[derive(Debug, Clone, PartialEq)]
pub struct BuildProgramReply<'a> {
    pub info: &'a [u8],
}
impl<'a> Message<'a> for BuildProgramReply<'a> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.bytes(self.info);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self { info: r.bytes()? })
    }
}
/// Compiles with programs as headers.
#[derive(Debug, Clone, PartialEq)]
pub struct CompileProgram<'a> {
    pub program: u32,
    pub devices: Vec<u32>,
    pub options: &'a str,
    pub headers: Vec<u32>,
    pub names: &'a [u8],
    pub files: u32,
}
impl<'a> Message<'a> for CompileProgram<'a> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.program);
        w.u32s(&self.devices);
        w.str(self.options);
        w.u32s(&self.headers);
        w.bytes(self.names);
        w.u32(self.files);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            program: r.u32()?,
            devices: r.u32s()?,
            options: r.str()?,
            headers: r.u32s()?,
            names: r.bytes()?,
            files: r.u32()?,
        })
    }
}
impl<'a> Request<'a> for CompileProgram<'a> {
    const OP: u16 = op::COMPILE_PROGRAM;
    const NAME: &'static str = "CompileProgram";
    const WAITS: bool = true;
}
/// The reply to [`CompileProgram`].
#[derive(Debug, Clone, PartialEq)]
pub struct CompileProgramReply<'a> {
    pub info: &'a [u8],
}
impl<'a> Message<'a> for CompileProgramReply<'a> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.bytes(self.info);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self { info: r.bytes()? })
    }
}
/// Links compiled programs into a new one.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkProgram<'a> {
    pub program: u32,
    pub context: u32,
    pub devices: Vec<u32>,
    pub options: &'a str,
    pub inputs: Vec<u32>,
}
impl<'a> Message<'a> for LinkProgram<'a> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.program);
        w.u32(self.context);
        w.u32s(&self.devices);
        w.str(self.options);
        w.u32s(&self.inputs);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            program: r.u32()?,
            context: r.u32()?,
            devices: r.u32s()?,
            options: r.str()?,
            inputs: r.u32s()?,
        })
    }
}
impl<'a> Request<'a> for LinkProgram<'a> {
    const OP: u16 = op::LINK_PROGRAM;
    const NAME: &'static str = "LinkProgram";
    const WAITS: bool = true;
}
/// The reply to [`LinkProgram`].
#[derive(Debug, Clone, PartialEq)]
pub struct LinkProgramReply<'a> {
    pub info: &'a [u8],
}
impl<'a> Message<'a> for LinkProgramReply<'a> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.bytes(self.info);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self { info: r.bytes()? })
    }
}
/// The binaries, one after the other, as bulk bytes; asked with `bytes` 0 for their sizes.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgramBinaries {
    pub program: u32,
    pub bytes: u64,
}
impl<'a> Message<'a> for ProgramBinaries {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.program);
        w.u64(self.bytes);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            program: r.u32()?,
            bytes: r.u64()?,
        })
    }
}
impl<'a> Request<'a> for ProgramBinaries {
    const OP: u16 = op::PROGRAM_BINARIES;
    const NAME: &'static str = "ProgramBinaries";
    const WAITS: bool = true;
}
/// The reply to [`ProgramBinaries`].
#[derive(Debug, Clone, PartialEq)]
pub struct ProgramBinariesReply {
    pub sizes: Vec<u64>,
}
impl<'a> Message<'a> for ProgramBinariesReply {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u64s(&self.sizes);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self { sizes: r.u64s()? })
    }
}
/// A specialization constant.
#[derive(Debug, Clone, PartialEq)]
pub struct SetSpecializationConstant<'a> {
    pub program: u32,
    pub id: u32,
    pub value: &'a [u8],
}
impl<'a> Message<'a> for SetSpecializationConstant<'a> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.program);
        w.u32(self.id);
        w.bytes(self.value);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            program: r.u32()?,
            id: r.u32()?,
            value: r.bytes()?,
        })
    }
}
impl<'a> Request<'a> for SetSpecializationConstant<'a> {
    const OP: u16 = op::SET_SPECIALIZATION_CONSTANT;
    const NAME: &'static str = "SetSpecializationConstant";
    const WAITS: bool = true;
}
/// A kernel by name.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateKernel<'a> {
    pub kernel: u32,
    pub program: u32,
    pub name: &'a str,
}
impl<'a> Message<'a> for CreateKernel<'a> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.kernel);
        w.u32(self.program);
        w.str(self.name);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            kernel: r.u32()?,
            program: r.u32()?,
            name: r.str()?,
        })
    }
}
impl<'a> Request<'a> for CreateKernel<'a> {
    const OP: u16 = op::CREATE_KERNEL;
    const NAME: &'static str = "CreateKernel";
    const WAITS: bool = false;
}
/// A copy of a kernel with its arguments; `args` are those set since its last launch.
#[derive(Debug, Clone, PartialEq)]
pub struct CloneKernel<'a> {
    pub kernel: u32,
    pub source: u32,
    pub args: &'a [u8],
}
impl<'a> Message<'a> for CloneKernel<'a> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.kernel);
        w.u32(self.source);
        w.bytes(self.args);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            kernel: r.u32()?,
            source: r.u32()?,
            args: r.bytes()?,
        })
    }
}
impl<'a> Request<'a> for CloneKernel<'a> {
    const OP: u16 = op::CLONE_KERNEL;
    const NAME: &'static str = "CloneKernel";
    const WAITS: bool = false;
}
/// Everything about a kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct DescribeKernel {
    pub kernel: u32,
}
impl<'a> Message<'a> for DescribeKernel {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.kernel);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self { kernel: r.u32()? })
    }
}
impl<'a> Request<'a> for DescribeKernel {
    const OP: u16 = op::DESCRIBE_KERNEL;
    const NAME: &'static str = "DescribeKernel";
    const WAITS: bool = true;
}
/// The reply to [`DescribeKernel`].
#[derive(Debug, Clone, PartialEq)]
pub struct DescribeKernelReply<'a> {
    pub info: &'a [u8],
}
impl<'a> Message<'a> for DescribeKernelReply<'a> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.bytes(self.info);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self { info: r.bytes()? })
    }
}
/// Execution information: pointers as they are.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelExecInfo<'a> {
    pub kernel: u32,
    pub param: u32,
    pub value: &'a [u8],
}
impl<'a> Message<'a> for KernelExecInfo<'a> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.kernel);
        w.u32(self.param);
        w.bytes(self.value);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            kernel: r.u32()?,
            param: r.u32()?,
            value: r.bytes()?,
        })
    }
}
impl<'a> Request<'a> for KernelExecInfo<'a> {
    const OP: u16 = op::KERNEL_EXEC_INFO;
    const NAME: &'static str = "KernelExecInfo";
    const WAITS: bool = true;
}
/// A sub-group query.
#[derive(Debug, Clone, PartialEq)]
pub struct SubGroupInfo<'a> {
    pub kernel: u32,
    pub device: u32,
    pub param: u32,
    pub input: &'a [u8],
    pub most: u32,
}
impl<'a> Message<'a> for SubGroupInfo<'a> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.kernel);
        w.u32(self.device);
        w.u32(self.param);
        w.bytes(self.input);
        w.u32(self.most);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            kernel: r.u32()?,
            device: r.u32()?,
            param: r.u32()?,
            input: r.bytes()?,
            most: r.u32()?,
        })
    }
}
impl<'a> Request<'a> for SubGroupInfo<'a> {
    const OP: u16 = op::SUB_GROUP_INFO;
    const NAME: &'static str = "SubGroupInfo";
    const WAITS: bool = true;
}
/// The reply to [`SubGroupInfo`].
#[derive(Debug, Clone, PartialEq)]
pub struct SubGroupInfoReply<'a> {
    pub value: &'a [u8],
}
impl<'a> Message<'a> for SubGroupInfoReply<'a> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.bytes(self.value);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self { value: r.bytes()? })
    }
}
/// The local size that the device would choose.
#[derive(Debug, Clone, PartialEq)]
pub struct SuggestedLocalSize<'a> {
    pub queue: u32,
    pub kernel: u32,
    pub dims: u32,
    pub offset: [u64; 3],
    pub global: [u64; 3],
    pub args: &'a [u8],
}
impl<'a> Message<'a> for SuggestedLocalSize<'a> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.queue);
        w.u32(self.kernel);
        w.u32(self.dims);
        for x in self.offset {
            w.u64(x);
        }
        for x in self.global {
            w.u64(x);
        }
        w.bytes(self.args);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            queue: r.u32()?,
            kernel: r.u32()?,
            dims: r.u32()?,
            offset: [r.u64()?, r.u64()?, r.u64()?],
            global: [r.u64()?, r.u64()?, r.u64()?],
            args: r.bytes()?,
        })
    }
}
impl<'a> Request<'a> for SuggestedLocalSize<'a> {
    const OP: u16 = op::SUGGESTED_LOCAL_SIZE;
    const NAME: &'static str = "SuggestedLocalSize";
    const WAITS: bool = true;
}
/// The reply to [`SuggestedLocalSize`].
#[derive(Debug, Clone, PartialEq)]
pub struct SuggestedLocalSizeReply {
    pub local: [u64; 3],
}
impl<'a> Message<'a> for SuggestedLocalSizeReply {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        for x in self.local {
            w.u64(x);
        }
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            local: [r.u64()?, r.u64()?, r.u64()?],
        })
    }
}
/// A launch. `args` are those set since the kernel's last launch; `dims` above 3 means no local size.
#[derive(Debug, Clone, PartialEq)]
pub struct LaunchKernel<'a> {
    pub queue: u32,
    pub kernel: u32,
    pub event: u32,
    pub dims: u32,
    pub offset: [u64; 3],
    pub global: [u64; 3],
    pub local: [u64; 3],
    pub args: &'a [u8],
    pub waits: Vec<u32>,
}
impl<'a> Message<'a> for LaunchKernel<'a> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.queue);
        w.u32(self.kernel);
        w.u32(self.event);
        w.u32(self.dims);
        for x in self.offset {
            w.u64(x);
        }
        for x in self.global {
            w.u64(x);
        }
        for x in self.local {
            w.u64(x);
        }
        w.bytes(self.args);
        w.u32s(&self.waits);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            queue: r.u32()?,
            kernel: r.u32()?,
            event: r.u32()?,
            dims: r.u32()?,
            offset: [r.u64()?, r.u64()?, r.u64()?],
            global: [r.u64()?, r.u64()?, r.u64()?],
            local: [r.u64()?, r.u64()?, r.u64()?],
            args: r.bytes()?,
            waits: r.u32s()?,
        })
    }
}
impl<'a> Request<'a> for LaunchKernel<'a> {
    const OP: u16 = op::LAUNCH_KERNEL;
    const NAME: &'static str = "LaunchKernel";
    const WAITS: bool = false;
}
/// Bytes to a buffer.
#[derive(Debug, Clone, PartialEq)]
pub struct WriteBuffer<'a> {
    pub queue: u32,
    pub buffer: u32,
    pub event: u32,
    pub waits: Vec<u32>,
    pub offset: u64,
    pub blob: u32,
    pub data: &'a [u8],
}
impl<'a> Message<'a> for WriteBuffer<'a> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.queue);
        w.u32(self.buffer);
        w.u32(self.event);
        w.u32s(&self.waits);
        w.u64(self.offset);
        w.u32(self.blob);
        w.raw(self.data);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            queue: r.u32()?,
            buffer: r.u32()?,
            event: r.u32()?,
            waits: r.u32s()?,
            offset: r.u64()?,
            blob: r.u32()?,
            data: r.rest(),
        })
    }
}
impl<'a> Request<'a> for WriteBuffer<'a> {
    const OP: u16 = op::WRITE_BUFFER;
    const NAME: &'static str = "WriteBuffer";
    const WAITS: bool = false;
}
/// Bytes from a buffer, as bulk.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadBuffer {
    pub queue: u32,
    pub buffer: u32,
    pub event: u32,
    pub waits: Vec<u32>,
    pub offset: u64,
    pub size: u64,
}
impl<'a> Message<'a> for ReadBuffer {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.queue);
        w.u32(self.buffer);
        w.u32(self.event);
        w.u32s(&self.waits);
        w.u64(self.offset);
        w.u64(self.size);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            queue: r.u32()?,
            buffer: r.u32()?,
            event: r.u32()?,
            waits: r.u32s()?,
            offset: r.u64()?,
            size: r.u64()?,
        })
    }
}
impl<'a> Request<'a> for ReadBuffer {
    const OP: u16 = op::READ_BUFFER;
    const NAME: &'static str = "ReadBuffer";
    const WAITS: bool = true;
}
/// Buffer to buffer.
#[derive(Debug, Clone, PartialEq)]
pub struct CopyBuffer {
    pub queue: u32,
    pub from: u32,
    pub to: u32,
    pub event: u32,
    pub waits: Vec<u32>,
    pub from_offset: u64,
    pub to_offset: u64,
    pub size: u64,
}
impl<'a> Message<'a> for CopyBuffer {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.queue);
        w.u32(self.from);
        w.u32(self.to);
        w.u32(self.event);
        w.u32s(&self.waits);
        w.u64(self.from_offset);
        w.u64(self.to_offset);
        w.u64(self.size);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            queue: r.u32()?,
            from: r.u32()?,
            to: r.u32()?,
            event: r.u32()?,
            waits: r.u32s()?,
            from_offset: r.u64()?,
            to_offset: r.u64()?,
            size: r.u64()?,
        })
    }
}
impl<'a> Request<'a> for CopyBuffer {
    const OP: u16 = op::COPY_BUFFER;
    const NAME: &'static str = "CopyBuffer";
    const WAITS: bool = false;
}
/// A box of bytes to a buffer, without gaps.
#[derive(Debug, Clone, PartialEq)]
pub struct WriteBufferRect<'a> {
    pub queue: u32,
    pub buffer: u32,
    pub event: u32,
    pub waits: Vec<u32>,
    pub origin: [u64; 3],
    pub region: [u64; 3],
    pub pitch: [u64; 2],
    pub blob: u32,
    pub data: &'a [u8],
}
impl<'a> Message<'a> for WriteBufferRect<'a> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.queue);
        w.u32(self.buffer);
        w.u32(self.event);
        w.u32s(&self.waits);
        for x in self.origin {
            w.u64(x);
        }
        for x in self.region {
            w.u64(x);
        }
        for x in self.pitch {
            w.u64(x);
        }
        w.u32(self.blob);
        w.raw(self.data);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            queue: r.u32()?,
            buffer: r.u32()?,
            event: r.u32()?,
            waits: r.u32s()?,
            origin: [r.u64()?, r.u64()?, r.u64()?],
            region: [r.u64()?, r.u64()?, r.u64()?],
            pitch: [r.u64()?, r.u64()?],
            blob: r.u32()?,
            data: r.rest(),
        })
    }
}
impl<'a> Request<'a> for WriteBufferRect<'a> {
    const OP: u16 = op::WRITE_BUFFER_RECT;
    const NAME: &'static str = "WriteBufferRect";
    const WAITS: bool = false;
}
/// A box of bytes from a buffer, without gaps, as bulk.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadBufferRect {
    pub queue: u32,
    pub buffer: u32,
    pub event: u32,
    pub waits: Vec<u32>,
    pub origin: [u64; 3],
    pub region: [u64; 3],
    pub pitch: [u64; 2],
}
impl<'a> Message<'a> for ReadBufferRect {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.queue);
        w.u32(self.buffer);
        w.u32(self.event);
        w.u32s(&self.waits);
        for x in self.origin {
            w.u64(x);
        }
        for x in self.region {
            w.u64(x);
        }
        for x in self.pitch {
            w.u64(x);
        }
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            queue: r.u32()?,
            buffer: r.u32()?,
            event: r.u32()?,
            waits: r.u32s()?,
            origin: [r.u64()?, r.u64()?, r.u64()?],
            region: [r.u64()?, r.u64()?, r.u64()?],
            pitch: [r.u64()?, r.u64()?],
        })
    }
}
impl<'a> Request<'a> for ReadBufferRect {
    const OP: u16 = op::READ_BUFFER_RECT;
    const NAME: &'static str = "ReadBufferRect";
    const WAITS: bool = true;
}
/// A box of bytes between buffers.
#[derive(Debug, Clone, PartialEq)]
pub struct CopyBufferRect {
    pub queue: u32,
    pub from: u32,
    pub to: u32,
    pub event: u32,
    pub waits: Vec<u32>,
    pub from_origin: [u64; 3],
    pub to_origin: [u64; 3],
    pub region: [u64; 3],
    pub from_pitch: [u64; 2],
    pub to_pitch: [u64; 2],
}
impl<'a> Message<'a> for CopyBufferRect {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.queue);
        w.u32(self.from);
        w.u32(self.to);
        w.u32(self.event);
        w.u32s(&self.waits);
        for x in self.from_origin {
            w.u64(x);
        }
        for x in self.to_origin {
            w.u64(x);
        }
        for x in self.region {
            w.u64(x);
        }
        for x in self.from_pitch {
            w.u64(x);
        }
        for x in self.to_pitch {
            w.u64(x);
        }
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            queue: r.u32()?,
            from: r.u32()?,
            to: r.u32()?,
            event: r.u32()?,
            waits: r.u32s()?,
            from_origin: [r.u64()?, r.u64()?, r.u64()?],
            to_origin: [r.u64()?, r.u64()?, r.u64()?],
            region: [r.u64()?, r.u64()?, r.u64()?],
            from_pitch: [r.u64()?, r.u64()?],
            to_pitch: [r.u64()?, r.u64()?],
        })
    }
}
impl<'a> Request<'a> for CopyBufferRect {
    const OP: u16 = op::COPY_BUFFER_RECT;
    const NAME: &'static str = "CopyBufferRect";
    const WAITS: bool = false;
}
/// A pattern over a range.
#[derive(Debug, Clone, PartialEq)]
pub struct FillBuffer<'a> {
    pub queue: u32,
    pub buffer: u32,
    pub event: u32,
    pub waits: Vec<u32>,
    pub pattern: &'a [u8],
    pub offset: u64,
    pub size: u64,
}
impl<'a> Message<'a> for FillBuffer<'a> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.queue);
        w.u32(self.buffer);
        w.u32(self.event);
        w.u32s(&self.waits);
        w.bytes(self.pattern);
        w.u64(self.offset);
        w.u64(self.size);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            queue: r.u32()?,
            buffer: r.u32()?,
            event: r.u32()?,
            waits: r.u32s()?,
            pattern: r.bytes()?,
            offset: r.u64()?,
            size: r.u64()?,
        })
    }
}
impl<'a> Request<'a> for FillBuffer<'a> {
    const OP: u16 = op::FILL_BUFFER;
    const NAME: &'static str = "FillBuffer";
    const WAITS: bool = false;
}
/// Pixels to an image, without gaps.
#[derive(Debug, Clone, PartialEq)]
pub struct WriteImage<'a> {
    pub queue: u32,
    pub image: u32,
    pub event: u32,
    pub waits: Vec<u32>,
    pub origin: [u64; 3],
    pub region: [u64; 3],
    pub blob: u32,
    pub data: &'a [u8],
}
impl<'a> Message<'a> for WriteImage<'a> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.queue);
        w.u32(self.image);
        w.u32(self.event);
        w.u32s(&self.waits);
        for x in self.origin {
            w.u64(x);
        }
        for x in self.region {
            w.u64(x);
        }
        w.u32(self.blob);
        w.raw(self.data);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            queue: r.u32()?,
            image: r.u32()?,
            event: r.u32()?,
            waits: r.u32s()?,
            origin: [r.u64()?, r.u64()?, r.u64()?],
            region: [r.u64()?, r.u64()?, r.u64()?],
            blob: r.u32()?,
            data: r.rest(),
        })
    }
}
impl<'a> Request<'a> for WriteImage<'a> {
    const OP: u16 = op::WRITE_IMAGE;
    const NAME: &'static str = "WriteImage";
    const WAITS: bool = false;
}
/// Pixels from an image, without gaps, as bulk.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadImage {
    pub queue: u32,
    pub image: u32,
    pub event: u32,
    pub waits: Vec<u32>,
    pub origin: [u64; 3],
    pub region: [u64; 3],
    pub bytes: u64,
}
impl<'a> Message<'a> for ReadImage {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.queue);
        w.u32(self.image);
        w.u32(self.event);
        w.u32s(&self.waits);
        for x in self.origin {
            w.u64(x);
        }
        for x in self.region {
            w.u64(x);
        }
        w.u64(self.bytes);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            queue: r.u32()?,
            image: r.u32()?,
            event: r.u32()?,
            waits: r.u32s()?,
            origin: [r.u64()?, r.u64()?, r.u64()?],
            region: [r.u64()?, r.u64()?, r.u64()?],
            bytes: r.u64()?,
        })
    }
}
impl<'a> Request<'a> for ReadImage {
    const OP: u16 = op::READ_IMAGE;
    const NAME: &'static str = "ReadImage";
    const WAITS: bool = true;
}
/// Image to image.
#[derive(Debug, Clone, PartialEq)]
pub struct CopyImage {
    pub queue: u32,
    pub from: u32,
    pub to: u32,
    pub event: u32,
    pub waits: Vec<u32>,
    pub from_origin: [u64; 3],
    pub to_origin: [u64; 3],
    pub region: [u64; 3],
}
impl<'a> Message<'a> for CopyImage {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.queue);
        w.u32(self.from);
        w.u32(self.to);
        w.u32(self.event);
        w.u32s(&self.waits);
        for x in self.from_origin {
            w.u64(x);
        }
        for x in self.to_origin {
            w.u64(x);
        }
        for x in self.region {
            w.u64(x);
        }
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            queue: r.u32()?,
            from: r.u32()?,
            to: r.u32()?,
            event: r.u32()?,
            waits: r.u32s()?,
            from_origin: [r.u64()?, r.u64()?, r.u64()?],
            to_origin: [r.u64()?, r.u64()?, r.u64()?],
            region: [r.u64()?, r.u64()?, r.u64()?],
        })
    }
}
impl<'a> Request<'a> for CopyImage {
    const OP: u16 = op::COPY_IMAGE;
    const NAME: &'static str = "CopyImage";
    const WAITS: bool = false;
}
/// Image to buffer.
#[derive(Debug, Clone, PartialEq)]
pub struct CopyImageToBuffer {
    pub queue: u32,
    pub from: u32,
    pub to: u32,
    pub event: u32,
    pub waits: Vec<u32>,
    pub origin: [u64; 3],
    pub region: [u64; 3],
    pub offset: u64,
}
impl<'a> Message<'a> for CopyImageToBuffer {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.queue);
        w.u32(self.from);
        w.u32(self.to);
        w.u32(self.event);
        w.u32s(&self.waits);
        for x in self.origin {
            w.u64(x);
        }
        for x in self.region {
            w.u64(x);
        }
        w.u64(self.offset);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            queue: r.u32()?,
            from: r.u32()?,
            to: r.u32()?,
            event: r.u32()?,
            waits: r.u32s()?,
            origin: [r.u64()?, r.u64()?, r.u64()?],
            region: [r.u64()?, r.u64()?, r.u64()?],
            offset: r.u64()?,
        })
    }
}
impl<'a> Request<'a> for CopyImageToBuffer {
    const OP: u16 = op::COPY_IMAGE_TO_BUFFER;
    const NAME: &'static str = "CopyImageToBuffer";
    const WAITS: bool = false;
}
/// Buffer to image.
#[derive(Debug, Clone, PartialEq)]
pub struct CopyBufferToImage {
    pub queue: u32,
    pub from: u32,
    pub to: u32,
    pub event: u32,
    pub waits: Vec<u32>,
    pub offset: u64,
    pub origin: [u64; 3],
    pub region: [u64; 3],
}
impl<'a> Message<'a> for CopyBufferToImage {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.queue);
        w.u32(self.from);
        w.u32(self.to);
        w.u32(self.event);
        w.u32s(&self.waits);
        w.u64(self.offset);
        for x in self.origin {
            w.u64(x);
        }
        for x in self.region {
            w.u64(x);
        }
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            queue: r.u32()?,
            from: r.u32()?,
            to: r.u32()?,
            event: r.u32()?,
            waits: r.u32s()?,
            offset: r.u64()?,
            origin: [r.u64()?, r.u64()?, r.u64()?],
            region: [r.u64()?, r.u64()?, r.u64()?],
        })
    }
}
impl<'a> Request<'a> for CopyBufferToImage {
    const OP: u16 = op::COPY_BUFFER_TO_IMAGE;
    const NAME: &'static str = "CopyBufferToImage";
    const WAITS: bool = false;
}
/// One colour over a region.
#[derive(Debug, Clone, PartialEq)]
pub struct FillImage {
    pub queue: u32,
    pub image: u32,
    pub event: u32,
    pub waits: Vec<u32>,
    pub color: [u32; 4],
    pub origin: [u64; 3],
    pub region: [u64; 3],
}
impl<'a> Message<'a> for FillImage {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.queue);
        w.u32(self.image);
        w.u32(self.event);
        w.u32s(&self.waits);
        for x in self.color {
            w.u32(x);
        }
        for x in self.origin {
            w.u64(x);
        }
        for x in self.region {
            w.u64(x);
        }
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            queue: r.u32()?,
            image: r.u32()?,
            event: r.u32()?,
            waits: r.u32s()?,
            color: [r.u32()?, r.u32()?, r.u32()?, r.u32()?],
            origin: [r.u64()?, r.u64()?, r.u64()?],
            region: [r.u64()?, r.u64()?, r.u64()?],
        })
    }
}
impl<'a> Request<'a> for FillImage {
    const OP: u16 = op::FILL_IMAGE;
    const NAME: &'static str = "FillImage";
    const WAITS: bool = false;
}
/// Moves objects to the queue's device.
#[derive(Debug, Clone, PartialEq)]
pub struct Migrate {
    pub queue: u32,
    pub objects: Vec<u32>,
    pub flags: u64,
    pub event: u32,
    pub waits: Vec<u32>,
}
impl<'a> Message<'a> for Migrate {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.queue);
        w.u32s(&self.objects);
        w.u64(self.flags);
        w.u32(self.event);
        w.u32s(&self.waits);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            queue: r.u32()?,
            objects: r.u32s()?,
            flags: r.u64()?,
            event: r.u32()?,
            waits: r.u32s()?,
        })
    }
}
impl<'a> Request<'a> for Migrate {
    const OP: u16 = op::MIGRATE;
    const NAME: &'static str = "Migrate";
    const WAITS: bool = false;
}
/// A marker, or with `barrier` a barrier.
#[derive(Debug, Clone, PartialEq)]
pub struct Marker {
    pub queue: u32,
    pub event: u32,
    pub waits: Vec<u32>,
    pub barrier: u32,
}
impl<'a> Message<'a> for Marker {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.queue);
        w.u32(self.event);
        w.u32s(&self.waits);
        w.u32(self.barrier);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            queue: r.u32()?,
            event: r.u32()?,
            waits: r.u32s()?,
            barrier: r.u32()?,
        })
    }
}
impl<'a> Request<'a> for Marker {
    const OP: u16 = op::MARKER;
    const NAME: &'static str = "Marker";
    const WAITS: bool = false;
}
/// Waits for everything in a queue.
#[derive(Debug, Clone, PartialEq)]
pub struct Finish {
    pub queue: u32,
}
impl<'a> Message<'a> for Finish {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.queue);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self { queue: r.u32()? })
    }
}
impl<'a> Request<'a> for Finish {
    const OP: u16 = op::FINISH;
    const NAME: &'static str = "Finish";
    const WAITS: bool = true;
}
/// Hands a queue's commands to the device.
#[derive(Debug, Clone, PartialEq)]
pub struct Flush {
    pub queue: u32,
}
impl<'a> Message<'a> for Flush {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.queue);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self { queue: r.u32()? })
    }
}
impl<'a> Request<'a> for Flush {
    const OP: u16 = op::FLUSH;
    const NAME: &'static str = "Flush";
    const WAITS: bool = false;
}
/// A user event.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateUserEvent {
    pub event: u32,
    pub context: u32,
}
impl<'a> Message<'a> for CreateUserEvent {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.event);
        w.u32(self.context);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            event: r.u32()?,
            context: r.u32()?,
        })
    }
}
impl<'a> Request<'a> for CreateUserEvent {
    const OP: u16 = op::CREATE_USER_EVENT;
    const NAME: &'static str = "CreateUserEvent";
    const WAITS: bool = false;
}
/// Ends a user event.
#[derive(Debug, Clone, PartialEq)]
pub struct SetUserEventStatus {
    pub event: u32,
    pub status: i32,
}
impl<'a> Message<'a> for SetUserEventStatus {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.event);
        w.i32(self.status);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            event: r.u32()?,
            status: r.i32()?,
        })
    }
}
impl<'a> Request<'a> for SetUserEventStatus {
    const OP: u16 = op::SET_USER_EVENT_STATUS;
    const NAME: &'static str = "SetUserEventStatus";
    const WAITS: bool = false;
}
/// Waits for events.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitForEvents {
    pub events: Vec<u32>,
}
impl<'a> Message<'a> for WaitForEvents {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32s(&self.events);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self { events: r.u32s()? })
    }
}
impl<'a> Request<'a> for WaitForEvents {
    const OP: u16 = op::WAIT_FOR_EVENTS;
    const NAME: &'static str = "WaitForEvents";
    const WAITS: bool = true;
}
/// How far an event has come.
#[derive(Debug, Clone, PartialEq)]
pub struct EventStatus {
    pub event: u32,
}
impl<'a> Message<'a> for EventStatus {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.event);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self { event: r.u32()? })
    }
}
impl<'a> Request<'a> for EventStatus {
    const OP: u16 = op::EVENT_STATUS;
    const NAME: &'static str = "EventStatus";
    const WAITS: bool = true;
}
/// The reply to [`EventStatus`].
#[derive(Debug, Clone, PartialEq)]
pub struct EventStatusReply {
    pub status: i32,
}
impl<'a> Message<'a> for EventStatusReply {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.i32(self.status);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self { status: r.i32()? })
    }
}
/// Queued, submitted, started, ended and all complete, in the device's time.
#[derive(Debug, Clone, PartialEq)]
pub struct EventProfile {
    pub event: u32,
}
impl<'a> Message<'a> for EventProfile {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.event);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self { event: r.u32()? })
    }
}
impl<'a> Request<'a> for EventProfile {
    const OP: u16 = op::EVENT_PROFILE;
    const NAME: &'static str = "EventProfile";
    const WAITS: bool = true;
}
/// The reply to [`EventProfile`].
#[derive(Debug, Clone, PartialEq)]
pub struct EventProfileReply {
    pub status: i32,
    pub times: [u64; 5],
}
impl<'a> Message<'a> for EventProfileReply {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.i32(self.status);
        for x in self.times {
            w.u64(x);
        }
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            status: r.i32()?,
            times: [r.u64()?, r.u64()?, r.u64()?, r.u64()?, r.u64()?],
        })
    }
}
/// Asks for a callback notice with `token`.
#[derive(Debug, Clone, PartialEq)]
pub struct EventCallback {
    pub event: u32,
    pub trigger: i32,
    pub token: u64,
}
impl<'a> Message<'a> for EventCallback {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.event);
        w.i32(self.trigger);
        w.u64(self.token);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            event: r.u32()?,
            trigger: r.i32()?,
            token: r.u64()?,
        })
    }
}
impl<'a> Request<'a> for EventCallback {
    const OP: u16 = op::EVENT_CALLBACK;
    const NAME: &'static str = "EventCallback";
    const WAITS: bool = false;
}
/// Shared virtual memory. The pointer is valid at the worker, and at the client if it can be had.
#[derive(Debug, Clone, PartialEq)]
pub struct SvmAlloc {
    pub context: u32,
    pub flags: u64,
    pub size: u64,
    pub align: u32,
}
impl<'a> Message<'a> for SvmAlloc {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.context);
        w.u64(self.flags);
        w.u64(self.size);
        w.u32(self.align);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            context: r.u32()?,
            flags: r.u64()?,
            size: r.u64()?,
            align: r.u32()?,
        })
    }
}
impl<'a> Request<'a> for SvmAlloc {
    const OP: u16 = op::SVM_ALLOC;
    const NAME: &'static str = "SvmAlloc";
    const WAITS: bool = true;
}
/// The reply to [`SvmAlloc`].
#[derive(Debug, Clone, PartialEq)]
pub struct SvmAllocReply {
    pub pointer: u64,
}
impl<'a> Message<'a> for SvmAllocReply {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u64(self.pointer);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self { pointer: r.u64()? })
    }
}
/// Frees it at once.
#[derive(Debug, Clone, PartialEq)]
pub struct SvmFree {
    pub context: u32,
    pub pointer: u64,
}
impl<'a> Message<'a> for SvmFree {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.context);
        w.u64(self.pointer);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            context: r.u32()?,
            pointer: r.u64()?,
        })
    }
}
impl<'a> Request<'a> for SvmFree {
    const OP: u16 = op::SVM_FREE;
    const NAME: &'static str = "SvmFree";
    const WAITS: bool = false;
}
/// Bytes to it.
#[derive(Debug, Clone, PartialEq)]
pub struct SvmWrite<'a> {
    pub queue: u32,
    pub event: u32,
    pub waits: Vec<u32>,
    pub pointer: u64,
    pub command: u32,
    pub blob: u32,
    pub data: &'a [u8],
}
impl<'a> Message<'a> for SvmWrite<'a> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.queue);
        w.u32(self.event);
        w.u32s(&self.waits);
        w.u64(self.pointer);
        w.u32(self.command);
        w.u32(self.blob);
        w.raw(self.data);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            queue: r.u32()?,
            event: r.u32()?,
            waits: r.u32s()?,
            pointer: r.u64()?,
            command: r.u32()?,
            blob: r.u32()?,
            data: r.rest(),
        })
    }
}
impl<'a> Request<'a> for SvmWrite<'a> {
    const OP: u16 = op::SVM_WRITE;
    const NAME: &'static str = "SvmWrite";
    const WAITS: bool = false;
}
/// Bytes from it, as bulk.
#[derive(Debug, Clone, PartialEq)]
pub struct SvmRead {
    pub queue: u32,
    pub event: u32,
    pub waits: Vec<u32>,
    pub pointer: u64,
    pub size: u64,
}
impl<'a> Message<'a> for SvmRead {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.queue);
        w.u32(self.event);
        w.u32s(&self.waits);
        w.u64(self.pointer);
        w.u64(self.size);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            queue: r.u32()?,
            event: r.u32()?,
            waits: r.u32s()?,
            pointer: r.u64()?,
            size: r.u64()?,
        })
    }
}
impl<'a> Request<'a> for SvmRead {
    const OP: u16 = op::SVM_READ;
    const NAME: &'static str = "SvmRead";
    const WAITS: bool = true;
}
/// From one place in it to another.
#[derive(Debug, Clone, PartialEq)]
pub struct SvmCopy {
    pub queue: u32,
    pub event: u32,
    pub waits: Vec<u32>,
    pub to: u64,
    pub from: u64,
    pub size: u64,
}
impl<'a> Message<'a> for SvmCopy {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.queue);
        w.u32(self.event);
        w.u32s(&self.waits);
        w.u64(self.to);
        w.u64(self.from);
        w.u64(self.size);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            queue: r.u32()?,
            event: r.u32()?,
            waits: r.u32s()?,
            to: r.u64()?,
            from: r.u64()?,
            size: r.u64()?,
        })
    }
}
impl<'a> Request<'a> for SvmCopy {
    const OP: u16 = op::SVM_COPY;
    const NAME: &'static str = "SvmCopy";
    const WAITS: bool = false;
}
/// A pattern over a range of it.
#[derive(Debug, Clone, PartialEq)]
pub struct SvmFill<'a> {
    pub queue: u32,
    pub event: u32,
    pub waits: Vec<u32>,
    pub pointer: u64,
    pub pattern: &'a [u8],
    pub size: u64,
}
impl<'a> Message<'a> for SvmFill<'a> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.queue);
        w.u32(self.event);
        w.u32s(&self.waits);
        w.u64(self.pointer);
        w.bytes(self.pattern);
        w.u64(self.size);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            queue: r.u32()?,
            event: r.u32()?,
            waits: r.u32s()?,
            pointer: r.u64()?,
            pattern: r.bytes()?,
            size: r.u64()?,
        })
    }
}
impl<'a> Request<'a> for SvmFill<'a> {
    const OP: u16 = op::SVM_FILL;
    const NAME: &'static str = "SvmFill";
    const WAITS: bool = false;
}
/// Moves ranges of it to the queue's device.
#[derive(Debug, Clone, PartialEq)]
pub struct SvmMigrate {
    pub queue: u32,
    pub event: u32,
    pub waits: Vec<u32>,
    pub pointers: Vec<u64>,
    pub sizes: Vec<u64>,
    pub flags: u64,
}
impl<'a> Message<'a> for SvmMigrate {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.queue);
        w.u32(self.event);
        w.u32s(&self.waits);
        w.u64s(&self.pointers);
        w.u64s(&self.sizes);
        w.u64(self.flags);
    }
    #[inline]
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(Self {
            queue: r.u32()?,
            event: r.u32()?,
            waits: r.u32s()?,
            pointers: r.u64s()?,
            sizes: r.u64s()?,
            flags: r.u64()?,
        })
    }
}
impl<'a> Request<'a> for SvmMigrate {
    const OP: u16 = op::SVM_MIGRATE;
    const NAME: &'static str = "SvmMigrate";
    const WAITS: bool = false;
}
