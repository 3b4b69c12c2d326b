//! The profile in the language of `sandbox-exec`, for macOS. Untested on the system itself, so it
//! lets no command run without approval.

use std::fmt::Write;
use std::path::Path;

use super::profile::{Network, Profile};
use crate::core::access::Access;

pub(crate) const PROGRAM: &str = "/usr/bin/sandbox-exec";

/// Later rules win: first what is granted, then what is hidden or protected.
pub(crate) fn rules(profile: &Profile) -> String {
    let mut text = String::from(
        "(version 1)\n(deny default)\n(allow process-exec process-fork)\n(allow sysctl-read)\n\
         (allow signal (target same-sandbox))\n(allow file-read-metadata)\n\
         (allow file-read* (subpath \"/System\") (subpath \"/Library\") (subpath \"/private/etc\") \
         (subpath \"/private/var/db/timezone\") (subpath \"/dev/fd\"))\n",
    );
    for path in &profile.read {
        rule(&mut text, "allow file-read*", path);
    }
    for path in &profile.write {
        rule(&mut text, "allow file-read* file-write*", path);
    }
    for path in &profile.devices {
        rule(&mut text, "allow file-read* file-write-data", path);
    }
    match profile.network {
        Network::Open => text.push_str(
            "(allow network-outbound (remote ip))\n(allow network-inbound (local ip))\n\
             (allow network-bind (local ip))\n",
        ),
        Network::Private | Network::None if profile.access == Access::Workspace => {
            text.push_str(
                "(allow network* (local ip \"localhost:*\"))\n\
                 (allow network-outbound (remote ip \"localhost:*\"))\n",
            );
        }
        Network::Private | Network::None => {}
    }
    for path in &profile.protected {
        rule(&mut text, "deny file-write*", path);
    }
    for path in &profile.hidden {
        rule(&mut text, "deny file-read* file-write*", path);
    }
    text
}

fn rule(text: &mut String, what: &str, path: &Path) {
    let path = path.to_string_lossy();
    let quoted = path.replace('\\', "\\\\").replace('"', "\\\"");
    // Writing to a string does not fail.
    let _ = writeln!(text, "({what} (subpath \"{quoted}\"))");
}
