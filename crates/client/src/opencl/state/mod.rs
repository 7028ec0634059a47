//! What is known without asking: plain structures that have no session and no static, so that each
//! is tested alone. What has to be sent or run they hand back to their caller.

pub mod args;
pub mod bodies;
pub mod builds;
pub mod event;
pub mod ids;
pub mod image;
pub mod info;
pub mod kernel;
pub mod layout;
pub mod maps;
pub mod memory;
pub mod object;
pub mod order;
mod prelude;
pub mod rect;
pub mod space;
pub mod svm;
pub mod told;
pub mod values;

/// What a call comes to: a value, or a code of the API.
pub type Result<T> = std::result::Result<T, i32>;
/// A function of the program with its arguments, to be run on the callback thread.
pub type Job = Box<dyn FnOnce() + Send>;

/// A pointer of the program's that only its own function looks at.
#[derive(Clone, Copy)]
pub struct User(pub *mut std::ffi::c_void);

// SAFETY: nobody here looks behind the pointer; the API says that callbacks run on any thread.
unsafe impl Send for User {}
// SAFETY: as above.
unsafe impl Sync for User {}

impl User {
    /// The pointer. A method, so that closures capture the whole wrapper.
    pub fn get(self) -> *mut std::ffi::c_void {
        self.0
    }
}
