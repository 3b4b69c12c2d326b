//! When a provider retires a model, a fallback answers.

use crate::scenes::models::*;
use crate::scenes::streamed;
use support::{Home, Protocol};

#[test]
fn a_retired_model_goes_to_the_fallback() {
    for protocol in Protocol::ALL {
        let server = without(protocol, &["test-model", "second"]);
        let home = Home::with(&server, protocol);
        let more = "fallback_model = [\"local/second\", \"local/third\"]\n";
        home.configure(&server, protocol, more);
        let run = home.run(["-p", "x"]).expect(0);
        assert_eq!(run.stdout, "I am third.\n", "{protocol:?}");
        let said = "local/third answers in its place until the next prompt";
        assert!(run.stderr.contains(said), "{}", run.stderr);
        // Asking again does not help, so no model is asked twice.
        assert_eq!(asked(&server), ["test-model", "second", "third"]);
        let events = streamed(&home, &["-p", "-c", "more"]).expect(0).events();
        let chose = events.iter().find(|e| e["type"] == "entry.chose").unwrap();
        assert_eq!(chose["fallback"]["model"], "local/second");
        assert_eq!(chose["fallback"]["error"]["class"], "no_model");
    }
}
