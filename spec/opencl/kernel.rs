//! Kernels.

#[custom]
fn clCloneKernel(source_kernel: cl_kernel, errcode_ret: *mut i32) -> cl_kernel;

#[custom]
fn clCreateKernel(program: cl_program, kernel_name: *const c_char, errcode_ret: *mut i32) -> cl_kernel;

#[custom]
fn clCreateKernelsInProgram(program: cl_program, num_kernels: u32, kernels: *mut cl_kernel, num_kernels_ret: *mut u32) -> i32;

#[local]
fn clGetKernelArgInfo(kernel: cl_kernel, arg_indx: u32, param_name: cl_kernel_arg_info, param_value_size: usize, param_value: *mut c_void, param_value_size_ret: *mut usize) -> i32;

#[local]
fn clGetKernelInfo(kernel: cl_kernel, param_name: cl_kernel_info, param_value_size: usize, param_value: *mut c_void, param_value_size_ret: *mut usize) -> i32;

#[custom]
fn clGetKernelSubGroupInfo(kernel: cl_kernel, device: cl_device_id, param_name: cl_kernel_sub_group_info, input_value_size: usize, input_value: *const c_void, param_value_size: usize, param_value: *mut c_void, param_value_size_ret: *mut usize) -> i32;

#[is(clGetKernelSubGroupInfo)]
fn clGetKernelSubGroupInfoKHR(in_kernel: cl_kernel, in_device: cl_device_id, param_name: cl_kernel_sub_group_info, input_value_size: usize, input_value: *const c_void, param_value_size: usize, param_value: *mut c_void, param_value_size_ret: *mut usize) -> i32;

#[local]
fn clGetKernelWorkGroupInfo(kernel: cl_kernel, device: cl_device_id, param_name: cl_kernel_work_group_info, param_value_size: usize, param_value: *mut c_void, param_value_size_ret: *mut usize) -> i32;

#[custom]
fn clReleaseKernel(kernel: cl_kernel) -> i32;

#[local]
fn clRetainKernel(kernel: cl_kernel) -> i32;

#[local]
fn clSetKernelArg(kernel: cl_kernel, arg_index: u32, arg_size: usize, arg_value: *const c_void) -> i32;

#[local]
fn clSetKernelArgSVMPointer(kernel: cl_kernel, arg_index: u32, arg_value: *const c_void) -> i32;

#[custom]
fn clSetKernelExecInfo(kernel: cl_kernel, param_name: cl_kernel_exec_info, param_value_size: usize, param_value: *const c_void) -> i32;
