//! The dispatch table, and functions by name.

use super::server::servers;
use super::{context, device, event, image, image_copy, kernel, launch, map, memory};
use super::{entry, queue, rect, sampler, svm, transfer};
use super::{platform, program, program_info};
use busbar_abi::opencl::*;
use std::ffi::c_void;
use std::sync::OnceLock;

macro_rules! functions {
    ($($name:literal => $f:path),* $(,)?) => {
        /// The address of a function that Busbar forwards or answers.
        pub fn address(name: &str) -> Option<*const c_void> {
            Some(match name {
                $($name => $f as *const c_void,)*
                _ => return None,
            })
        }
    };
}

functions! {
    "clIcdGetPlatformIDsKHR" => platform::get_platform_ids,
    "clGetPlatformIDs" => platform::get_platform_ids,
    "clGetPlatformInfo" => platform::get_platform_info,
    "clUnloadPlatformCompiler" => platform::unload_platform_compiler,
    "clUnloadCompiler" => platform::unload_compiler,
    "clGetDeviceIDs" => device::get_device_ids,
    "clGetDeviceInfo" => device::get_device_info,
    "clCreateSubDevices" => device::create_sub_devices,
    "clRetainDevice" => device::retain_device,
    "clReleaseDevice" => device::release_device,
    "clGetDeviceAndHostTimer" => device::get_device_and_host_timer,
    "clGetHostTimer" => device::get_host_timer,
    "clCreateContext" => context::create_context,
    "clCreateContextFromType" => context::create_context_from_type,
    "clRetainContext" => context::retain_context,
    "clReleaseContext" => context::release_context,
    "clGetContextInfo" => context::get_context_info,
    "clSetContextDestructorCallback" => context::set_context_destructor_callback,
    "clGetSupportedImageFormats" => context::get_supported_image_formats,
    "clCreateCommandQueue" => queue::create_command_queue,
    "clCreateCommandQueueWithProperties" => queue::create_command_queue_with_properties,
    "clCreateCommandQueueWithPropertiesKHR" => queue::create_command_queue_with_properties,
    "clRetainCommandQueue" => queue::retain_command_queue,
    "clReleaseCommandQueue" => queue::release_command_queue,
    "clGetCommandQueueInfo" => queue::get_command_queue_info,
    "clSetCommandQueueProperty" => queue::set_command_queue_property,
    "clSetDefaultDeviceCommandQueue" => queue::set_default_device_command_queue,
    "clFlush" => queue::flush,
    "clFinish" => queue::finish,
    "clEnqueueMarker" => queue::enqueue_marker,
    "clEnqueueBarrier" => queue::enqueue_barrier,
    "clEnqueueWaitForEvents" => queue::enqueue_wait_for_events,
    "clEnqueueMarkerWithWaitList" => queue::enqueue_marker_with_wait_list,
    "clEnqueueBarrierWithWaitList" => queue::enqueue_barrier_with_wait_list,
    "clCreateBuffer" => memory::create_buffer,
    "clCreateBufferWithProperties" => memory::create_buffer_with_properties,
    "clCreateSubBuffer" => memory::create_sub_buffer,
    "clRetainMemObject" => memory::retain_mem_object,
    "clReleaseMemObject" => memory::release_mem_object,
    "clSetMemObjectDestructorCallback" => memory::set_mem_object_destructor_callback,
    "clGetMemObjectInfo" => memory::get_mem_object_info,
    "clCreateImage" => image::create_image,
    "clCreateImageWithProperties" => image::create_image_with_properties,
    "clCreateImage2D" => image::create_image_2d,
    "clCreateImage3D" => image::create_image_3d,
    "clGetImageInfo" => image::get_image_info,
    "clEnqueueReadImage" => image::enqueue_read_image,
    "clEnqueueWriteImage" => image::enqueue_write_image,
    "clEnqueueCopyImage" => image_copy::enqueue_copy_image,
    "clEnqueueCopyImageToBuffer" => image_copy::enqueue_copy_image_to_buffer,
    "clEnqueueCopyBufferToImage" => image_copy::enqueue_copy_buffer_to_image,
    "clEnqueueFillImage" => image_copy::enqueue_fill_image,
    "clEnqueueMapImage" => image::enqueue_map_image,
    "clEnqueueMapBuffer" => map::enqueue_map_buffer,
    "clEnqueueUnmapMemObject" => map::enqueue_unmap_mem_object,
    "clEnqueueReadBuffer" => transfer::enqueue_read_buffer,
    "clEnqueueWriteBuffer" => transfer::enqueue_write_buffer,
    "clEnqueueCopyBuffer" => transfer::enqueue_copy_buffer,
    "clEnqueueFillBuffer" => transfer::enqueue_fill_buffer,
    "clEnqueueMigrateMemObjects" => transfer::enqueue_migrate_mem_objects,
    "clEnqueueReadBufferRect" => rect::enqueue_read_buffer_rect,
    "clEnqueueWriteBufferRect" => rect::enqueue_write_buffer_rect,
    "clEnqueueCopyBufferRect" => rect::enqueue_copy_buffer_rect,
    "clSVMAlloc" => svm::svm_alloc,
    "clSVMFree" => svm::svm_free,
    "clEnqueueSVMFree" => svm::enqueue_svm_free,
    "clEnqueueSVMMemcpy" => svm::enqueue_svm_memcpy,
    "clEnqueueSVMMemFill" => svm::enqueue_svm_mem_fill,
    "clEnqueueSVMMap" => svm::enqueue_svm_map,
    "clEnqueueSVMUnmap" => svm::enqueue_svm_unmap,
    "clEnqueueSVMMigrateMem" => svm::enqueue_svm_migrate_mem,
    "clCreateSampler" => sampler::create_sampler,
    "clCreateSamplerWithProperties" => sampler::create_sampler_with_properties,
    "clRetainSampler" => sampler::retain_sampler,
    "clReleaseSampler" => sampler::release_sampler,
    "clGetSamplerInfo" => sampler::get_sampler_info,
    "clCreateProgramWithSource" => program::create_program_with_source,
    "clCreateProgramWithBinary" => program::create_program_with_binary,
    "clCreateProgramWithBuiltInKernels" => program::create_program_with_built_in_kernels,
    "clCreateProgramWithIL" => program::create_program_with_il,
    "clCreateProgramWithILKHR" => program::create_program_with_il,
    "clBuildProgram" => program::build_program,
    "clCompileProgram" => program::compile_program,
    "clLinkProgram" => program::link_program,
    "clRetainProgram" => program::retain_program,
    "clReleaseProgram" => program::release_program,
    "clSetProgramReleaseCallback" => program::set_program_release_callback,
    "clSetProgramSpecializationConstant" => program::set_program_specialization_constant,
    "clGetProgramInfo" => program_info::get_program_info,
    "clGetProgramBuildInfo" => program_info::get_program_build_info,
    "clCreateKernel" => kernel::create_kernel,
    "clCreateKernelsInProgram" => kernel::create_kernels_in_program,
    "clCloneKernel" => kernel::clone_kernel,
    "clRetainKernel" => kernel::retain_kernel,
    "clReleaseKernel" => kernel::release_kernel,
    "clSetKernelArg" => kernel::set_kernel_arg,
    "clSetKernelArgSVMPointer" => kernel::set_kernel_arg_svm_pointer,
    "clSetKernelExecInfo" => kernel::set_kernel_exec_info,
    "clGetKernelInfo" => kernel::get_kernel_info,
    "clGetKernelArgInfo" => kernel::get_kernel_arg_info,
    "clGetKernelWorkGroupInfo" => kernel::get_kernel_work_group_info,
    "clGetKernelSubGroupInfo" => kernel::get_kernel_sub_group_info,
    "clGetKernelSubGroupInfoKHR" => kernel::get_kernel_sub_group_info,
    "clGetKernelSuggestedLocalWorkSizeKHR" => launch::get_kernel_suggested_local_work_size,
    "clEnqueueNDRangeKernel" => launch::enqueue_nd_range_kernel,
    "clEnqueueTask" => launch::enqueue_task,
    "clEnqueueNativeKernel" => launch::enqueue_native_kernel,
    "clWaitForEvents" => event::wait_for_events,
    "clGetEventInfo" => event::get_event_info,
    "clGetEventProfilingInfo" => event::get_event_profiling_info,
    "clRetainEvent" => event::retain_event,
    "clReleaseEvent" => event::release_event,
    "clCreateUserEvent" => event::create_user_event,
    "clSetUserEventStatus" => event::set_user_event_status,
    "clSetEventCallback" => event::set_event_callback,
    "clGetExtensionFunctionAddress" => get_extension_function_address,
    "clGetExtensionFunctionAddressForPlatform" => get_extension_function_address_for_platform,
}

