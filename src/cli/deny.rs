//! `rewake deny`: denies a call that needs approval.

use clap::Args;

use super::shared::{SharedCommand, SharedFlag};
use super::steer::SteeredSession;
use crate::core::entry::{CallId, Verdict};
use crate::report::CliError;
use crate::session::{AppContext, denial};

/// Deny a call that needs approval
#[derive(Debug, Clone, PartialEq, Default, Args)]
#[command(shared_flag("The session is in the shared database", &[]))]
pub(crate) struct DenyArgs {
    /// Session ID or its beginning (@here: newest session of this folder)
    pub id: String,
    #[command(flatten)]
    pub shared: SharedFlag,
    /// Call, as `rewake approvals` shows it, and a reason for the model
    #[arg(value_name = "CALL|WHY", num_args = 0..=2)]
    pub rest: Vec<String>,
}

impl DenyArgs {
    /// Parses `deny ID`, `deny ID 12.0`, `deny ID "why"` and `deny ID 12.0 "why"`.
    pub(super) fn answer(&self) -> Result<(Option<CallId>, Verdict), String> {
        let call = self.rest.first().and_then(|word| word.parse().ok());
        match &self.rest[usize::from(call.is_some())..] {
            [] => Ok((call, denial(None))),
            [reason] => Ok((call, denial(Some(reason.clone())))),
            [_, more, ..] => Err(format!(
                "the reason is one argument, and {more:?} is another: quote the whole reason"
            )),
        }
    }
}

pub(super) fn run(ctx: &AppContext, args: &DenyArgs) -> Result<u8, CliError> {
    let (call, verdict) = args.answer().map_err(CliError::usage)?;
    let mut session = SteeredSession::find(ctx, &args.id, args.shared)?;
    let receipt = session.answer(call, verdict)?;
    Ok(session.report(receipt.sending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_call_and_the_reason_may_be_missing() {
        let answer = |rest: &[&str]| {
            let args = DenyArgs {
                id: String::new(),
                rest: rest.iter().map(ToString::to_string).collect(),
                ..DenyArgs::default()
            };
            args.answer()
        };
        let call = Some(CallId { reply: 3, index: 1 });
        let why = |text: &str| denial(Some(text.to_string()));
        assert_eq!(answer(&[]), Ok((None, denial(None))));
        assert_eq!(answer(&["3.1"]), Ok((call, denial(None))));
        assert_eq!(answer(&["not this"]), Ok((None, why("not this"))));
        assert_eq!(answer(&["3.1", "not this"]), Ok((call, why("not this"))));
        let refused = answer(&["not", "this"]).unwrap_err();
        assert!(refused.contains("\"this\" is another"), "{refused}");
    }
}
