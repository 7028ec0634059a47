//! Images.

#[custom]
fn clCreateImage(context: cl_context, flags: cl_mem_flags, image_format: *const cl_image_format, image_desc: *const cl_image_desc, host_ptr: *mut c_void, errcode_ret: *mut i32) -> cl_mem;

#[custom]
fn clCreateImage2D(context: cl_context, flags: cl_mem_flags, image_format: *const cl_image_format, image_width: usize, image_height: usize, image_row_pitch: usize, host_ptr: *mut c_void, errcode_ret: *mut i32) -> cl_mem;

#[custom]
fn clCreateImage3D(context: cl_context, flags: cl_mem_flags, image_format: *const cl_image_format, image_width: usize, image_height: usize, image_depth: usize, image_row_pitch: usize, image_slice_pitch: usize, host_ptr: *mut c_void, errcode_ret: *mut i32) -> cl_mem;

#[custom]
fn clCreateImageWithProperties(context: cl_context, properties: *const cl_mem_properties, flags: cl_mem_flags, image_format: *const cl_image_format, image_desc: *const cl_image_desc, host_ptr: *mut c_void, errcode_ret: *mut i32) -> cl_mem;

#[custom]
fn clEnqueueCopyBufferToImage(command_queue: cl_command_queue, src_buffer: cl_mem, dst_image: cl_mem, src_offset: usize, dst_origin: *const usize, region: *const usize, num_events_in_wait_list: u32, event_wait_list: *const cl_event, event: *mut cl_event) -> i32;

#[custom]
fn clEnqueueCopyImage(command_queue: cl_command_queue, src_image: cl_mem, dst_image: cl_mem, src_origin: *const usize, dst_origin: *const usize, region: *const usize, num_events_in_wait_list: u32, event_wait_list: *const cl_event, event: *mut cl_event) -> i32;

#[custom]
fn clEnqueueCopyImageToBuffer(command_queue: cl_command_queue, src_image: cl_mem, dst_buffer: cl_mem, src_origin: *const usize, region: *const usize, dst_offset: usize, num_events_in_wait_list: u32, event_wait_list: *const cl_event, event: *mut cl_event) -> i32;

#[custom]
fn clEnqueueFillImage(command_queue: cl_command_queue, image: cl_mem, fill_color: *const c_void, origin: *const usize, region: *const usize, num_events_in_wait_list: u32, event_wait_list: *const cl_event, event: *mut cl_event) -> i32;

#[custom]
fn clEnqueueMapImage(command_queue: cl_command_queue, image: cl_mem, blocking_map: u32, map_flags: cl_map_flags, origin: *const usize, region: *const usize, image_row_pitch: *mut usize, image_slice_pitch: *mut usize, num_events_in_wait_list: u32, event_wait_list: *const cl_event, event: *mut cl_event, errcode_ret: *mut i32) -> *mut c_void;

#[custom]
fn clEnqueueReadImage(command_queue: cl_command_queue, image: cl_mem, blocking_read: u32, origin: *const usize, region: *const usize, row_pitch: usize, slice_pitch: usize, ptr: *mut c_void, num_events_in_wait_list: u32, event_wait_list: *const cl_event, event: *mut cl_event) -> i32;

#[custom]
fn clEnqueueWriteImage(command_queue: cl_command_queue, image: cl_mem, blocking_write: u32, origin: *const usize, region: *const usize, input_row_pitch: usize, input_slice_pitch: usize, ptr: *const c_void, num_events_in_wait_list: u32, event_wait_list: *const cl_event, event: *mut cl_event) -> i32;

#[local]
fn clGetImageInfo(image: cl_mem, param_name: cl_image_info, param_value_size: usize, param_value: *mut c_void, param_value_size_ret: *mut usize) -> i32;
