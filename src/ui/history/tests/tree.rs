//! Inside a session: the tree, the conversation, and where one resumes from.

use super::*;
use crate::ui::history::tree::Target;

#[test]
fn checkpoints_are_a_tree_with_the_conversation_beside_it() {
    let scene = full();
    let mut play = Play::new(&scene);
    play.keys(&[KeyCode::Down, KeyCode::Enter]);
    play.screens("tree");
    play.keys(&[KeyCode::Tab]);
    let small = play.screen(40, 12);
    insta::assert_snapshot!("tree-conversation-40x12", small);
}

#[test]
fn a_fork_shows_where_it_comes_from_and_leads_there() {
    let scene = full();
    let mut play = Play::new(&scene);
    play.keys(&[KeyCode::Enter]);
    play.screens("fork");
    let fork = play.pane.tree.as_ref().unwrap().session.clone();
    play.keys(&[KeyCode::Down, KeyCode::Right]);
    let trunk = play.pane.tree.as_ref().unwrap().session.clone();
    assert_ne!(fork, trunk);
    assert!(play.screen(120, 40).contains("answered"));
}

#[test]
fn a_session_is_resumed_from_its_end_and_forked_before_it() {
    let scene = full();
    let mut play = Play::new(&scene);
    play.keys(&[KeyCode::Down]);
    let id = play.pane.list.row().unwrap().id.clone();
    assert_eq!(play.control('r'), Did::Resume(id.clone()));
    let at = |seq| Did::ForkAt {
        id: id.clone(),
        seq,
    };
    assert_eq!(play.control('f'), at(8));
    play.keys(&[KeyCode::Enter]);
    assert_eq!(play.key(KeyCode::Enter), Did::Resume(id.clone()));
    assert_eq!(play.control('f'), at(8));
    play.keys(&[KeyCode::Up, KeyCode::Up]);
    assert_eq!(play.key(KeyCode::Enter), at(5));
    play.keys(&[KeyCode::Home]);
    // The first that changed a file: answers with calls and plans are no lines.
    assert_eq!(play.control('r'), at(4));
    play.keys(&[KeyCode::Left]);
    assert_eq!(play.key(KeyCode::Esc), Did::Close);
}

#[test]
fn a_long_session_is_read_from_its_end_as_it_is_scrolled_to() {
    let scene = Scene::new();
    let mut store = scene.store();
    let mut head = begin(&mut store, HERE, NOW_MS);
    let exchange = |n| [said(&format!("say {n}")), replied(vec![Block::text("so")])];
    add(
        &mut store,
        &mut head,
        NOW_MS,
        (0..500).flat_map(exchange).collect(),
    );
    let mut play = Play::new(&scene);
    play.keys(&[KeyCode::Enter]);
    let selected = |play: &Play<'_>| play.pane.tree.as_ref().unwrap().target();
    assert_eq!(selected(&play), Some(Target::Point(1_000)));
    assert_eq!(play.pane.tree.as_ref().unwrap().points.len(), 200);
    play.keys(&[KeyCode::Home]);
    // What came before does not move the cursor.
    assert_eq!(selected(&play), Some(Target::Point(802)));
    assert_eq!(play.pane.tree.as_ref().unwrap().points.len(), 400);
    for _ in 0..9 {
        play.keys(&[KeyCode::Home]);
    }
    assert_eq!(selected(&play), Some(Target::Point(2)));
    assert_eq!(play.pane.tree.as_ref().unwrap().points.len(), 1_000);
}

#[test]
fn only_requests_and_what_changed_something_are_lines_and_where_a_fork_hangs() {
    let scene = Scene::new();
    let mut store = scene.store();
    let mut head = begin(&mut store, HERE, NOW_MS);
    let read = |path: &str| Block::call("read", format!(r#"{{"path":"{path}"}}"#));
    let entries = vec![
        said("look at them"),
        replied(vec![
            read("one"),
            read("two"),
            read("three"),
            Block::call("bash", r#"{"command":"make"}"#),
        ]),
        finished(2, 0, Outcome::done("1"), None),
        finished(2, 1, Outcome::error("no such file"), None),
        finished(2, 2, Outcome::done("3"), None),
        finished(2, 3, Outcome::done("made"), None),
        replied(vec![Block::text("Two are there.")]),
    ];
    add(&mut store, &mut head, NOW_MS, entries);
    let points = |scene: &Scene| {
        let mut play = Play::new(scene);
        play.keys(&[KeyCode::End, KeyCode::Enter]);
        let tree = play.pane.tree.as_ref().unwrap();
        let seqs: Vec<Seq> = tree.points.iter().map(|point| point.seq).collect();
        (seqs, play.screen(80, 24))
    };
    // The request, what failed, the command, the answer.
    assert_eq!(points(&scene).0, [1, 4, 6, 7]);
    fork(&mut store, &head, 3, NOW_MS - HOUR_MS);
    drop(store);
    let (seqs, screen) = points(&scene);
    assert_eq!(seqs, [1, 3, 4, 6, 7], "{screen}");
    assert!(screen.contains("│  └─ ⑂ "), "{screen}");
}
