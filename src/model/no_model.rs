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

/// Parts of a code, of which only the letters count, that mean it together with `model`. A bar separates the items of
/// each list.
const CODE_STATES: &str = "notfound|notexist|notavailable|notsupported|notopen|notallowed|notenabled|notactiv|\
    unavailable|unsupported|unknown|unrecogni|invalidmodel|nosuch|noaccess|denied|blocked|deprecated|decommission|\
    retired|withdrawn|removed|archived|disabled|terms|permission|restricted|notentitled|notgranted|gone|eol|endoflife|\
    sunset|obsolete|gated";

/// Words that mean it whatever the status is.
const CLEAR: &str = "model not found|model not exist|not a valid model|invalid model:|invalid model name|\
    invalid model identifier|model identifier is invalid|does not work with the specified model|\
    could not resolve the foundation model|unknown model|no such model|\
    no endpoints found for|no endpoints found matching|\
    no allowed providers are available|allowed to access model|have access to model|unexpected model name|\
    access to the model|is not found for api version|marked by provider as legacy";

/// Words after a model that is not there, or not for this account.
const STATES: &str = "not found|not exist|no longer|not be found|not one of|not a supported|not a valid|not a known|\
    not recogni|not hosted|not serv|not offered|not accessible|not active|not provided|shut off|deprecated|retired|decommissioned|discontinued|shut down|sunset|removed|withdrawn|archived|\
    obsolete|superseded|turned off|end of |end-of-|end of its life|not available|unavailable|access denied|access is denied|not supported|\
    unsupported|not deployed|not enabled|disabled|blocked|not authorized|denied|forbidden|restricted|gated|inaccessible|\
    invalid|unknown|unrecognized|not included|not allowed|not permitted|cannot be used|has no deployment|\
    subscription|requires terms|requires a paid|upgrade|approval|only available";

/// Words before a model that deny it (`unsupported model`).
const ADJECTIVES: &str = "unsupported|invalid|unrecognized|unrecognised|unknown|unavailable|nonexistent|deprecated|\
    retired|disabled|bad|wrong|no such|not a known|not a valid|not a supported";

/// Words between a denial and a model (`no access to model`).
const GRANTS: &str = "access to|access for|permission to use|permission to access|permission for|allowed to use|\
    allowed to access|authorized to use|authorized to access|permitted to use|entitled to|eligible for|eligible to use|\
    subscribed to|activated|enabled|denied for|support|supports|include|offer|serve|host|find|recognize|recognise|provide";

/// Words about servers of a model, wherever they are.
const ABSENT: &str = "no router|no available|no provider|no channel|no deployment|no healthy|no upstream|no backend|no endpoint";

/// Nouns that a model describes, so that the error is about them (`invalid model key`).
const NOUNS: &str = "parameter|key|output|response|input|config|format|error|setting|option";

/// The words of all these lists in Chinese.
const CHINESE: &str = "不存在|未开通|未激活|下线|停用|禁用|未找到|找不到|无权|权限|不可用|不支持的模型|无效的模型|未知";

/// Subjects of other errors that also name a model, and marks of an error page. A model that is
/// only busy comes back.
const OTHER: &str = "<html|<!doctype|url|cannot post|no route |page not found|parameter|argument|field|\
    header|temperature|top_p|tool|function|image|audio|vision|multimodal|thinking|reasoning|effort|schema|prefill|caching|\
    tokens|context|too long|temporar|overload|high demand|try again|not ready|loading|loaded|service tier|service_tier|\
    quota|rate limit|too many requests|exceeded|content|filter|policy|flagged|safety|moderation|\
    expired|revoked|suspended|authenticat|credentials|signature|your api key and|\
    does not support|only supports|only supported in|compatible|available with |not allowed to use|messages|batch|\
    store|retention|adapter|暂";

/// Subjects of errors that stay what they are, whatever they say of a model.
const NEVER: &str = "ip address|invoice|the request |request body";

/// Returns whether this error refuses the model. `codes` are in lower case; `parameter` is the part
/// of the request that the error names; `model` is the name in the request, or empty.
pub(super) fn is_refused(
    status: u16,
    codes: &[String],
    parameter: Option<&str>,
    words: &str,
    model: &str,
) -> bool {
    let is_request = matches!(status, 400 | 401 | 403 | 404 | 410 | 422);
    let text = words.to_lowercase().replace('’', "'");
    let text = text.replace("n't", " not");
    let is_code = |code: &String| is_code_of_model(code, is_request);
    let is_vertex = text.contains("/models/") && text.contains("it may not exist");
    // Nothing but the status, and perhaps its name.
    let is_bare = status == 410 && (text.is_empty() || text == "gone" || text.starts_with('{'));
    if codes.iter().any(is_code) || says(&text, CLEAR) || is_vertex || is_bare {
        return true;
    }
    // The words of the sentence are then the same whatever the name is.
    let (text, is_named) = with_model(&text, model);
    let parameter = parameter.unwrap_or("none").replace('_', "");
    let is_model = ["model", "modelid", "modelname"].contains(&&*parameter);
    let is_of_another = !is_model && parameter != "none";
    let text = without_names(&text);
    // Some gateways send the error of another server as their own.
    let is_passed_on = is_named && says(&text, "not exist|not found") && !says(&text, OTHER);
    if !is_request || is_of_another || says(&text, NEVER) {
        return status == 500 && is_passed_on && !is_of_another;
    }
    let nouns = ["model", "deployment"];
    let subjects = nouns.iter().flat_map(|noun| text.match_indices(noun));
    let subjects: Vec<usize> = subjects.map(|(at, _)| at).collect();
    if subjects.iter().any(|at| is_denied(&text, *at)) {
        return true;
    }
    if says(&text, OTHER) {
        return false;
    }
    let is_chinese = (is_named || text.contains("模型")) && says(&text, CHINESE);
    if is_model || is_chinese || (!subjects.is_empty() && says(&text, ABSENT)) {
        return true;
    }
    let mut subjects = subjects.iter().filter(|at| is_subject(&text, **at));
    match status {
        404 | 410 => subjects.next().is_some_and(|_| {
            let is_coded = codes.iter().any(|code| code.contains("not_found"));
            is_named || status == 410 || is_coded || says(&text, STATES)
        }),
        _ => subjects.any(|at| is_gone(&text[*at..])),
    }
}

