//! Other extensions.

#[unsupported("the extension is hidden from programs")]
fn clCreateSemaphoreWithPropertiesKHR(context: cl_context, sema_props: *const cl_semaphore_properties_khr, errcode_ret: *mut i32) -> cl_semaphore_khr;

#[unsupported("the extension is hidden from programs")]
fn clEnqueueAcquireExternalMemObjectsKHR(command_queue: cl_command_queue, num_mem_objects: u32, mem_objects: *const cl_mem, num_events_in_wait_list: u32, event_wait_list: *const cl_event, event: *mut cl_event) -> i32;

#[unsupported("the extension is hidden from programs")]
fn clEnqueueReleaseExternalMemObjectsKHR(command_queue: cl_command_queue, num_mem_objects: u32, mem_objects: *const cl_mem, num_events_in_wait_list: u32, event_wait_list: *const cl_event, event: *mut cl_event) -> i32;

#[unsupported("the extension is hidden from programs")]
fn clEnqueueSignalSemaphoresKHR(command_queue: cl_command_queue, num_sema_objects: u32, sema_objects: *const cl_semaphore_khr, sema_payload_list: *const cl_semaphore_payload_khr, num_events_in_wait_list: u32, event_wait_list: *const cl_event, event: *mut cl_event) -> i32;

#[unsupported("the extension is hidden from programs")]
fn clEnqueueWaitSemaphoresKHR(command_queue: cl_command_queue, num_sema_objects: u32, sema_objects: *const cl_semaphore_khr, sema_payload_list: *const cl_semaphore_payload_khr, num_events_in_wait_list: u32, event_wait_list: *const cl_event, event: *mut cl_event) -> i32;

#[unsupported("the extension is hidden from programs")]
fn clGetMutableCommandInfoKHR(command: cl_mutable_command_khr, param_name: cl_mutable_command_info_khr, param_value_size: usize, param_value: *mut c_void, param_value_size_ret: *mut usize) -> i32;

#[unsupported("the extension is hidden from programs")]
fn clGetSemaphoreHandleForTypeKHR(sema_object: cl_semaphore_khr, device: cl_device_id, handle_type: cl_external_semaphore_handle_type_khr, handle_size: usize, handle_ptr: *mut c_void, handle_size_ret: *mut usize) -> i32;

#[unsupported("the extension is hidden from programs")]
fn clGetSemaphoreInfoKHR(sema_object: cl_semaphore_khr, param_name: cl_semaphore_info_khr, param_value_size: usize, param_value: *mut c_void, param_value_size_ret: *mut usize) -> i32;

#[unsupported("the extension is hidden from programs")]
fn clReleaseSemaphoreKHR(sema_object: cl_semaphore_khr) -> i32;

#[unsupported("the extension is hidden from programs")]
fn clRetainSemaphoreKHR(sema_object: cl_semaphore_khr) -> i32;

#[unsupported("the extension is hidden from programs")]
fn clTerminateContextKHR(context: cl_context) -> i32;
