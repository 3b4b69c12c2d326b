use crate::store::{Store, StoreError};
use std::io::Write;
pub fn json(_s: &Store, _id: &str, _o: &mut impl Write) -> Result<(), StoreError> {
    Ok(())
}
pub fn markdown(_s: &Store, _id: &str, _o: &mut impl Write) -> Result<(), StoreError> {
    Ok(())
}
