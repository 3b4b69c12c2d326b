//! The input of a codec besides the request.

use crate::config::Quirks;
use crate::core::entry::BlobRef;

/// The parameters of a codec besides the request.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// The provider's own model name, without `provider/`.
    pub model: &'a str,
    /// Whether to stream. Currently always true.
    pub stream: bool,
    /// Maximum number of tokens for thinking. `None`: the request does not ask for thinking.
    pub thinking_budget: Option<u64>,
    pub quirks: &'a Quirks,
}

/// A lookup of the bytes of images.
pub type Blobs<'a> = &'a dyn Fn(&BlobRef) -> Option<Vec<u8>>;
