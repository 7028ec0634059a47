//! Shared virtual memory.

#[custom]
fn clEnqueueSVMFree(command_queue: cl_command_queue, num_svm_pointers: u32, svm_pointers: *mut *mut c_void, callback: *const c_void, user_data: *mut c_void, num_events_in_wait_list: u32, event_wait_list: *const cl_event, event: *mut cl_event) -> i32;

#[custom]
fn clEnqueueSVMMap(command_queue: cl_command_queue, blocking_map: u32, flags: cl_map_flags, svm_ptr: *mut c_void, size: usize, num_events_in_wait_list: u32, event_wait_list: *const cl_event, event: *mut cl_event) -> i32;

#[custom]
fn clEnqueueSVMMemFill(command_queue: cl_command_queue, svm_ptr: *mut c_void, pattern: *const c_void, pattern_size: usize, size: usize, num_events_in_wait_list: u32, event_wait_list: *const cl_event, event: *mut cl_event) -> i32;

#[custom]
fn clEnqueueSVMMemcpy(command_queue: cl_command_queue, blocking_copy: u32, dst_ptr: *mut c_void, src_ptr: *const c_void, size: usize, num_events_in_wait_list: u32, event_wait_list: *const cl_event, event: *mut cl_event) -> i32;

#[custom]
fn clEnqueueSVMMigrateMem(command_queue: cl_command_queue, num_svm_pointers: u32, svm_pointers: *mut *const c_void, sizes: *const usize, flags: cl_mem_migration_flags, num_events_in_wait_list: u32, event_wait_list: *const cl_event, event: *mut cl_event) -> i32;

#[custom]
fn clEnqueueSVMUnmap(command_queue: cl_command_queue, svm_ptr: *mut c_void, num_events_in_wait_list: u32, event_wait_list: *const cl_event, event: *mut cl_event) -> i32;

#[custom]
fn clSVMAlloc(context: cl_context, flags: cl_svm_mem_flags, size: usize, alignment: u32) -> *mut c_void;

#[custom]
fn clSVMFree(context: cl_context, svm_pointer: *mut c_void);
