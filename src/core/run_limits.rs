//! Limits at which a session pauses by itself: answers, tokens or dollars.
//!
//! A signal sets them while the session runs. They apply to the session, also after a restart.

use super::settings::Pricing;
use super::state::State;

/// The limit that is reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reached {
    /// The number of answers.
    Answers(u64),
    /// The used tokens of requests and answers, and their limit.
    Tokens { used: u64, of: u64 },
    /// The cost of the session in US dollars, and its limit.
    Cost { usd: f64, of: f64 },
    /// The price of a model is not known, so a limit of cost cannot be checked.
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

/// Returns the limit that prevents another model call. `None`: there is none.
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

/// Returns the cost of the whole session in US dollars. `None`: a price is not known.
pub fn cost(state: &State, price: &Pricing) -> Option<f64> {
    let of_model = |(model, all): (&String, &Vec<_>)| -> Option<f64> {
        all.iter().map(|usage| price(model, usage)).sum()
    };
    // The sum of no floats is -0.0.
    state
        .spent
        .iter()
        .map(of_model)
        .sum::<Option<f64>>()
        .map(|usd| usd + 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_spent_costs_a_positive_zero() {
        let price: Pricing = std::sync::Arc::new(|_, _| Some(1.0));
        let nothing = cost(&State::default(), &price).unwrap();
        assert!(nothing.is_sign_positive(), "{nothing:?}");
    }
}
