//! A person asks for something while the disk is full: it is done when there is room again,
//! once. The limit applies to a whole process, so the test starts itself as one.

#[path = "../core/sim/check.rs"]
mod check;
#[path = "../core/sim/checks.rs"]
#[allow(dead_code, reason = "the simulation of crashes uses all of it")]
mod checks;
#[path = "../core/sim/fake.rs"]
#[allow(dead_code, reason = "the simulation uses the rest")]
mod fake;
#[path = "../core/sim/hooks.rs"]
#[allow(dead_code, reason = "the simulation of crashes uses all of it")]
mod hooks;
#[path = "../core/sim/person.rs"]
#[allow(dead_code, reason = "the simulation uses the rest")]
mod person;
#[path = "../core/sim/served.rs"]
mod served;
#[path = "../core/sim/stage.rs"]
mod stage;

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use person::{Does, Person};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Set for the process whose files are limited.
const LIMITED: &str = "REWAKE_TEST_LIMITED";

/// No file can be written any more, or all of them again.
fn fill(full: bool) {
    let limit = Rlimit {
        current: full.then_some(0),
        maximum: getrlimit(Resource::Fsize).maximum,
    };
    setrlimit(Resource::Fsize, limit).expect("set the limit");
}

#[test]
fn a_full_disk_delays_every_command_and_loses_none() {
    if std::env::var_os(LIMITED).is_some() {
        return every_command_meets_a_full_disk();
    }
    let name = "full::a_full_disk_delays_every_command_and_loses_none";
    let mut limited = Command::new(std::env::current_exe().unwrap());
    limited.args([name, "--exact", "--nocapture"]);
    let ran = limited.env(LIMITED, "1").output().unwrap();
    let (said, failed) = (&ran.stdout, String::from_utf8_lossy(&ran.stderr));
    let said = String::from_utf8_lossy(said);
    assert!(said.contains("1 passed"), "{said}{failed}");
}

fn every_command_meets_a_full_disk() {
    let ignored = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, ignored).expect("ignore it");
    let last = person::run(Person::default(), vec![]).boundaries;
    let (mut met, mut went_on) = (0, 0);
    for does in person::ALL.into_iter().chain(person::OWN) {
        for at in 1..=last + 1 {
            let mut person = Person::new(at, does);
            person.fill_disk = Some(fill);
            let ran = std::panic::catch_unwind(|| person::run(person, vec![]));
            fill(false);
            match ran {
                Ok(done) => {
                    met += u64::from(done.was_full);
                    let step_went_on = done.was_full && !done.was_paused;
                    went_on += u64::from(step_went_on && does == Does::Name);
                }
                Err(_) => panic!("{does:?} at boundary {at}"),
            }
        }
    }
    // Going on, compacting and stopping have nothing to record at some of them.
    let all = (person::ALL.len() + person::OWN.len()) as u64 * (last + 1);
    assert!(met * 10 > all * 8, "{met} of {all} met a full disk");
    assert!(
        went_on > 0,
        "{went_on} steps went on while the disk was full"
    );
}
