//! The plan after a compaction or a continuation: verbatim as long as it fits.

use super::entry::{Plan, PlanStep, Seq, StepState};
use super::text::clip;

/// Size in bytes to which a step is cut if it does not fit.
const SHORT_BYTES: usize = 100;

/// Renders the plan in at most about `room` bytes. If it does not fit verbatim, the goals and the
/// pending steps remain, and the entry `at` has the rest. Returns `None` for an empty plan.
pub(crate) fn to_text(plan: &Plan, at: Option<Seq>, room: usize) -> Option<String> {
    if plan.steps.is_empty() && plan.goals.is_empty() {
        return None;
    }
    let whole = lines(plan, usize::MAX);
    if bytes(&whole) <= room {
        return Some(whole.concat());
    }
    // A goal may be a rule, so it is worth more than the words of a step.
    let short = lines(plan, SHORT_BYTES);
    if bytes(&short) <= room {
        return Some(short.concat() + &rest("cut", at));
    }
    Some(cut(plan, at, room))
}

fn bytes(lines: &[String]) -> usize {
    lines.iter().map(String::len).sum()
}

/// Renders the goals first and verbatim, since they apply to all steps. Each step is cut to `max`.
fn lines(plan: &Plan, max: usize) -> Vec<String> {
    let goals = plan.goals.iter().map(|goal| goal_line(goal, usize::MAX));
    goals
        .chain(plan.steps.iter().map(|step| line(step, max)))
        .collect()
}

fn line(step: &PlanStep, max: usize) -> String {
    format!("- [{}] {}\n", step.state.status(), flat(&step.text, max))
}

fn goal_line(goal: &str, max: usize) -> String {
    format!("- goal: {}\n", flat(goal, max))
}

fn flat(text: &str, max: usize) -> String {
    match text.lines().count() {
        0 | 1 => clip(text.trim(), max).into_owned(),
        _ => clip(&text.split_whitespace().collect::<Vec<_>>().join(" "), max).into_owned(),
    }
}

fn rest(what: &str, at: Option<Seq>) -> String {
    match at {
        Some(at) => format!("- [{what}: the whole plan is in entry {at}]\n"),
        None => format!("- [{what}]\n"),
    }
}

/// Renders the current step, the goals and the next steps, as many as fit.
fn cut(plan: &Plan, at: Option<Seq>, room: usize) -> String {
    let of = |state| plan.steps.iter().filter(move |s| s.state == state);
    let mut left = room.saturating_sub(120);
    let mut text = String::new();
    // The goals are verbatim if they fit in half of the room.
    let goals: usize = plan
        .goals
        .iter()
        .map(|goal| goal_line(goal, usize::MAX).len())
        .sum();
    let max = if goals <= room / 2 {
        usize::MAX
    } else {
        SHORT_BYTES
    };
    let wanted = of(StepState::Current)
        .map(|step| line(step, SHORT_BYTES))
        .chain(plan.goals.iter().map(|goal| goal_line(goal, max)))
        .chain(of(StepState::Left).map(|step| line(step, SHORT_BYTES)));
    for line in wanted {
        // The current step is always included.
        if !text.is_empty() && line.len() > left {
            break;
        }
        left = left.saturating_sub(line.len());
        text.push_str(&line);
    }
    let count = of(StepState::Done).count();
    text + &rest(
        &format!("{} steps, {count} of them completed", plan.steps.len()),
        at,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(steps: usize) -> Plan {
        let step = |n: usize| PlanStep {
            text: format!("step {n} {}", "of many words ".repeat(10)),
            state: match n.cmp(&50) {
                std::cmp::Ordering::Less => StepState::Done,
                std::cmp::Ordering::Equal => StepState::Current,
                std::cmp::Ordering::Greater => StepState::Left,
            },
        };
        Plan {
            steps: (0..steps).map(step).collect(),
            goals: vec!["no test is changed".into()],
        }
    }

    #[test]
    fn a_plan_that_fits_is_verbatim() {
        let text = to_text(&plan(3), Some(7), 10_000).unwrap();
        assert!(
            text.starts_with("- goal: no test is changed\n- [completed] step 0 of many"),
            "{text}"
        );
        assert!(text.contains(plan(3).steps[2].text.trim()), "{text}");
        assert_eq!(to_text(&Plan::default(), None, 100), None);
    }

    #[test]
    fn goals_stand_verbatim_while_steps_are_cut() {
        let rule = format!("no table is dropped {}", "without a question ".repeat(8));
        for (steps, room) in [(8, 1_000), (200, 1_000), (200, 5_000)] {
            let plan = Plan {
                goals: vec![rule.clone()],
                ..plan(steps)
            };
            let text = to_text(&plan, Some(7), room).unwrap();
            assert!(text.contains(rule.trim()), "{steps} {room}: {text}");
            assert!(text.len() <= room + 100, "{text}");
        }
    }

    #[test]
    fn a_shortened_plan_keeps_the_current_step_and_the_entry_number() {
        for room in [300, 1_000, 5_000] {
            let text = to_text(&plan(200), Some(7), room).unwrap();
            assert!(text.len() <= room + 100, "{room}: {text}");
            for part in [
                "[in_progress] step 50",
                "entry 7",
                "goal: no test is changed",
            ] {
                assert!(text.contains(part), "{room} {part}: {text}");
            }
        }
    }
}
