//! OpenCL: executing calls on the platforms of this machine.
