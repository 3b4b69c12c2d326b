//! A session whose command waits.

use crate::scenes::{LIMIT, SCRIPTED, bash, scripted, step, stream, until};
use crate::{Home, Live};

/// A run that is in the middle of a command.
pub fn busy(home: &Home) -> Live {
    let live = stream(home, &["-p", "the long task", "--yolo"]);
    live.wait_for(LIMIT, |line| line.contains("entry.started"));
    until(|| home.path("began").exists());
    live
}

/// Its command runs until the file `go` is there.
pub fn long() -> Home {
    let wait = "touch began; echo ran >> times; while [ ! -e go ]; do sleep 0.01; done; echo over";
    let home = scripted(&[
        step("", &[bash(wait)]),
        step("finished", &[]),
        step("more", &[]),
    ]);
    // Where each command needs approval, a session without --yolo does not wait for ever.
    home.write_config(&format!("{SCRIPTED}[sandbox]\nenabled = false\n"));
    home
}

pub fn let_go(home: &Home) {
    std::fs::write(home.path("go"), "").unwrap();
}
