//! A session at work whose journal is to be damaged.

use std::fs;
use std::path::PathBuf;

use crate::scenes::{bash, play, quiet, scripted, step, until};
use crate::{Home, Live};

pub const CALLS: usize = 8;

/// Maximum number of calls that are waited for before a kill.
pub const BEFORE_A_KILL: usize = 6;

pub fn path(home: &Home, name: &str) -> PathBuf {
    home.rewake_home().join(name)
}

/// A session that does one thing after the other. Before [`go_on`] the last ones last so long that
/// a kill finds it at work.
pub fn at_work() -> (Home, Live) {
    let call = |n: usize| {
        let lasts = match n < BEFORE_A_KILL {
            true => "sleep 0.1",
            false => "[ -e ~/go ] || sleep 10",
        };
        step("", &[bash(&format!("echo {n} >> effects; {lasts}"))])
    };
    let mut steps: Vec<String> = (0..CALLS).map(call).collect();
    steps.push(step("all done", &[]));
    let home = scripted(&steps);
    let args = ["-p", "go", "--yolo", "--output-format", "stream-json"];
    let live = Live::spawn(home.rewake(args));
    (home, live)
}

pub fn go_on(home: &Home) {
    fs::write(home.user().join("go"), "").unwrap();
}

/// Waits until this number of calls had its effect.
pub fn wait_for_calls(home: &Home, calls: usize) {
    assert!(calls <= BEFORE_A_KILL);
    until(|| effects(home).len() >= calls);
}

pub fn effects(home: &Home) -> Vec<String> {
    let text = fs::read_to_string(home.workspace().join("effects")).unwrap_or_default();
    text.lines().map(str::to_string).collect()
}

#[track_caller]
pub fn goes_on_and_repeats_nothing(home: &Home, says: &str) {
    go_on(home);
    let run = home.run(["-p", "-c", "--yolo"]).expect(0);
    quiet(&run);
    assert_eq!(run.stdout.trim(), "all done");
    assert!(run.stderr.contains(says), "{}", run.stderr);
    let expected: Vec<String> = (0..CALLS).map(|n| n.to_string()).collect();
    assert_eq!(effects(home), expected);
    let doctor = home.run(["doctor"]).expect(0);
    assert!(
        doctor.stdout.contains("ok     journal"),
        "{}",
        doctor.stdout
    );
    // A second start has nothing to do.
    play(home, &[step("more", &[])]);
    let run = home.run(["-p", "-c", "and more"]).expect(0);
    assert!(!run.stderr.contains("journal"), "{}", run.stderr);
}
