//! OpenCL: an installable client driver.
