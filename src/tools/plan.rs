//! The task list of the model: it is kept in the log, not in a file.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Ran;
use super::schema::{array, object, one_of, string};
use super::shown::{Body, Shown, ShownResult, Verb};
use super::tool::Tool;
use super::work::Work;
use crate::core::entry::{Fact, Plan, PlanStep, StepState};
use crate::core::permission::Permission;
use crate::core::text;

const MAX_STEPS: usize = 100;
const MAX_TEXT_BYTES: usize = 1_000;

#[derive(Serialize, Deserialize)]
pub(super) struct Args {
    steps: Vec<PlanStep>,
    #[serde(default)]
    goals: Vec<String>,
}

impl Tool for Args {
    const NAME: &'static str = "plan";
    const TEXT: &'static str = include_str!("../../assets/tools/plan.md");
    const VERB: Verb = Verb::Plan;

    fn schema() -> Value {
        let state = one_of(&["done", "current", "left"]);
        let step = object(
            json!({"text": string(), "state": state}),
            &["text", "state"],
        );
        let properties = json!({"steps": array(step), "goals": array(string())});
        object(properties, &["steps"])
    }

    fn subject(&self) -> String {
        text::count(self.steps.len(), "step")
    }

    fn permission(&self) -> Permission {
        Permission::None
    }

    fn shown(self) -> Shown {
        Shown {
            body: Body::Plan(self.plan()),
            result: ShownResult::LastLines,
            ..Shown::default()
        }
    }

    fn work(self) -> Work {
        Work::Look(Box::new(move |_, _| run(&self)))
    }
}

impl Args {
    /// The plan, with at most one current step: the first that says so.
    fn plan(&self) -> Plan {
        let mut seen = false;
        let steps = self
            .steps
            .iter()
            .map(|s| {
                let state = match s.state {
                    StepState::Current if seen => StepState::Left,
                    state => state,
                };
                seen |= state == StepState::Current;
                PlanStep {
                    text: s.text.clone(),
                    state,
                }
            })
            .collect();
        Plan {
            steps,
            goals: self.goals.clone(),
        }
    }
}

fn run(args: &Args) -> Ran {
    if args.steps.len() > MAX_STEPS || args.goals.len() > MAX_STEPS {
        return Ran::error(format!("a plan has at most {MAX_STEPS} steps and goals"));
    }
    let mut texts = args.steps.iter().map(|s| &s.text).chain(&args.goals);
    if texts.any(|t| t.trim().is_empty() || t.len() > MAX_TEXT_BYTES) {
        return Ran::error(format!(
            "each step and goal has 1 to {MAX_TEXT_BYTES} bytes of text"
        ));
    }
    let plan = args.plan();
    let count = |state| plan.steps.iter().filter(|s| s.state == state).count();
    let text = format!(
        "plan: {} done, {} current, {} left",
        count(StepState::Done),
        count(StepState::Current),
        count(StepState::Left)
    );
    Ran::done(text).with(Some(Fact::Planned { plan }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::support::{Room, done, error};
    use super::*;

    #[test]
    fn a_plan_is_counted_and_kept() {
        let ran = Room::new().idempotent(
            "plan",
            json!({"steps": [
                {"text": "look", "state": "done"},
                {"text": "fix", "state": "current"},
                {"text": "test", "state": "left"},
            ], "goals": ["green"]}),
        );
        assert_eq!(done(&ran), "plan: 1 done, 1 current, 1 left");
        let Some(Fact::Planned { plan }) = &ran.fact else {
            panic!("{:?}", ran.fact);
        };
        assert_eq!(plan.current().unwrap().text, "fix");
        assert_eq!(plan.goals, ["green"]);
    }

    #[test]
    fn other_names_of_states_are_understood() {
        let steps = ["completed", "in_progress", "pending", "todo"]
            .map(|state| json!({"text": "a step", "state": state}));
        let ran = Room::new().idempotent("plan", json!({ "steps": steps }));
        assert_eq!(done(&ran), "plan: 1 done, 1 current, 2 left");
    }

    #[test]
    fn a_plan_has_bounds() {
        let room = Room::new();
        let steps = |text: &str, count| vec![json!({"text": text, "state": "left"}); count];
        let plan =
            |text: &str, count| room.idempotent("plan", json!({"steps": steps(text, count)}));
        assert!(error(&plan("x", 101)).contains("100"));
        assert!(error(&plan(" ", 1)).contains("text"));
        assert!(error(&plan(&"x".repeat(1_001), 1)).contains("text"));
        assert_eq!(done(&plan("x", 0)), "plan: 0 done, 0 current, 0 left");
    }

    #[test]
    fn a_plan_has_one_current_step() {
        let step = |text: &str, state| PlanStep {
            text: text.into(),
            state,
        };
        let plan = Args {
            steps: vec![step("a", StepState::Current), step("b", StepState::Current)],
            goals: vec![],
        }
        .plan();
        assert_eq!(plan.steps[1].state, StepState::Left);
        assert_eq!(plan.current().map(|s| s.text.as_str()), Some("a"));
    }
}
