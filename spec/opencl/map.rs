//! Mapped memory.

#[custom]
fn clEnqueueMapBuffer(command_queue: cl_command_queue, buffer: cl_mem, blocking_map: u32, map_flags: cl_map_flags, offset: usize, size: usize, num_events_in_wait_list: u32, event_wait_list: *const cl_event, event: *mut cl_event, errcode_ret: *mut i32) -> *mut c_void;

#[custom]
fn clEnqueueUnmapMemObject(command_queue: cl_command_queue, memobj: cl_mem, mapped_ptr: *mut c_void, num_events_in_wait_list: u32, event_wait_list: *const cl_event, event: *mut cl_event) -> i32;
