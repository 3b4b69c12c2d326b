//! What the kernel gives, as `rewake doctor` says it.

use super::skip;

/// Whether this kernel gives all of the sandbox, by what `rewake doctor` printed. If not, it says
/// that the test is skipped.
#[track_caller]
pub fn has_whole_sandbox(doctor: &str) -> bool {
    let all = ["protected files are read-only", "private loopback network"];
    let has = all.iter().all(|word| doctor.contains(word));
    if !has {
        skip("Landlock version 6, seccomp and user namespaces");
    }
    has
}
