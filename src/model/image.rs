//! Images on the wire: base64, from the blobs of the store.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::target::Blobs;
use crate::core::entry::BlobRef;

/// Text that replaces an image whose bytes are missing.
pub(super) const MISSING: &str = "[image not available]";

pub(super) fn base64(blob: &BlobRef, blobs: Blobs) -> Option<String> {
    let bytes = blobs(blob).filter(|bytes| !bytes.is_empty())?;
    Some(STANDARD.encode(bytes))
}

pub(super) fn data_url(media_type: &str, blob: &BlobRef, blobs: Blobs) -> Option<String> {
    Some(format!("data:{media_type};base64,{}", base64(blob, blobs)?))
}
