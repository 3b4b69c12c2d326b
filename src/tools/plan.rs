//! `plan`: the task list of the model. It is stored in the log, not in a file.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::ToolResult;
use super::schema::{array, object, one_of, string};
use super::shown::{Shown, ShownBody, ShownResult, Verb};
use super::tool::Tool;
use super::work::Work;
use crate::core::entry::{Fact, Plan, PlanStep, StepState};
use crate::core::permission::Permission;
use crate::core::text;

const MAX_STEPS: usize = 100;
const MAX_TEXT_BYTES: usize = 1_000;

#[derive(Serialize, Deserialize)]
pub(super) struct Args {
    steps: Vec<PlanStepArgs>,
    #[serde(default)]
    goals: Vec<String>,
}

/// A step as the model writes it. [`schema::named`](super::schema::named) renames the values of
/// older versions, `state` with done, current and left, to these.
#[derive(Serialize, Deserialize)]
struct PlanStepArgs {
    text: String,
    status: Status,
}

/// The statuses that the model sees: those of [`StepState::status`].
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Pending,
    InProgress,
    Completed,
}

impl From<Status> for StepState {
    fn from(status: Status) -> StepState {
        match status {
            Status::Pending => StepState::Left,
            Status::InProgress => StepState::Current,
            Status::Completed => StepState::Done,
        }
    }
}

impl Tool for Args {
    const NAME: &'static str = "plan";
    const TEXT: &'static str = include_str!("../../assets/tools/plan.md");
    const VERB: Verb = Verb::Plan;

    fn schema() -> Value {
        let status =
            one_of(&[StepState::Left, StepState::Current, StepState::Done].map(StepState::status));
        let step = object(
            json!({"text": string(), "status": status}),
            &["text", "status"],
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
            body: ShownBody::Plan(self.plan()),
            result: ShownResult::LastLines,
            ..Shown::default()
        }
    }

    fn work(self) -> Work {
        Work::Look(Box::new(move |_, _| run(&self)))
    }
}

impl Args {
    /// Returns the plan. It has at most one current step: the first that is marked as such.
    fn plan(&self) -> Plan {
        let mut seen = false;
        let steps = self
            .steps
            .iter()
            .map(|s| {
                let state = match s.status.into() {
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

fn run(args: &Args) -> ToolResult {
    if args.steps.len() > MAX_STEPS || args.goals.len() > MAX_STEPS {
        return ToolResult::error(format!("a plan has at most {MAX_STEPS} steps and goals"));
    }
    let mut texts = args.steps.iter().map(|s| &s.text).chain(&args.goals);
    if texts.any(|t| t.trim().is_empty() || t.len() > MAX_TEXT_BYTES) {
        return ToolResult::error(format!(
            "each step and goal has 1 to {MAX_TEXT_BYTES} bytes of text"
        ));
    }
    let plan = args.plan();
    let count = |state| plan.steps.iter().filter(|s| s.state == state).count();
    let counts = [StepState::Done, StepState::Current, StepState::Left]
        .map(|state| format!("{} {}", count(state), state.status()));
    let text = format!("plan: {}", counts.join(", "));
    ToolResult::done(text).with(Some(Fact::Planned { plan }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::test_support::{ResultRoom, done, error};
    use super::*;

    #[test]
    fn a_plan_is_counted_and_stored_under_the_names_of_the_log() {
        let ran = ResultRoom::new().idempotent(
            "plan",
            json!({"steps": [
                {"text": "look", "status": "completed"},
                {"text": "fix", "status": "in_progress"},
                {"text": "test", "status": "pending"},
            ], "goals": ["green"]}),
        );
        assert_eq!(done(&ran), "plan: 1 completed, 1 in_progress, 1 pending");
        let Some(Fact::Planned { plan }) = &ran.fact else {
            panic!("{:?}", ran.fact);
        };
        assert_eq!(
            serde_json::to_value(plan).unwrap(),
            json!({"steps": [
                {"text": "look", "state": "done"},
                {"text": "fix", "state": "current"},
                {"text": "test", "state": "left"},
            ], "goals": ["green"]})
        );
    }

    #[test]
    fn the_names_of_older_versions_and_of_other_agents_are_understood() {
        for name in ["state", "status"] {
            let steps = ["done", "current", "left", "todo", "In-Progress", "pending"]
                .map(|status| json!({"content": "a step", name: status}));
            let ran = ResultRoom::new().idempotent("plan", json!({ "todos": steps }));
            assert_eq!(done(&ran), "plan: 1 completed, 1 in_progress, 4 pending");
        }
    }

    #[test]
    fn a_plan_has_bounds() {
        let room = ResultRoom::new();
        let steps = |text: &str, count| vec![json!({"text": text, "status": "pending"}); count];
        let plan =
            |text: &str, count| room.idempotent("plan", json!({"steps": steps(text, count)}));
        assert!(error(&plan("x", 101)).contains("100"));
        assert!(error(&plan(" ", 1)).contains("text"));
        assert!(error(&plan(&"x".repeat(1_001), 1)).contains("text"));
        assert_eq!(
            done(&plan("x", 0)),
            "plan: 0 completed, 0 in_progress, 0 pending"
        );
    }

    #[test]
    fn a_plan_has_one_current_step() {
        let step = |text: &str| PlanStepArgs {
            text: text.into(),
            status: Status::InProgress,
        };
        let plan = Args {
            steps: vec![step("a"), step("b")],
            goals: vec![],
        }
        .plan();
        assert_eq!(plan.steps[1].state, StepState::Left);
        assert_eq!(plan.current().map(|s| s.text.as_str()), Some("a"));
    }
}
