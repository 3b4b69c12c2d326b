//! Division of room by need: short texts stay whole, and long ones share the rest.

/// Returns the maximum size of each, so that all of these sizes fit into the room. Texts up to this
/// size stay whole.
pub(crate) fn level(sizes: impl IntoIterator<Item = usize>, room: usize) -> usize {
    let mut sizes: Vec<usize> = sizes.into_iter().collect();
    sizes.sort_unstable();
    let mut left = room;
    for (place, size) in sizes.iter().enumerate() {
        let each = left / (sizes.len() - place);
        if *size > each {
            return each;
        }
        left -= size;
    }
    usize::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_are_whole_and_the_long_share_the_rest() {
        assert_eq!(level([10, 20, 30], 60), usize::MAX);
        assert_eq!(level([10, 100, 200], 110), 50);
        assert_eq!(level([100, 100], 10), 5);
        assert_eq!(level([], 10), usize::MAX);
    }
}
