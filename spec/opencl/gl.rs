//! Sharing with OpenGL.

#[unsupported("a graphics context cannot be shared with another machine")]
fn clCreateFromEGLImageKHR(context: cl_context, egldisplay: CLeglDisplayKHR, eglimage: CLeglImageKHR, flags: cl_mem_flags, properties: *const cl_egl_image_properties_khr, errcode_ret: *mut i32) -> cl_mem;

#[unsupported("a graphics context cannot be shared with another machine")]
fn clCreateFromGLBuffer(context: cl_context, flags: cl_mem_flags, bufobj: cl_GLuint, errcode_ret: *mut i32) -> cl_mem;

#[unsupported("a graphics context cannot be shared with another machine")]
fn clCreateFromGLRenderbuffer(context: cl_context, flags: cl_mem_flags, renderbuffer: cl_GLuint, errcode_ret: *mut i32) -> cl_mem;

#[unsupported("a graphics context cannot be shared with another machine")]
fn clCreateFromGLTexture(context: cl_context, flags: cl_mem_flags, target: cl_GLenum, miplevel: cl_GLint, texture: cl_GLuint, errcode_ret: *mut i32) -> cl_mem;

#[unsupported("a graphics context cannot be shared with another machine")]
fn clCreateFromGLTexture2D(context: cl_context, flags: cl_mem_flags, target: cl_GLenum, miplevel: cl_GLint, texture: cl_GLuint, errcode_ret: *mut i32) -> cl_mem;

#[unsupported("a graphics context cannot be shared with another machine")]
fn clCreateFromGLTexture3D(context: cl_context, flags: cl_mem_flags, target: cl_GLenum, miplevel: cl_GLint, texture: cl_GLuint, errcode_ret: *mut i32) -> cl_mem;

#[unsupported("a graphics context cannot be shared with another machine")]
fn clEnqueueAcquireEGLObjectsKHR(command_queue: cl_command_queue, num_objects: u32, mem_objects: *const cl_mem, num_events_in_wait_list: u32, event_wait_list: *const cl_event, event: *mut cl_event) -> i32;

#[unsupported("a graphics context cannot be shared with another machine")]
fn clEnqueueAcquireGLObjects(command_queue: cl_command_queue, num_objects: u32, mem_objects: *const cl_mem, num_events_in_wait_list: u32, event_wait_list: *const cl_event, event: *mut cl_event) -> i32;

#[unsupported("a graphics context cannot be shared with another machine")]
fn clEnqueueReleaseEGLObjectsKHR(command_queue: cl_command_queue, num_objects: u32, mem_objects: *const cl_mem, num_events_in_wait_list: u32, event_wait_list: *const cl_event, event: *mut cl_event) -> i32;

#[unsupported("a graphics context cannot be shared with another machine")]
fn clEnqueueReleaseGLObjects(command_queue: cl_command_queue, num_objects: u32, mem_objects: *const cl_mem, num_events_in_wait_list: u32, event_wait_list: *const cl_event, event: *mut cl_event) -> i32;

#[unsupported("a graphics context cannot be shared with another machine")]
fn clGetGLContextInfoKHR(properties: *const cl_context_properties, param_name: cl_gl_context_info, param_value_size: usize, param_value: *mut c_void, param_value_size_ret: *mut usize) -> i32;

#[unsupported("a graphics context cannot be shared with another machine")]
fn clGetGLObjectInfo(memobj: cl_mem, gl_object_type: *mut cl_gl_object_type, gl_object_name: *mut cl_GLuint) -> i32;

#[unsupported("a graphics context cannot be shared with another machine")]
fn clGetGLTextureInfo(memobj: cl_mem, param_name: cl_gl_texture_info, param_value_size: usize, param_value: *mut c_void, param_value_size_ret: *mut usize) -> i32;

#[unsupported("a graphics context cannot be shared with another machine")]
fn clGetSupportedGLTextureFormatsINTEL(context: cl_context, flags: cl_mem_flags, image_type: cl_mem_object_type, num_entries: u32, gl_formats: *mut cl_GLenum, num_texture_formats: *mut u32) -> i32;
