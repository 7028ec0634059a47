//! Vendors' extensions.

#[unsupported("a vendor's extension that is hidden from programs")]
fn clCreateAcceleratorINTEL(context: cl_context, accelerator_type: cl_accelerator_type_intel, descriptor_size: usize, descriptor: *const c_void, errcode_ret: *mut i32) -> cl_accelerator_intel;

#[unsupported("a vendor's extension that is hidden from programs")]
fn clCreateBufferWithPropertiesINTEL(context: cl_context, properties: *const cl_mem_properties_intel, flags: cl_mem_flags, size: usize, host_ptr: *mut c_void, errcode_ret: *mut i32) -> cl_mem;

#[unsupported("a vendor's extension that is hidden from programs")]
fn clCreateSubDevicesEXT(in_device: cl_device_id, properties: *const cl_device_partition_property_ext, num_entries: u32, out_devices: *mut cl_device_id, num_devices: *mut u32) -> i32;

#[unsupported("a vendor's extension that is hidden from programs")]
fn clDeviceMemAllocINTEL(context: cl_context, device: cl_device_id, properties: *const cl_mem_properties_intel, size: usize, alignment: u32, errcode_ret: *mut i32) -> *mut c_void;

#[unsupported("a vendor's extension that is hidden from programs")]
fn clEnqueueAcquireGrallocObjectsIMG(command_queue: cl_command_queue, num_objects: u32, mem_objects: *const cl_mem, num_events_in_wait_list: u32, event_wait_list: *const cl_event, event: *mut cl_event) -> i32;

#[unsupported("a vendor's extension that is hidden from programs")]
fn clEnqueueGenerateMipmapIMG(command_queue: cl_command_queue, src_image: cl_mem, dst_image: cl_mem, mipmap_filter_mode: cl_mipmap_filter_mode_img, array_region: *const usize, mip_region: *const usize, num_events_in_wait_list: u32, event_wait_list: *const cl_event, event: *mut cl_event) -> i32;

#[unsupported("a vendor's extension that is hidden from programs")]
fn clEnqueueMemAdviseINTEL(command_queue: cl_command_queue, ptr: *const c_void, size: usize, advice: cl_mem_advice_intel, num_events_in_wait_list: u32, event_wait_list: *const cl_event, event: *mut cl_event) -> i32;

#[unsupported("a vendor's extension that is hidden from programs")]
fn clEnqueueMemFillINTEL(command_queue: cl_command_queue, dst_ptr: *mut c_void, pattern: *const c_void, pattern_size: usize, size: usize, num_events_in_wait_list: u32, event_wait_list: *const cl_event, event: *mut cl_event) -> i32;

#[unsupported("a vendor's extension that is hidden from programs")]
fn clEnqueueMemcpyINTEL(command_queue: cl_command_queue, blocking: u32, dst_ptr: *mut c_void, src_ptr: *const c_void, size: usize, num_events_in_wait_list: u32, event_wait_list: *const cl_event, event: *mut cl_event) -> i32;

#[unsupported("a vendor's extension that is hidden from programs")]
fn clEnqueueMemsetINTEL(command_queue: cl_command_queue, dst_ptr: *mut c_void, value: i32, size: usize, num_events_in_wait_list: u32, event_wait_list: *const cl_event, event: *mut cl_event) -> i32;

#[unsupported("a vendor's extension that is hidden from programs")]
fn clEnqueueMigrateMemINTEL(command_queue: cl_command_queue, ptr: *const c_void, size: usize, flags: cl_mem_migration_flags, num_events_in_wait_list: u32, event_wait_list: *const cl_event, event: *mut cl_event) -> i32;

#[unsupported("a vendor's extension that is hidden from programs")]
fn clEnqueueMigrateMemObjectEXT(command_queue: cl_command_queue, num_mem_objects: u32, mem_objects: *const cl_mem, flags: cl_mem_migration_flags_ext, num_events_in_wait_list: u32, event_wait_list: *const cl_event, event: *mut cl_event) -> i32;

#[unsupported("a vendor's extension that is hidden from programs")]
fn clEnqueueReleaseGrallocObjectsIMG(command_queue: cl_command_queue, num_objects: u32, mem_objects: *const cl_mem, num_events_in_wait_list: u32, event_wait_list: *const cl_event, event: *mut cl_event) -> i32;

#[unsupported("a vendor's extension that is hidden from programs")]
fn clEnqueueSVMFreeARM(command_queue: cl_command_queue, num_svm_pointers: u32, svm_pointers: *mut *mut c_void, callback: *const c_void, user_data: *mut c_void, num_events_in_wait_list: u32, event_wait_list: *const cl_event, event: *mut cl_event) -> i32;

#[unsupported("a vendor's extension that is hidden from programs")]
fn clEnqueueSVMMapARM(command_queue: cl_command_queue, blocking_map: u32, flags: cl_map_flags, svm_ptr: *mut c_void, size: usize, num_events_in_wait_list: u32, event_wait_list: *const cl_event, event: *mut cl_event) -> i32;

#[unsupported("a vendor's extension that is hidden from programs")]
fn clEnqueueSVMMemFillARM(command_queue: cl_command_queue, svm_ptr: *mut c_void, pattern: *const c_void, pattern_size: usize, size: usize, num_events_in_wait_list: u32, event_wait_list: *const cl_event, event: *mut cl_event) -> i32;

