//! Random histories of a workspace, with rewinds: the real engine, tools, commands and files on one
//! side, and on the other a model that holds each file as three figures. After every step each file
//! has to be what the model says.
//!
//! `REWAKE_REWIND_CASES=5000` plays so many, twice: with a watch and without one.

mod model;
mod stage;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};

use model::{ALL, Edit, Model, PATHS, Way, name};
use stage::Stage;

/// With and without a watch so many, beside each other.
const CASES: u32 = 75;

const MAX_STEPS: usize = 10;

/// One step of a history.
#[derive(Debug, Clone)]
enum Step {
    /// A turn of the agent: what its calls do, each by a tool or by a command.
    Turn(Vec<(usize, Edit, bool)>),
    ByHand(usize, Edit),
    /// A command of the agent renames a file.
    Rename(usize, usize),
    Rewind {
        to: Index,
        whole: bool,
        /// Of these paths: taken, or else kept.
        chosen: Vec<(usize, bool)>,
    },
    /// Single paths, whoever changed them.
    Restore(Index, Vec<usize>),
    /// Takes the last rewind back, which may have been one of these itself.
    Redo,
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        4 => (0..3_usize).prop_map(Edit::Cell),
        2 => Just(Edit::All),
        2 => Just(Edit::Remove),
        2 => Just(Edit::Mode),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let path = || 0..PATHS.len();
    let call = (path(), edit(), prop::bool::weighted(0.2));
    let chosen = prop::collection::vec((path(), any::<bool>()), 0..2);
    let rewind = (any::<Index>(), prop::bool::weighted(0.15), chosen);
    prop_oneof![
        4 => prop::collection::vec(call, 1..4).prop_map(Step::Turn),
        3 => (path(), edit()).prop_map(|(path, edit)| Step::ByHand(path, edit)),
        2 => (path(), path()).prop_map(|(from, to)| Step::Rename(from, to)),
        4 => rewind.prop_map(|(to, whole, chosen)| Step::Rewind { to, whole, chosen }),
        1 => (any::<Index>(), prop::collection::vec(path(), 1..3))
            .prop_map(|(to, paths)| Step::Restore(to, paths)),
        2 => Just(Step::Redo),
    ]
}

async fn play(steps: &[Step], is_watched: bool) -> Result<(), TestCaseError> {
    let mut stage = Stage::new(is_watched);
    let mut model = Model::default();
    // The first snapshot.
    model.changed(0, Edit::All, Way::Tool);
    stage.turn(&[(0, false, model.now(0).clone(), false)]).await;
    model.reached(stage.place());
    for (at, step) in steps.iter().enumerate() {
        match step {
            Step::Turn(calls) => {
                for (path, edit, by_shell) in calls {
                    let by = if *by_shell { Way::Command } else { Way::Tool };
                    // No tool removes a file or changes its mode.
                    let edit = match (by, edit) {
                        (Way::Tool, Edit::Remove | Edit::Mode) => Edit::All,
                        _ => *edit,
                    };
                    let had = model.now(*path).clone();
                    model.changed(*path, edit, by);
                    let call = (*path, had.is_some(), model.now(*path).clone(), *by_shell);
                    stage.turn(&[call]).await;
                }
                model.reached(stage.place());
            }
            Step::ByHand(path, edit) => {
                model.changed(*path, *edit, Way::Hand);
                stage.put(*path, model.now(*path).as_ref());
            }
            Step::Rename(from, to) => {
                if from != to && model.now(*from).is_some() {
                    model.renamed(*from, *to);
                    stage.rename(*from, *to).await;
                    model.reached(stage.place());
                }
            }
            Step::Rewind { to, whole, chosen } => {
                let place = model.places[to.index(model.places.len())].clone();
                let plan = model.rewound(&place, *whole, chosen, None);
                stage.rewind(Some(place.seq), *whole, chosen, None).await;
                model.set_back(plan);
                model.reached(stage.place());
            }
            Step::Restore(to, paths) => {
                let place = model.places[to.index(model.places.len())].clone();
                let plan = model.rewound(&place, true, &[], Some(paths));
                stage.rewind(Some(place.seq), true, &[], Some(paths)).await;
                model.set_back(plan);
                model.reached(stage.place());
            }
            Step::Redo => {
                let Some(before) = model.before_last.clone() else {
                    continue;
                };
                let plan = model.rewound(&before, false, &[], None);
                stage.rewind(None, false, &[], None).await;
                model.set_back(plan);
                model.reached(stage.place());
            }
        }
        for path in 0..ALL {
            prop_assert_eq!(
                stage.get(path),
                model.now(path).clone(),
                "{} after step {}: {:?}\n{}",
                name(path),
                at,
                step,
                stage.log()
            );
        }
        stage.check_the_rest();
    }
    Ok(())
}

#[test]
fn after_any_history_each_file_is_what_the_model_says() {
    histories(false);
}

/// The same where the kernel tells what changes.
#[test]
fn after_any_history_that_is_watched_each_file_is_what_the_model_says() {
    histories(true);
}

fn histories(is_watched: bool) {
    let cases = std::env::var("REWAKE_REWIND_CASES").ok();
    let cases = cases.and_then(|n| n.parse().ok()).unwrap_or(CASES);
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 1_000,
        ..Config::default()
    };
    let histories = prop::collection::vec(step(), 1..MAX_STEPS);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let played = TestRunner::new(config).run(&histories, |steps| {
        runtime.block_on(play(&steps, is_watched))
    });
    if let Err(error) = played {
        panic!("{error}");
    }
}
