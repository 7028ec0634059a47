//! Samplers.

#[custom]
fn clCreateSampler(context: cl_context, normalized_coords: u32, addressing_mode: cl_addressing_mode, filter_mode: cl_filter_mode, errcode_ret: *mut i32) -> cl_sampler;

#[custom]
fn clCreateSamplerWithProperties(context: cl_context, sampler_properties: *const cl_sampler_properties, errcode_ret: *mut i32) -> cl_sampler;

#[local]
fn clGetSamplerInfo(sampler: cl_sampler, param_name: cl_sampler_info, param_value_size: usize, param_value: *mut c_void, param_value_size_ret: *mut usize) -> i32;

#[custom]
fn clReleaseSampler(sampler: cl_sampler) -> i32;

#[local]
fn clRetainSampler(sampler: cl_sampler) -> i32;