/// Where functions that create something by graphics interop or pipes store their code.
fn code_at(name: &str) -> Option<usize> {
    Some(match name {
        "clCreateEventFromGLsyncKHR" => 2,
        "clCreateFromGLBuffer" | "clCreateFromGLRenderbuffer" | "clCreateEventFromEGLSyncKHR" => 3,
        "clCreateFromGLTexture2D"
        | "clCreateFromGLTexture3D"
        | "clCreateFromGLTexture"
        | "clCreateFromEGLImageKHR"
        | "clCreatePipe" => 5,
        _ => return None,
    })
}

type Word = usize;

unsafe extern "C" fn refuse() -> i32 {
    CL_INVALID_OPERATION
}

/// No object of ours is a pipe.
unsafe extern "C" fn refuse_pipe() -> i32 {
    CL_INVALID_MEM_OBJECT
}

unsafe extern "C" fn refuse_2(_: Word, _: Word, code: *mut i32) -> Word {
    // SAFETY: null or the program's.
    unsafe { entry::put(code, CL_INVALID_OPERATION) };
    0
}

unsafe extern "C" fn refuse_3(_: Word, _: Word, _: Word, code: *mut i32) -> Word {
    // SAFETY: null or the program's.
    unsafe { entry::put(code, CL_INVALID_OPERATION) };
    0
}

