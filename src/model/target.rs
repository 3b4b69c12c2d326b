//! What a codec is given beside the request.

use crate::config::Quirks;
use crate::core::entry::BlobRef;

/// What a codec needs to know beside the request.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// The provider's own model name, without `provider/`.
    pub model: &'a str,
    /// Always true for now.
    pub stream: bool,
    /// Tokens that the model may think with. `None`: no thinking is asked for.
    pub thinking_budget: Option<u64>,
    pub quirks: &'a Quirks,
}

/// Bytes of images.
pub type Blobs<'a> = &'a dyn Fn(&BlobRef) -> Option<Vec<u8>>;
