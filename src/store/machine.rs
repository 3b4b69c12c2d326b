//! The identity of this machine, for files that other machines may read. On many shared file
//! systems a lock that another machine takes is not visible here.
//!
//! Two names are the same machine if they agree in the machine or in the boot. A machine that was
//! rebooted is the same one, and so are containers under one kernel, which see each other's locks.
//!
//! The current time, in the unit that the store uses.

use std::fs;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time for which a process that was seen on another machine is taken to be running there.
pub(super) const LATELY: Duration = Duration::from_secs(120);

/// Number of hex digits of each hash.
const DIGITS: usize = 8;

/// Length to which the host name is cut, in characters.
const MAX_NAME: usize = 24;

/// A machine in its written form: `MACHINE:BOOT:NAME`, without a blank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Machine {
    id: String,
    boot: String,
    pub name: String,
}

impl Machine {
    /// Returns this machine, or `None` if the system does not identify it. Then nothing is refused
    /// because of other machines.
    pub(super) fn this() -> Option<&'static Machine> {
        static THIS: OnceLock<Option<Machine>> = OnceLock::new();
        THIS.get_or_init(|| {
            let name = system_name().unwrap_or_default();
            let id = machine_id().unwrap_or_else(|| name.clone());
            let boot = boot_id().unwrap_or_default();
            (!id.is_empty() && !boot.is_empty()).then(|| Machine::of(&id, &boot, &name))
        })
        .as_ref()
    }

    fn of(id: &str, boot: &str, name: &str) -> Machine {
        let hash = |text: &str| blake3::hash(text.as_bytes()).to_hex()[..DIGITS].to_string();
        let is_plain = |c: &char| c.is_ascii_alphanumeric() || ['-', '.', '_'].contains(c);
        Machine {
            id: hash(id),
            boot: hash(boot),
            name: name.chars().filter(is_plain).take(MAX_NAME).collect(),
        }
    }

    pub(super) fn read(word: &str) -> Option<Machine> {
        let mut parts = word.split(':').map(str::to_string);
        let (id, boot, name) = (parts.next()?, parts.next()?, parts.next()?);
        (id.len() == DIGITS && boot.len() == DIGITS).then_some(Machine { id, boot, name })
    }

    pub(super) fn word(&self) -> String {
        format!("{}:{}:{}", self.id, self.boot, self.name)
    }

    /// Returns whether the machine itself is this one. Containers under one kernel have one boot, and
    /// are machines of their own.
    fn is_this(&self) -> bool {
        Machine::this().is_some_and(|this| this.id == self.id)
    }

    pub(super) fn is_another(&self) -> bool {
        Machine::this().is_some_and(|this| !this.is_same(self))
    }

    /// Returns whether the machine was not rebooted since this was written.
    pub(crate) fn is_of_this_boot(&self) -> bool {
        Machine::this().is_none_or(|this| this.boot == self.boot)
    }

    fn is_same(&self, other: &Machine) -> bool {
        self.id == other.id || self.boot == other.boot
    }
}

/// Returns whether a header with this machine is of another one. `None`: an older version wrote it.
pub(crate) fn is_of_another_machine(word: Option<&str>) -> bool {
    word.is_some_and(|word| !Machine::read(word).is_some_and(|machine| machine.is_this()))
}

/// Returns the name of a machine as a header has it.
pub(crate) fn machine_name(word: Option<&str>) -> String {
    let machine = word.and_then(Machine::read);
    let name = machine.map(|machine| machine.name);
    name.filter(|name| !name.is_empty())
        .unwrap_or_else(|| "unknown".to_string())
}

/// Returns this machine, its start and its name: two hashes and a word. `None`: the system does not
/// identify it.
pub fn home_of_machine() -> Option<(String, String, String)> {
    let this = Machine::this()?;
    Some((this.id.clone(), this.boot.clone(), host_name()))
}

/// Returns the name of this machine, for a person.
pub fn host_name() -> String {
    let name = Machine::this().map(|machine| machine.name.clone());
    name.filter(|name| !name.is_empty())
        .unwrap_or_else(|| "unknown".to_string())
}

fn machine_id() -> Option<String> {
    let read = |path| fs::read_to_string(path).ok();
    let id = read("/etc/machine-id").or_else(|| read("/var/lib/dbus/machine-id"))?;
    let id = id.trim();
    (!id.is_empty()).then(|| id.to_string())
}

#[cfg(target_os = "linux")]
fn boot_id() -> Option<String> {
    trimmed(fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?)
}

#[cfg(target_os = "linux")]
fn system_name() -> Option<String> {
    trimmed(fs::read_to_string("/proc/sys/kernel/hostname").ok()?)
}

#[cfg(not(target_os = "linux"))]
fn boot_id() -> Option<String> {
    of_sysctl("kern.bootsessionuuid")
}

#[cfg(not(target_os = "linux"))]
fn system_name() -> Option<String> {
    of_sysctl("kern.hostname")
}

#[cfg(not(target_os = "linux"))]
fn of_sysctl(name: &str) -> Option<String> {
    let output = std::process::Command::new("/usr/sbin/sysctl")
        .args(["-n", name])
        .output()
        .ok()?;
    trimmed(String::from_utf8(output.stdout).ok()?)
}

fn trimmed(text: String) -> Option<String> {
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_string())
}

/// Returns the time: UTC, milliseconds since 1970; 0 if the clock of the machine is before that.
pub fn now_ms() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restarted_machine_is_the_same_machine() {
        let one = Machine::of("one", "boot 1", "host");
        let other = |id, boot| one.is_same(&Machine::of(id, boot, "host"));
        assert!(other("one", "boot 2"));
        assert!(other("container", "boot 1"));
        assert!(!other("two", "boot 3"));
    }

    #[test]
    fn a_machine_becomes_a_short_word_and_is_parsed_back() {
        let name = "a host:with a very long name, and blanks in it";
        let machine = Machine::of("one", "boot", name);
        let word = machine.word();
        assert!(word.len() <= 42 && !word.contains(' '), "{word}");
        assert_eq!(Machine::read(&word), Some(machine));
        assert_eq!(Machine::read("12-3"), None);
    }
}
