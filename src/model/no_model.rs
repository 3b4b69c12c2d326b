//! Recognizes that a server refuses the model itself: it does not know it, has retired it, or does
//! not give it to this key. Another model then helps, and nothing else does.
//!
//! Sources, all passed on by routers too: OpenAI (`model_not_found` with 400, 403 or 404),
//! Anthropic (404 `not_found_error`, "model: NAME"), Gemini ("models/NAME is not found for API
//! version v1beta"), Azure (`DeploymentNotFound`), Vertex ("Publisher Model … was not found"),
//! Bedrock ("The provided model identifier is invalid", "has reached the end of its life"), Groq
//! (`model_decommissioned`), Together (`model_not_available`), Mistral ("Invalid model: NAME"),
//! DeepSeek ("Model Not Exist"), Moonshot ("Not found the model NAME or Permission denied"), Z.ai
//! ("Unknown Model"), OpenRouter ("not a valid model ID", "No endpoints found for NAME"), LiteLLM
//! ("Invalid model name passed in", "not allowed to access model"), vLLM ("The model `NAME` does
//! not exist."), Ollama and llama.cpp ("model 'NAME' not found"), LM Studio ("Invalid model
//! identifier").
//!
//! Invariant: another 404 is none of these. An address that does not exist is an error of
//! `base_url`, and says nothing about a model.

/// Codes of an error, in lower case. A bar separates the items of each list.
const CODES: &str = "model_not_found|modelnotfound|invalid_model|deploymentnotfound|model_not_supported|\
    model_not_available|model_decommissioned|model_deprecated|\
    model_permission_blocked_org|model_permission_blocked_project|\
    key_model_access_denied|team_model_access_denied";

/// Words that mean it whatever the status is.
const CLEAR: &str = "model not found|model not exist|not a valid model|invalid model:|invalid model name|\
    invalid model identifier|model identifier is invalid|\
    could not resolve the foundation model|unknown model|no such model|\
    no endpoints found for|no endpoints found matching|\
    no allowed providers are available|allowed to access model|have access to model|\
    access to the model|is not found for api version|marked by provider as legacy";

/// Words about a model that is not there.
const STATES: &str = "not found|not exist|doesn't exist|no longer exists|could not find|cannot find|\
    couldn't find|been deprecated|is deprecated|was deprecated|retired|decommissioned|\
    discontinued|shut down|been removed|no longer available|no longer supported|\
    end of life|end-of-life|end of its life|not available|isn't available|not supported|\
    not deployed|not enabled|not authorized|unable to access|have access|has access";

/// Subjects of other errors that also name a model, and marks of an error page. A model that is
/// only busy comes back.
const OTHER: &str = "<html|<!doctype|url|cannot post|no route|page not found|parameter|argument|field|\
    header|temperature|top_p|tool|function|image|audio|thinking|reasoning|effort|schema|\
    tokens|temporar|overload|demand|try again";

/// Maximum distance between a model and the words about it. Names of models are long.
const NEAR_BYTES: usize = 160;

/// Returns whether this error refuses the model. `codes` are in lower case; `parameter` is the part
/// of the request that the error names.
pub(super) fn is_refused(
    status: u16,
    codes: &[String],
    parameter: Option<&str>,
    words: &str,
) -> bool {
    let text = words.to_lowercase();
    let is_code = |code: &String| CODES.split('|').any(|known| known == code);
    if codes.iter().any(is_code) || says(&text, CLEAR) {
        return true;
    }
    let is_of_another = |name: &str| !["model", "none"].contains(&name);
    let text = without_names(&text);
    if parameter.is_some_and(is_of_another) || says(&text, OTHER) {
        return false;
    }
    let Some(subject) = text.find("model").or_else(|| text.find("deployment")) else {
        return false;
    };
    let is_near = |at: usize| at.saturating_sub(subject) <= NEAR_BYTES;
    match status {
        404 | 410 => {
            let is_coded = codes.iter().any(|code| code.contains("not_found"));
            is_coded || parameter == Some("model") || says(&text, STATES)
        }
        // The subject of the sentence is the model: "… is not supported for this model" is not.
        400 | 403 | 422 => STATES
            .split('|')
            .filter_map(|state| text.find(state))
            .any(|at| at > subject && is_near(at)),
        _ => false,
    }
}

/// Returns whether the text has one of these words, which a bar separates.
fn says(text: &str, words: &str) -> bool {
    words.split('|').any(|words| text.contains(words))
}

/// Returns the text without words that are quoted, contain a digit or are a path: the name of a
/// model may contain any word.
fn without_names(text: &str) -> String {
    let is_name = |word: &&str| {
        let word = word.trim_start_matches('(');
        word.starts_with(['`', '\'', '"', '‘', '“'])
            || word.contains('/')
            || word.bytes().any(|b| b.is_ascii_digit())
    };
    let words: Vec<&str> = text.split_whitespace().filter(|w| !is_name(w)).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests;
