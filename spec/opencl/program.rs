//! Programs.

#[custom]
fn clBuildProgram(program: cl_program, num_devices: u32, device_list: *const cl_device_id, options: *const c_char, callback: *const c_void, user_data: *mut c_void) -> i32;

#[custom]
fn clCompileProgram(program: cl_program, num_devices: u32, device_list: *const cl_device_id, options: *const c_char, num_input_headers: u32, input_headers: *const cl_program, header_include_names: *mut *const c_char, callback: *const c_void, user_data: *mut c_void) -> i32;

#[custom]
fn clCreateProgramWithBinary(context: cl_context, num_devices: u32, device_list: *const cl_device_id, lengths: *const usize, binaries: *mut *const u8, binary_status: *mut i32, errcode_ret: *mut i32) -> cl_program;

#[custom]
fn clCreateProgramWithBuiltInKernels(context: cl_context, num_devices: u32, device_list: *const cl_device_id, kernel_names: *const c_char, errcode_ret: *mut i32) -> cl_program;

#[custom]
fn clCreateProgramWithIL(context: cl_context, il: *const c_void, length: usize, errcode_ret: *mut i32) -> cl_program;

#[is(clCreateProgramWithIL)]
fn clCreateProgramWithILKHR(context: cl_context, il: *const c_void, length: usize, errcode_ret: *mut i32) -> cl_program;

#[custom]
fn clCreateProgramWithSource(context: cl_context, count: u32, strings: *mut *const c_char, lengths: *const usize, errcode_ret: *mut i32) -> cl_program;

#[local]
fn clGetProgramBuildInfo(program: cl_program, device: cl_device_id, param_name: cl_program_build_info, param_value_size: usize, param_value: *mut c_void, param_value_size_ret: *mut usize) -> i32;

#[custom]
fn clGetProgramInfo(program: cl_program, param_name: cl_program_info, param_value_size: usize, param_value: *mut c_void, param_value_size_ret: *mut usize) -> i32;

#[custom]
fn clLinkProgram(context: cl_context, num_devices: u32, device_list: *const cl_device_id, options: *const c_char, num_input_programs: u32, input_programs: *const cl_program, callback: *const c_void, user_data: *mut c_void, errcode_ret: *mut i32) -> cl_program;

#[custom]
fn clReleaseProgram(program: cl_program) -> i32;

#[local]
fn clRetainProgram(program: cl_program) -> i32;

#[local]
fn clSetProgramReleaseCallback(program: cl_program, callback: *const c_void, user_data: *mut c_void) -> i32;

#[custom]
fn clSetProgramSpecializationConstant(program: cl_program, spec_id: u32, spec_size: usize, spec_value: *const c_void) -> i32;
