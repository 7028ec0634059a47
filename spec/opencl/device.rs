//! Devices.

#[custom]
fn clCreateSubDevices(in_device: cl_device_id, properties: *const cl_device_partition_property, num_devices: u32, out_devices: *mut cl_device_id, num_devices_ret: *mut u32) -> i32;

#[custom]
fn clGetDeviceAndHostTimer(device: cl_device_id, device_timestamp: *mut u64, host_timestamp: *mut u64) -> i32;

#[local]
fn clGetDeviceIDs(platform: cl_platform_id, device_type: cl_device_type, num_entries: u32, devices: *mut cl_device_id, num_devices: *mut u32) -> i32;

#[custom]
fn clGetDeviceInfo(device: cl_device_id, param_name: cl_device_info, param_value_size: usize, param_value: *mut c_void, param_value_size_ret: *mut usize) -> i32;

#[local]
fn clGetHostTimer(device: cl_device_id, host_timestamp: *mut u64) -> i32;

#[custom]
fn clReleaseDevice(device: cl_device_id) -> i32;

#[local]
fn clRetainDevice(device: cl_device_id) -> i32;
