//! A store after any damage, and a recovery that is cut short anywhere.

mod any_damage;
#[cfg(target_os = "linux")]
mod cuts;
mod matrix;
#[path = "../../store/place.rs"]
mod place;
#[allow(dead_code, reason = "the tests of the store use the rest")]
#[path = "../../store/scene.rs"]
mod scene;
#[allow(dead_code, reason = "the tests of the store use the rest")]
#[path = "../../store/story.rs"]
mod story;
