//! args -> config -> run -> exit code.

fn main() {}
