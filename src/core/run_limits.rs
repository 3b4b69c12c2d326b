//! Where a session pauses by itself: after so many answers, tokens or dollars.
//!
//! They are chosen while it runs, by a signal, and hold for the session, also after a restart.

use super::settings::Pricing;
use super::state::State;

/// The limit that is reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reached {
    /// So many answers.
    Answers(u64),
    /// So many tokens of requests and answers, of so many that there may be.
    Tokens { used: u64, of: u64 },
    /// The session has cost so much (US dollars), of so much that it may.
    Cost { usd: f64, of: f64 },
    /// The price of a model is not known, so a limit of cost cannot be kept.
    Unpriced,
}

impl std::fmt::Display for Reached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Reached::Answers(n) => write!(f, "the limit of answers is reached: the model gave {n}"),
            Reached::Tokens { used, of } => {
                write!(f, "the limit of tokens is reached: {used} of {of}")
            }
            Reached::Cost { usd, of } => {
                write!(f, "the limit of cost is reached: ${usd:.2} of ${of:.2}")
            }
            Reached::Unpriced => write!(
                f,
                "there is a limit of cost, and the price of a model that was asked is not known"
            ),
        }
    }
}

/// The limit that keeps the model from being asked again. `None`: none does.
pub fn reached(state: &State, price: &Pricing) -> Option<Reached> {
    let limits = state.run_limits;
    if limits.answers.is_some_and(|most| state.replies >= most) {
        return Some(Reached::Answers(state.replies));
    }
    let used = state.usage.all();
    if let Some(of) = limits.tokens.filter(|of| used >= *of) {
        return Some(Reached::Tokens { used, of });
    }
    let of = limits.usd?;
    match cost(state, price) {
        None => Some(Reached::Unpriced),
        Some(usd) if usd >= of => Some(Reached::Cost { usd, of }),
        Some(_) => None,
    }
}

/// What the whole session cost, US dollars. `None`: a price is not known.
pub fn cost(state: &State, price: &Pricing) -> Option<f64> {
    let of_model = |(model, all): (&String, &Vec<_>)| -> Option<f64> {
        all.iter().map(|usage| price(model, usage)).sum()
    };
    state.spent.iter().map(of_model).sum()
}
