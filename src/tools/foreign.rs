//! Tools of somebody else, called by their full name. Nobody can know what one did.

use serde_json::Value;

use crate::core::permission::{FOREIGN_PREFIX, Permission};
use crate::core::tool::{Class, Described};

pub(super) fn is_foreign(name: &str) -> bool {
    name.starts_with(FOREIGN_PREFIX)
}

pub(super) fn describe(name: &str, arguments: &Value) -> Described {
    Described {
        class: Class::Opaque,
        subject: arguments.to_string(),
        permission: Permission::Foreign {
            name: name.to_string(),
        },
        objection: None,
    }
}
