//! How a context ends: with all that it owns.

use crate::state::context::Context;
use crate::state::{array, capture, memory, module, pool};

/// Ends everything that a context owns.
pub fn end(context: &Context) {
    context.end();
    capture::drop_context(context.handle);
    module::drop_context(context.handle);
    array::drop_context(context.handle);
    pool::drop_context(context.handle);
    memory::drop_context(context.handle);
}
