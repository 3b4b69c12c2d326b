//! A key that is kept.

use crate::scenes::LIMIT;
use crate::{Home, Run, run};

pub const SECRET: &str = "sk-very-secret-0123456789";

pub fn keep(home: &Home, args: &[&str], typed: &str) -> Run {
    let file = home.user().join("typed");
    std::fs::write(&file, typed).unwrap();
    let mut command = home.rewake(args);
    command.stdin(std::fs::File::open(file).unwrap());
    run(command, LIMIT)
}
