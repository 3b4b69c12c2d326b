//! The store is blocked by another program: the screen draws what is typed all the same, and
//! what waits for the store goes on when it is free.
//!
//! Each test sees a letter while the store is still held, and sets the store free only then.

use std::fs::File;
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior};

use crate::pty::{bash, scripted, slowly, step};
use crate::scenes::newest;
use support::{ENTER, ESC, Home, Terminal};

/// A program that has the store: nobody can open it, and nobody who has it open can write.
struct Holder {
    writing: Connection,
    /// Another program that came for the store at the same moment, and waits as long as rewake
    /// itself does before it gives up.
    waiting: std::thread::JoinHandle<bool>,
    _opening: File,
}

/// For so long does rewake's own store wait for another writer.
const PATIENCE: Duration = Duration::from_secs(5);

impl Holder {
    fn of(home: &Home) -> Holder {
        let file = |name: &str| home.rewake_home().join(name);
        // Who has the store open holds the file that has this name now. Who opens it from now on
        // finds another one, and that is ours.
        let _ = std::fs::rename(file("store.lock"), file("store.lock.before"));
        let opening = File::create_new(file("store.lock")).unwrap();
        opening.lock().unwrap();
        let writing = Connection::open(file("rewake.db")).unwrap();
        writing.busy_timeout(PATIENCE).unwrap();
        writing.execute_batch("BEGIN IMMEDIATE").unwrap();
        let database = file("rewake.db");
        let waiting = std::thread::spawn(move || {
            let mut other = Connection::open(database).unwrap();
            other.busy_timeout(PATIENCE).unwrap();
            let behavior = TransactionBehavior::Immediate;
            other.transaction_with_behavior(behavior).is_ok()
        });
        Holder {
            writing,
            waiting,
            _opening: opening,
        }
    }

    /// What the test saw, it saw while the store was held: the other program that waits for it
    /// has not given up yet.
    #[track_caller]
    fn lets_go(self) {
        let is_waiting = !self.waiting.is_finished();
        self.writing.execute_batch("ROLLBACK").unwrap();
        let got_it = self.waiting.join().unwrap();
        assert!(is_waiting && got_it, "the screen waited for the store");
    }
}

/// A session in which something was said and answered.
fn talking(more: &[String]) -> (Home, Terminal) {
    let steps = [&[step("First answer.", &[])], more].concat();
    let home = scripted(&steps);
    let terminal = Terminal::start(&home, &["remember me"]);
    terminal.sees("First answer.");
    (home, terminal)
}

#[test]
fn a_start_draws_before_it_knows_what_to_offer() {
    let answer = "An answer that is cut by the kill, in the middle of it. ";
    let home = scripted(&[slowly(&answer.repeat(40))]);
    let terminal = Terminal::start(&home, &["remember me"]);
    terminal.sees("An answer");
    terminal.kill();
    let holder = Holder::of(&home);
    let mut terminal = Terminal::start(&home, &[]);
    terminal.types("abc");
    terminal.sees("› abc");
    // There is no session yet that it could go into.
    terminal.types(ENTER);
    terminal.sees("sent when the session is open");
    holder.lets_go();
    terminal.sees("killed");
    terminal.sees("remember me");
    terminal.sees("in the box: abc");
}

#[test]
fn leaving_a_session_draws() {
    let answer = "A slow answer that is left in the middle, which has to be recorded first.";
    let (home, mut terminal) = talking(&[slowly(answer)]);
    terminal.says("go slowly");
    terminal.sees("A slow");
    let holder = Holder::of(&home);
    terminal.says("/new");
    terminal.types("abc");
    terminal.sees("› abc");
    holder.lets_go();
    terminal.no_longer_sees("First answer.");
    terminal.sees("Every step is on disk");
    terminal.sees("› abc");
    terminal.types("\x03\x04");
    terminal.ends();
    // What was left is in the log, and so is that it was left.
    let mut again = Terminal::start(&home, &["-r", &newest(&home)]);
    again.sees("go slowly");
    again.sees("A slow");
    again.types("\x04");
    again.ends();
}

#[test]
fn taking_up_another_session_draws() {
    let (home, mut first) = talking(&[]);
    let id = newest(&home);
    first.types("\x04");
    first.ends();
    let mut terminal = Terminal::start(&home, &["another one"]);
    terminal.sees("First answer.");
    let holder = Holder::of(&home);
    terminal.says(&format!("/resume {id}"));
    terminal.types("abc");
    terminal.sees("› abc");
    holder.lets_go();
    terminal.sees("▌ remember me");
}

