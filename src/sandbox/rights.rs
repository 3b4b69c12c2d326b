//! The rights of a process: capabilities, new privileges, limits, and its rank when memory runs
//! out.

use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
    set_no_new_privs,
};

use super::profile::Limits;

/// Added to the kernel's score for killing a process when memory runs out, so that commands are
/// killed before the agent.
const OUT_OF_MEMORY: i32 = 500;

const MOST_CAPABILITIES: u64 = 64;

/// Drops all capabilities for good: neither root nor a program with file capabilities regains any.
pub(super) fn drop_all() -> Result<(), String> {
    let failed = |e: rustix::io::Errno| format!("cannot drop privileges: {e}");
    set_no_new_privs(true).map_err(failed)?;
    let held = capabilities(None).map_err(failed)?;
    if held.effective.contains(CapabilitySet::SETPCAP) {
        for number in 0..MOST_CAPABILITIES {
            let one = CapabilitySet::from_bits_retain(1 << number);
            // The kernel has no capability of this number, so there are no more.
            if !matches!(capability_is_in_bounding_set(one), Ok(true)) {
                continue;
            }
            remove_capability_from_bounding_set(one).map_err(failed)?;
        }
    }
    // Fails on kernels without ambient capabilities.
    let _ = clear_ambient_capability_set();
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, none).map_err(failed)?;
    let left = capabilities(None).map_err(failed)?;
    if left.permitted.is_empty() && left.effective.is_empty() {
        Ok(())
    } else {
        Err("cannot drop privileges: some are left".to_string())
    }
}

pub(super) fn limit(limits: &Limits) -> Result<(), String> {
    let fixed = |bytes| Rlimit {
        current: Some(bytes),
        maximum: Some(bytes),
    };
    let failed = |e: rustix::io::Errno| format!("cannot set limits: {e}");
    // A limit that is already lower stays.
    let given = rustix::process::getrlimit(Resource::Fsize).maximum;
    let most = limits.file_bytes.min(given.unwrap_or(u64::MAX));
    setrlimit(Resource::Fsize, fixed(most)).map_err(failed)?;
    setrlimit(Resource::Core, fixed(0)).map_err(failed)
}

/// Raises the score for being killed when memory runs out. A failure is ignored: some containers do
/// not allow it.
pub(super) fn offer_to_out_of_memory() {
    let file = "/proc/self/oom_score_adj";
    let now = std::fs::read_to_string(file).unwrap_or_default();
    let now: i32 = now.trim().parse().unwrap_or(0);
    let _ = std::fs::write(file, (now + OUT_OF_MEMORY).min(1000).to_string());
}
