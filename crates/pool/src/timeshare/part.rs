//! What a session is to have of a device's time.

/// Thousandths of a device's time.
pub type Share = u32;
/// All of it.
pub const WHOLE: Share = 1000;

/// What a session is to have of a device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Part {
    /// What is promised; `None` for as much of the rest as others who have no promise.
    pub share: Option<Share>,
    /// Who goes first, the higher.
    pub priority: i32,
}
