//! stub, merged later
#[derive(Debug, Clone, PartialEq)]
pub struct Rule;
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    Allow,
    Ask { why: String, rule: Option<Rule> },
    Deny { reason: String },
}
