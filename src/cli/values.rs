//! Values that flags take by their names.

use crate::core::access::Access;
use crate::core::choice::Effort;
use crate::core::entry::Mode;

pub(super) fn access() -> clap::builder::PossibleValuesParser {
    Access::ALL.map(Access::name).into()
}

pub(super) fn effort() -> clap::builder::PossibleValuesParser {
    Effort::ALL.map(Effort::name).into()
}

pub(super) fn mode() -> clap::builder::PossibleValuesParser {
    Mode::ALL.map(Mode::name).into()
}