#[unsupported("a vendor's extension that is hidden from programs")]
fn clEnqueueSVMMemcpyARM(command_queue: cl_command_queue, blocking_copy: u32, dst_ptr: *mut c_void, src_ptr: *const c_void, size: usize, num_events_in_wait_list: u32, event_wait_list: *const cl_event, event: *mut cl_event) -> i32;

#[unsupported("a vendor's extension that is hidden from programs")]
fn clEnqueueSVMUnmapARM(command_queue: cl_command_queue, svm_ptr: *mut c_void, num_events_in_wait_list: u32, event_wait_list: *const cl_event, event: *mut cl_event) -> i32;

#[unsupported("a vendor's extension that is hidden from programs")]
fn clGetAcceleratorInfoINTEL(accelerator: cl_accelerator_intel, param_name: cl_accelerator_info_intel, param_value_size: usize, param_value: *mut c_void, param_value_size_ret: *mut usize) -> i32;

#[unsupported("a vendor's extension that is hidden from programs")]
fn clGetDeviceImageInfoQCOM(device: cl_device_id, image_width: usize, image_height: usize, image_format: *const cl_image_format, param_name: cl_image_pitch_info_qcom, param_value_size: usize, param_value: *mut c_void, param_value_size_ret: *mut usize) -> i32;

#[unsupported("a vendor's extension that is hidden from programs")]
fn clGetImageRequirementsInfoEXT(context: cl_context, properties: *const cl_mem_properties, flags: cl_mem_flags, image_format: *const cl_image_format, image_desc: *const cl_image_desc, param_name: cl_image_requirements_info_ext, param_value_size: usize, param_value: *mut c_void, param_value_size_ret: *mut usize) -> i32;

#[unsupported("a vendor's extension that is hidden from programs")]
fn clGetMemAllocInfoINTEL(context: cl_context, ptr: *const c_void, param_name: cl_mem_info_intel, param_value_size: usize, param_value: *mut c_void, param_value_size_ret: *mut usize) -> i32;

#[unsupported("a vendor's extension that is hidden from programs")]
fn clHostMemAllocINTEL(context: cl_context, properties: *const cl_mem_properties_intel, size: usize, alignment: u32, errcode_ret: *mut i32) -> *mut c_void;

#[unsupported("a vendor's extension that is hidden from programs")]
fn clImportMemoryARM(context: cl_context, flags: cl_mem_flags, properties: *const cl_import_properties_arm, memory: *mut c_void, size: usize, errcode_ret: *mut i32) -> cl_mem;

#[unsupported("a vendor's extension that is hidden from programs")]
fn clLogMessagesToStderrAPPLE(errstr: *const c_char, private_info: *const c_void, cb: usize, user_data: *mut c_void);

#[unsupported("a vendor's extension that is hidden from programs")]
fn clLogMessagesToStdoutAPPLE(errstr: *const c_char, private_info: *const c_void, cb: usize, user_data: *mut c_void);

#[unsupported("a vendor's extension that is hidden from programs")]
fn clLogMessagesToSystemLogAPPLE(errstr: *const c_char, private_info: *const c_void, cb: usize, user_data: *mut c_void);

#[unsupported("a vendor's extension that is hidden from programs")]
fn clMemBlockingFreeINTEL(context: cl_context, ptr: *mut c_void) -> i32;

#[unsupported("a vendor's extension that is hidden from programs")]
fn clMemFreeINTEL(context: cl_context, ptr: *mut c_void) -> i32;

#[unsupported("a vendor's extension that is hidden from programs")]
fn clReleaseAcceleratorINTEL(accelerator: cl_accelerator_intel) -> i32;

#[unsupported("a vendor's extension that is hidden from programs")]
fn clReleaseDeviceEXT(device: cl_device_id) -> i32;

#[unsupported("a vendor's extension that is hidden from programs")]
fn clRetainAcceleratorINTEL(accelerator: cl_accelerator_intel) -> i32;

#[unsupported("a vendor's extension that is hidden from programs")]
fn clRetainDeviceEXT(device: cl_device_id) -> i32;

#[unsupported("a vendor's extension that is hidden from programs")]
fn clSVMAllocARM(context: cl_context, flags: cl_svm_mem_flags_arm, size: usize, alignment: u32) -> *mut c_void;

#[unsupported("a vendor's extension that is hidden from programs")]
fn clSVMFreeARM(context: cl_context, svm_pointer: *mut c_void);

#[unsupported("a vendor's extension that is hidden from programs")]
fn clSetKernelArgMemPointerINTEL(kernel: cl_kernel, arg_index: u32, arg_value: *const c_void) -> i32;

#[unsupported("a vendor's extension that is hidden from programs")]
fn clSetKernelArgSVMPointerARM(kernel: cl_kernel, arg_index: u32, arg_value: *const c_void) -> i32;

#[unsupported("a vendor's extension that is hidden from programs")]
fn clSetKernelExecInfoARM(kernel: cl_kernel, param_name: cl_kernel_exec_info_arm, param_value_size: usize, param_value: *const c_void) -> i32;

#[unsupported("a vendor's extension that is hidden from programs")]
fn clSetMemObjectDestructorAPPLE(memobj: cl_mem, callback: *const c_void, user_data: *mut c_void) -> i32;

#[unsupported("a vendor's extension that is hidden from programs")]
fn clSharedMemAllocINTEL(context: cl_context, device: cl_device_id, properties: *const cl_mem_properties_intel, size: usize, alignment: u32, errcode_ret: *mut i32) -> *mut c_void;
