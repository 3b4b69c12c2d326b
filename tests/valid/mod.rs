//! What every request must be, whoever asks.

use rewake::core::request::{Message, MessagePart, Role};

/// The rules of the strictest provider.
pub fn assert_valid(messages: &[Message]) {
    let mut ids = std::collections::BTreeSet::new();
    let mut asked: Vec<String> = Vec::new();
    for (place, message) in messages.iter().enumerate() {
        let want = if place % 2 == 0 {
            Role::User
        } else {
            Role::Assistant
        };
        assert_eq!(message.role, want, "roles alternate and the user begins");
        assert!(!message.parts.is_empty(), "no message is empty");
        let answered: Vec<String> = message
            .parts
            .iter()
            .take_while(|p| matches!(p, MessagePart::Result { .. }))
            .filter_map(|p| match p {
                MessagePart::Result { id, .. } => Some(id.clone()),
                _ => None,
            })
            .collect();
        assert_eq!(
            answered, asked,
            "each call has one result, directly after, in order"
        );
        asked.clear();
        for part in message.parts.iter().skip(answered.len()) {
            match part {
                MessagePart::Text { text, .. } => {
                    assert!(!text.trim().is_empty(), "no text is empty")
                }
                MessagePart::Result { .. } => panic!("a result behind other parts"),
                MessagePart::Call { id, arguments, .. } => {
                    assert_eq!(message.role, Role::Assistant);
                    assert!(arguments.is_object());
                    assert!(ids.insert(id.clone()), "ids are unique");
                    asked.push(id.clone());
                }
                MessagePart::Thinking { .. } => assert_eq!(message.role, Role::Assistant),
                MessagePart::Image { .. } => assert_eq!(message.role, Role::User),
            }
        }
    }
    assert!(asked.is_empty(), "no call is left without a result");
}