#[test]
fn closing_the_history_draws() {
    let (home, mut first) = talking(&[]);
    first.types("\x04");
    first.ends();
    let mut terminal = Terminal::start(&home, &["-r"]);
    terminal.sees("remember me");
    let holder = Holder::of(&home);
    terminal.types(ESC);
    terminal.no_longer_sees("remember me");
    terminal.types("abc");
    terminal.sees("› abc");
    holder.lets_go();
    terminal.sees("saved");
    terminal.sees("› abc");
}

#[test]
fn the_history_draws() {
    let (home, mut terminal) = talking(&[]);
    let holder = Holder::of(&home);
    terminal.types("\x1bOQ");
    terminal.no_longer_sees("First answer.");
    terminal.types("remem");
    terminal.sees("remem");
    holder.lets_go();
    terminal.sees("remember me");
}

#[test]
fn typing_and_sending_draw() {
    let (home, mut terminal) = talking(&[step("Second answer.", &[])]);
    let holder = Holder::of(&home);
    terminal.says("and now?");
    terminal.types("abc");
    terminal.sees("› abc");
    holder.lets_go();
    terminal.sees("▌ and now?");
    terminal.sees("Second answer.");
    terminal.sees("› abc");
}

/// 3 x 2 pixels.
const PNG: &[u8] = b"\x89\x50\x4e\x47\x0d\x0a\x1a\x0a\x00\x00\x00\x0d\x49\x48\x44\x52\x00\x00\x00\x03\x00\x00\x00\x02\x08\x02\x00\x00\x00\x12\x16\xf1\x4d\x00\x00\x00\x03\x74\x45\x58\x74\x61\x00\x62\xdc\x49\xa2\x3b\x00\x00\x00\x10\x49\x44\x41\x54\x78\x9c\x63\xf8\xcf\xc0\x00\x41\x0c\x70\x16\x00\x41\xd2\x05\xfb\x87\xf0\xb9\x48\x00\x00\x00\x00\x49\x45\x4e\x44\xae\x42\x60\x82";

#[test]
fn attaching_an_image_draws_and_sends_it() {
    let seen = [step("I see it.", &[]), step("I see two.", &[])];
    let (home, mut terminal) = talking(&seen);
    std::fs::write(home.path("a.png"), PNG).unwrap();
    std::fs::write(home.path("b.png"), PNG).unwrap();
    let holder = Holder::of(&home);
    terminal.types("\x1b[200~./a.png\x1b[201~");
    terminal.sees("[Image #1 a.png]");
    terminal.types("see ./b.png!");
    terminal.sees("see ./b.png!");
    holder.lets_go();
    terminal.types(ENTER);
    terminal.sees("I see it.");
    // Sent in the same instant, before the disk can have answered.
    terminal.types("both @b.png");
    terminal.sees("both @b.png");
    terminal.types(" and @a.png\r");
    terminal.sees("I see two.");
    terminal.types("\x04");
    terminal.ends();
    let export = home.run(["export", &newest(&home), "--json"]).expect(0);
    let found = export.stdout.matches("image/png").count();
    assert_eq!(found, 3, "{}", export.stdout);
    assert!(
        export
            .stdout
            .contains("both [Image #1 b.png] and [Image #2 a.png]")
    );
}

#[test]
fn writing_the_config_draws() {
    let home = scripted(&[step("", &[bash("touch first")]), step("Done.", &[])]);
    // Another program that changes the config.
    let other = File::create(home.rewake_home().join("config.lock")).unwrap();
    other.lock().unwrap();
    let mut terminal = Terminal::start(&home, &["make it"]);
    terminal.sees("always, everywhere");
    terminal.chooses("e");
    terminal.sees("Done.");
    terminal.types("abc");
    terminal.sees("› abc");
    let config = || std::fs::read_to_string(home.rewake_home().join("config.toml")).unwrap();
    assert!(!config().contains("touch"), "it was not held up");
    other.unlock().unwrap();
    terminal.sees("new permanent rule");
    assert!(config().contains("touch"));
}

#[test]
fn a_person_may_leave_without_the_store_and_loses_nothing_that_was_acknowledged() {
    let answer = "A slow answer, during which another message is sent and waits for its turn. ";
    let (home, mut terminal) = talking(&[slowly(&answer.repeat(40))]);
    terminal.says("go slowly");
    terminal.sees("A slow");
    terminal.says("wait for it");
    terminal.sees("queued: wait for it");
    let holder = Holder::of(&home);
    // Once it stops, twice it leaves: the engine cannot record either.
    terminal.types("\x03");
    terminal.sees("Ctrl+C again quits");
    terminal.types("\x03");
    terminal.sees("quitting: saving the last changes");
    terminal.types("\x03");
    terminal.ends();
    terminal.sees("the engine did not end in time; what was recorded is safe");
    assert!(terminal.is_cooked());
    holder.lets_go();
    let mut again = Terminal::start(&home, &["-c"]);
    again.sees("▌ go slowly");
    again.sees("wait for it");
    again.types("\x04");
    again.ends();
}
