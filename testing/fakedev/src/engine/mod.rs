//! What takes several kinds of objects.

pub mod copies;
pub mod execute;
pub mod life;
pub mod node;
pub mod reach;
pub mod submit;
