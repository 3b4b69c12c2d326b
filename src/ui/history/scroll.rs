//! Which lines of a long list are on the screen.

/// Until the first frame says better.
const HEIGHT: usize = 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scroll {
    pub(super) top: usize,
    pub(super) height: usize,
}

impl Default for Scroll {
    fn default() -> Scroll {
        Scroll {
            top: 0,
            height: HEIGHT,
        }
    }
}

impl Scroll {
    /// Scrolls as little as possible to show the lines `first..=last`; if they do not fit, shows
    /// the last. Never leaves rows empty below while there are lines above.
    pub(super) fn show(&mut self, first: usize, last: usize, total: usize) {
        self.top = self.top.min(first);
        if last >= self.top + self.height {
            self.top = last + 1 - self.height.max(1);
        }
        self.top = self.top.min(total.saturating_sub(self.height));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scroll_moves_only_as_far_as_needed() {
        let mut scroll = Scroll { top: 0, height: 5 };
        scroll.show(4, 5, 20);
        assert_eq!(scroll.top, 1);
        scroll.show(3, 3, 20);
        assert_eq!(scroll.top, 1);
        scroll.show(0, 0, 20);
        assert_eq!(scroll.top, 0);
        scroll.show(19, 19, 20);
        assert_eq!(scroll.top, 15);
        scroll.show(2, 3, 4);
        assert_eq!(scroll.top, 0);
        scroll.height = 0;
        scroll.show(3, 3, 4);
        assert_eq!(scroll.top, 3);
    }
}
