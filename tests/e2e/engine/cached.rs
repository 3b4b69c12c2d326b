//! What a provider's cache gives back of a long task: with the real binary, from the marks in its
//! requests.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;

use support::{Answer, Cache, Hit, Home, Options, Protocol, Says, Seen, Server};

/// All that was in the cache is found again: behind an answer with more calls than a provider looks
/// back from a mark, when old results leave, and when exchanges are summarised.
#[test]
fn unchanged_prefix_is_found_in_the_cache() {
    let cache = Arc::new(Mutex::new((Cache::default(), Vec::<Hit>::new())));
    let seeing = Arc::clone(&cache);
    let options = Options {
        keep_bodies: false,
        ..Options::default()
    };
    let server = Server::start_with(options, move |seen: &Seen| {
        if seen.model.contains("summary") {
            return Answer::text("it was done so far");
        }
        let (cache, hits) = &mut *seeing.lock().unwrap();
        let hit = cache.see(&seen.json);
        hits.push(hit);
        let call = |n: usize| ("bash", json!({"command": format!("printf %02000d {n}")}));
        // Sometimes more blocks than are looked back at, in another rhythm than the one in which the
        // window fills.
        let calls = match hits.len() {
            130.. => 0,
            n if n % 23 == 0 => 15,
            _ => 1,
        };
        let number = hits.len() * 100;
        match calls {
            0 => Answer::text("done"),
            _ => Answer::Says((0..calls).fold(Says::text("so"), |says, n| {
                let (name, arguments) = call(number + n);
                says.and_call(name, arguments)
            })),
        }
    });
    let home = Home::new();
    let window = "[models.\"local/test-model\"]\ncontext_window = 32000\n";
    home.configure(&server, Protocol::Anthropic, window);
    let run = support::run(
        home.rewake(["-p", "--yolo", "work"]),
        Duration::from_secs(240),
    );
    run.expect(0);
    server.assert_no_violations();
    let hits = &cache.lock().unwrap().1;
    let changed = hits.iter().filter(|hit| hit.is_changed).count();
    assert!(changed > 5, "the context was made shorter {changed} times");
    // What leaves in a step is in the middle: much of what is before it was in the cache.
    let in_the_middle = |hit: &&Hit| hit.is_changed && hit.possible * 3 > hit.all;
    assert!(hits.iter().filter(in_the_middle).count() > 0, "{hits:?}");
    for (at, hit) in hits.iter().enumerate().skip(1) {
        assert!(hit.read >= hit.possible, "request {at}: {hit:?}");
    }
}
