//! Tools of servers, called by their full name or through `mcp_call`. After a crash, the journal of
//! the server's keeper has the outcome of a call.

use std::sync::Arc;

use serde_json::Value;

use super::shown::{Shown, ShownBody};
use crate::core::permission::{FOREIGN_PREFIX, Permission};
use crate::core::tool::{Class, Described};

pub(super) fn is_foreign(name: &str) -> bool {
    name.starts_with(FOREIGN_PREFIX)
}

pub(super) fn describe(name: &str, arguments: Value) -> Described {
    Described {
        class: Class::Served,
        subject: subject(&arguments),
        permission: permission(name),
        objection: None,
        arguments: Arc::new(arguments),
    }
}

pub(super) fn permission(name: &str) -> Permission {
    Permission::Foreign {
        name: name.to_string(),
    }
}

/// Returns the arguments in one line, as data.
pub(super) fn subject(arguments: &Value) -> String {
    match arguments {
        Value::Null => "{}".to_string(),
        arguments => arguments.to_string(),
    }
}

pub(super) fn shown(name: &str, arguments: &Value) -> Shown {
    Shown {
        body: ShownBody::Served {
            name: name.to_string(),
            arguments: serde_json::to_string_pretty(arguments).unwrap_or_default(),
        },
        ..Shown::default()
    }
}
