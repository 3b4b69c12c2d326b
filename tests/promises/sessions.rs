//! Sessions are resumed by their ID, and forked.

use crate::scenes::sessions::*;
use crate::scenes::{LIMIT, history, results, scripted, step, stream};

#[test]
fn a_killed_run_is_offered_taken_up_and_its_command_ran_once() {
    let home = long();
    let mut live = busy(&home);
    let id = history(&home)[0].0.clone();
    let other = home.run(["-p", "something else", "--max-turns", "1"]);
    let at_work = format!(
        "in use here: {id} \"the long task\", in process {}",
        live.id()
    );
    assert!(other.stderr.contains(&at_work), "{}", other.stderr);
    live.kill();
    live.wait(LIMIT);

    let new = home.run(["-p", "a third", "--max-turns", "1"]);
    let offer = format!("unfinished here: {id} \"the long task\"");
    assert!(new.stderr.contains(&offer), "{}", new.stderr);
    assert!(
        new.stderr.contains(&format!("rewake -p -r {id}")),
        "{}",
        new.stderr
    );
    assert_eq!(new.stdout.lines().count(), 0, "only stderr says it");

    let live = stream(&home, &["-p", "-r", &id]);
    live.wait_for(LIMIT, |line| line.contains("session.resumed"));
    let_go(&home);
    let run = live.wait(LIMIT).expect(0);
    assert!(
        run.stderr
            .contains(&format!("resumed {id} \"the long task\", killed "))
    );
    assert!(
        run.stderr.contains("1 command still running (touch began"),
        "{}",
        run.stderr
    );
    assert!(
        results(&run)[0].1.starts_with("over\n"),
        "{:?}",
        results(&run)
    );
    assert_eq!(home.read("times"), "ran\n");
}

#[test]
fn a_fork_goes_its_own_way() {
    let home = scripted(&[step("one", &[]), step("two", &[])]);
    home.run(["-p", "x"]).expect(0);
    let id = history(&home)[0].0.clone();
    let fork = home.run(["fork", &id]).expect(0);
    let copy = fork.stdout.trim().to_string();
    assert!(fork.stderr.contains("rewake -p -r"), "{}", fork.stderr);
    assert_eq!(home.run(["-p", "y", "-r", &copy]).expect(0).stdout, "two\n");
    let shown = |id: &str| home.run(["show", id]).expect(0).stdout;
    assert!(shown(&copy).contains("you: y") && shown(&copy).contains("you: x"));
    assert!(!shown(&id).contains("you: y"));
    let again = home.run(["-p", "z", "-r", &id, "--fork-session"]).expect(0);
    assert_eq!(again.stdout, "two\n");
    assert!(!shown(&id).contains("you: z"));
}
