//! The terminal: the screen as a projection of the log.

mod live;

use std::sync::Arc;

use live::News;

/// Tells the screen, from whatever thread.
pub type Tell = Arc<dyn Fn(News) + Send + Sync>;