/// Returns whether the model at this place is what a sentence is about: in "… is not supported for this model" it is not.
fn is_subject(text: &str, at: usize) -> bool {
    let before = text[..at].trim_end_matches("model ");
    let before = before.trim_end_matches("the ").trim_end_matches("this ");
    let mut words = "for |with |by |using |on ".split('|');
    !words.any(|word| before.ends_with(word))
}

/// Returns whether the clause that begins with a model, or the one after its colon, says that it is not there.
fn is_gone(text: &str) -> bool {
    let after = text.trim_start_matches(char::is_alphabetic).trim_start();
    let mut clauses = after.split([':', ';', ',', '.']);
    let first = clauses.next().unwrap_or_default();
    let next = clauses.next().unwrap_or_default().trim_start();
    let is_name = first.split_whitespace().count() <= 1;
    !begins(after, NOUNS) && (says(first, STATES) || (is_name && begins(next, STATES)))
}

/// Returns whether the words before a model deny it: `unsupported model`, `no access to the requested model`.
fn is_denied(text: &str, at: usize) -> bool {
    const FILLERS: &str = "the|this|that|requested|specified|selected|foundation|any|following";
    let after = text[at..].trim_start_matches(char::is_alphabetic);
    let mut before = text[..at].trim_end();
    let short = |before: &str| {
        let mut fillers = FILLERS.split('|');
        fillers.find_map(|word| Some(before.strip_suffix(word)?.trim_end().len()))
    };
    while let Some(length) = short(before) {
        before = &before[..length];
    }
    let ends = |words: &str| words.split('|').any(|words| before.ends_with(words));
    // `access to Claude m-old`
    let short = before.rsplit_once(' ').map_or("", |(before, _)| before);
    let is_denied =
        (ends(GRANTS) || short.ends_with("access to")) && says(text, "no |not |unable|denied|lack");
    (ends(ADJECTIVES) || is_denied) && !begins(after.trim_start(), NOUNS)
}

/// Returns whether a code such as `Model.AccessDenied` means a model that is not there. Some gateways send it with the
/// status of a busy server.
fn is_code_of_model(code: &str, is_request: bool) -> bool {
    let letters: String = code.chars().filter(char::is_ascii_alphabetic).collect();
    let is_of_another = || says(&letters, "parameter|input|tool|feature|output");
    says(&letters, "modelnotfound|deploymentnotfound")
        || (is_request
            && letters.contains("model")
            && says(&letters, CODE_STATES)
            && !is_of_another())
}

/// Returns whether a text names the model.
pub(super) fn is_named(text: &str, model: &str) -> bool {
    with_model(&text.to_lowercase(), model).1
}

/// Returns a text in lower case with the word `model` instead of the name of the model, and whether it was there as a
/// whole word. Gateways leave out what is before the last `/`.
fn with_model(text: &str, model: &str) -> (String, bool) {
    let model = model.to_lowercase();
    let last = model.rsplit('/').next().unwrap_or_default();
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '/' | '@');
    let (mut out, mut rest, mut is_named) = (String::new(), text, false);
    while !last.is_empty()
        && let Some(at) = rest.find(last)
    {
        let start = rest[..at].strip_suffix(&model[..model.len() - last.len()]);
        let before = start.unwrap_or(&rest[..at]);
        let after = &rest[at + last.len()..];
        // A full stop and a colon may end a sentence.
        let next = after.trim_start_matches(['.', ':']);
        let is_word = !before.ends_with(is_part) && !next.starts_with(is_part);
        is_named |= is_word;
        if is_word {
            let quotes = ['\'', '"', '`'];
            out.push_str(before.trim_end_matches(quotes));
            out.push_str("model");
            rest = after.trim_start_matches(quotes);
        } else {
            out.push_str(&rest[..at + last.len()]);
            rest = after;
        }
    }
    out.push_str(rest);
    (out, is_named)
}

/// Returns whether the text has one of these words, which a bar separates.
fn says(text: &str, words: &str) -> bool {
    words.split('|').any(|words| text.contains(words))
}

/// Returns whether the text begins with one of these words.
fn begins(text: &str, words: &str) -> bool {
    words.split('|').any(|words| text.starts_with(words))
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
