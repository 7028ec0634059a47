//! C's names of the types in the signatures of the functions.

#![allow(non_camel_case_types, missing_docs)]

use super::{Handle, ImageDesc, ImageFormat};

pub type cl_platform_id = Handle;
pub type cl_device_id = Handle;
pub type cl_context = Handle;
pub type cl_command_queue = Handle;
pub type cl_mem = Handle;
pub type cl_program = Handle;
pub type cl_kernel = Handle;
pub type cl_event = Handle;
pub type cl_sampler = Handle;
pub type CLeglDisplayKHR = Handle;
pub type CLeglImageKHR = Handle;
pub type CLeglSyncKHR = Handle;
pub type cl_GLsync = Handle;

pub type cl_addressing_mode = u32;
pub type cl_buffer_create_type = u32;
pub type cl_command_queue_info = u32;
pub type cl_context_info = u32;
pub type cl_device_info = u32;
pub type cl_event_info = u32;
pub type cl_filter_mode = u32;
pub type cl_gl_context_info = u32;
pub type cl_gl_object_type = u32;
pub type cl_gl_texture_info = u32;
pub type cl_image_info = u32;
pub type cl_kernel_arg_info = u32;
pub type cl_kernel_exec_info = u32;
pub type cl_kernel_info = u32;
pub type cl_kernel_sub_group_info = u32;
pub type cl_kernel_work_group_info = u32;
pub type cl_mem_info = u32;
pub type cl_mem_object_type = u32;
pub type cl_pipe_info = u32;
pub type cl_platform_info = u32;
pub type cl_profiling_info = u32;
pub type cl_program_build_info = u32;
pub type cl_program_info = u32;
pub type cl_sampler_info = u32;
pub type cl_GLenum = u32;
pub type cl_GLuint = u32;
pub type cl_GLint = i32;

pub type cl_command_queue_properties = u64;
pub type cl_device_partition_property_ext = u64;
pub type cl_device_type = u64;
pub type cl_map_flags = u64;
pub type cl_mem_flags = u64;
pub type cl_mem_migration_flags = u64;
pub type cl_mem_properties = u64;
pub type cl_queue_properties = u64;
pub type cl_sampler_properties = u64;
pub type cl_svm_mem_flags = u64;

pub type cl_context_properties = isize;
pub type cl_device_partition_property = isize;
pub type cl_egl_image_properties_khr = isize;
pub type cl_pipe_properties = isize;

pub type cl_image_format = ImageFormat;
pub type cl_image_desc = ImageDesc;
