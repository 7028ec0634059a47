//! Contexts.

#[custom]
fn clCreateContext(properties: *const cl_context_properties, num_devices: u32, devices: *const cl_device_id, callback: *const c_void, user_data: *mut c_void, errcode_ret: *mut i32) -> cl_context;

#[custom]
fn clCreateContextFromType(properties: *const cl_context_properties, device_type: cl_device_type, callback: *const c_void, user_data: *mut c_void, errcode_ret: *mut i32) -> cl_context;

#[local]
fn clGetContextInfo(context: cl_context, param_name: cl_context_info, param_value_size: usize, param_value: *mut c_void, param_value_size_ret: *mut usize) -> i32;

#[custom]
fn clGetSupportedImageFormats(context: cl_context, flags: cl_mem_flags, image_type: cl_mem_object_type, num_entries: u32, image_formats: *mut cl_image_format, num_image_formats: *mut u32) -> i32;

#[custom]
fn clReleaseContext(context: cl_context) -> i32;

#[local]
fn clRetainContext(context: cl_context) -> i32;

#[local]
fn clSetContextDestructorCallback(context: cl_context, callback: *const c_void, user_data: *mut c_void) -> i32;