unsafe extern "C" fn refuse_5(_: Word, _: Word, _: Word, _: Word, _: Word, code: *mut i32) -> Word {
    // SAFETY: null or the program's.
    unsafe { entry::put(code, CL_INVALID_OPERATION) };
    0
}

fn entry_point(name: &str) -> usize {
    let f = address(name).unwrap_or(match code_at(name) {
        Some(2) => refuse_2 as *const c_void,
        Some(3) => refuse_3 as *const c_void,
        Some(_) => refuse_5 as *const c_void,
        None if name == "clGetPipeInfo" => refuse_pipe as *const c_void,
        None => refuse as *const c_void,
    });
    f as usize
}

fn entry_points() -> &'static [usize] {
    static TABLE: OnceLock<Vec<usize>> = OnceLock::new();
    TABLE.get_or_init(|| DISPATCH.iter().map(|n| entry_point(n)).collect())
}

/// The table that every object begins with a pointer to.
pub fn table() -> *const c_void {
    entry_points().as_ptr().cast()
}

/// The function in a slot of the table.
///
/// # Panics
/// When the table has no such slot.
pub fn function(slot: usize) -> usize {
    entry_points()[slot]
}

/// The extension that a function came with, for those that are no part of OpenCL itself.
fn extension_of(name: &str) -> Option<&'static str> {
    Some(match name {
        "clCreateCommandQueueWithPropertiesKHR" => "cl_khr_create_command_queue",
        "clCreateProgramWithILKHR" => "cl_khr_il_program",
        "clGetKernelSubGroupInfoKHR" => "cl_khr_subgroups",
        "clGetKernelSuggestedLocalWorkSizeKHR" => "cl_khr_suggested_local_work_size",
        _ => return None,
    })
}

/// `clGetExtensionFunctionAddress`: how the loader finds everything else. What an extension brings
/// is there only where the extension is.
///
/// # Safety
/// `name` is null or a C string.
pub unsafe extern "C" fn get_extension_function_address(
    name: *const libc::c_char,
) -> *const c_void {
    // SAFETY: passed on to the caller.
    let name = unsafe { entry::text(name) };
    let offered = |e| {
        let mut all = servers().iter().flat_map(|s| s.platforms());
        all.any(|p| p.offers(e))
    };
    match extension_of(&name).is_none_or(offered) {
        true => address(&name).unwrap_or(std::ptr::null()),
        false => std::ptr::null(),
    }
}

unsafe extern "C" fn get_extension_function_address_for_platform(
    platform: Handle,
    name: *const libc::c_char,
) -> *const c_void {
    // SAFETY: the program's handle and text.
    unsafe {
        let Ok(p) = platform::default(platform) else {
            return std::ptr::null();
        };
        match extension_of(&entry::text(name)).is_none_or(|e| p.offers(e)) {
            true => get_extension_function_address(name),
            false => std::ptr::null(),
        }
    }
}
