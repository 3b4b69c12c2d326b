//! Tests of errors that say that a request is too long.

use crate::core::entry::FailureClass::{self, *};
use crate::model::errors::classify;

#[track_caller]
fn check(status: u16, body: &str, want: impl Fn(FailureClass) -> bool) {
    let class = classify(status, body, "").class;
    assert!(want(class), "{status} {body}: {class:?}");
}

/// As their servers sent them.
#[test]
fn every_provider_is_understood_over_every_protocol() {
    let bodies = [
        // Anthropic
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 3333404 tokens > 200000 maximum"},"request_id":"req_1"}"#,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length or `max_tokens` and try again"}}"#,
        // OpenAI
        r#"{"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again.","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}"#,
        r#"{"error":{"message":"This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.","type":"invalid_request_error","param":"messages","code":null}}"#,
        r#"{"error":{"message":"Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 509178 tokens. Please reduce the length of the messages.","code":null}}"#,
        r#"{"error":{"message":"Invalid 'messages[1].content': string too long. Expected a string with maximum length 10485760, but instead got a string with length 15400820 instead.","type":"invalid_request_error","code":"string_above_max_length"}}"#,
        // DeepSeek
        r#"{"error":{"message":"This model's maximum context length is 1048565 tokens. However, you requested 1250025 tokens (1250025 in the messages, 0 in the completion). Please reduce the length of the messages or completion.","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}"#,
        // Gemini and Vertex
        r#"{"error":{"code":400,"message":"The input token count (1250074) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}"#,
        r#"[{"error":{"code":400,"message":"Unable to submit request because the input token count is 2000000 but model only supports up to 1048576. Reduce the input token count and try again.","status":"INVALID_ARGUMENT"}}]"#,
        r#"{"error":{"code":400,"message":"Request payload size exceeds the limit: 20971520 bytes.","status":"INVALID_ARGUMENT"}}"#,
        // Ollama
        r#"{"error":{"message":"prompt too long; exceeded max context length by 1119046 tokens (ref: 96164522-08b2-4cbf-886e-e5a38961a688)","type":"invalid_request_error","param":null,"code":null}}"#,
        r#"{"error":"the input length exceeds the context length"}"#,
        // OpenRouter
        r#"{"error":{"message":"This endpoint's maximum context length is 200000 tokens. However, you requested about 2500021 tokens (2500021 of text input). Please reduce the length of either one, or use the context-compression plugin to compress your prompt automatically.","code":400,"metadata":{"provider_name":null}}}"#,
        r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"prompt is too long: 210000 tokens > 200000 maximum\"}}","provider_name":"X"}}}"#,
        // Perplexity
        r#"{"error":{"message":"The total length of all messages is too long.","type":"too_many_prompt_tokens","code":400}}"#,
        // xAI
        r#"{"code":"invalid-argument","error":"This model's maximum prompt length is 131072 but the request contains 537812 tokens."}"#,
        // Mistral
        r#"{"object":"error","message":"Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768 maximum context length","type":"invalid_request_prompt","param":null,"code":"3051"}"#,
        // Groq, Cerebras
        r#"{"error":{"message":"Please reduce the length of the messages or completion.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
        r#"{"message":"Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}"#,
        // llama.cpp
        r#"{"error":{"code":400,"message":"request (9345 tokens) exceeds the available context size (8192 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":9345,"n_ctx":8192}}"#,
        // vLLM, SGLang, text-generation-inference, TabbyAPI
        r#"{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4000 in the messages, 1000 in the completion). Please reduce the length of the messages or completion.","type":"BadRequestError","param":null,"code":400}"#,
        r#"{"error":{"message":"'max_tokens' or 'max_completion_tokens' is too large: 32000. This model's maximum context length is 4096 tokens and your request has 30 input tokens (32000 > 4096 - 30). None","type":"BadRequestError","param":null,"code":400}}"#,
        r#"{"error":{"message":"The decoder prompt (length 9000) is longer than the maximum model length of 4096. Make sure that `max_model_len` is no smaller than the number of text tokens."}}"#,
        r#"{"object":"error","message":"Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total of 5000 tokens.","type":"BadRequest","code":400}"#,
        r#"{"error":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens and 1000 `max_new_tokens`","error_type":"validation"}"#,
        r#"{"detail":"Prompt length 9000 is greater than max_seq_len 4096"}"#,
        // LM Studio
        "Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough.",
        r#"{"error":"Reached context length of 4096 tokens with this model, but this model does not currently support mid-generation context overflow."}"#,
        // Bedrock, also through LiteLLM
        r#"{"message":"Input is too long for requested model."}"#,
        r#"{"error":{"message":"litellm.ContextWindowExceededError: litellm.BadRequestError: BedrockException: Context Window Error - too long","type":null,"param":null,"code":"400"}}"#,
        // GitHub, Kimi, MiniMax, Z.ai, Qwen, Cohere, Cloudflare
        r#"{"error":{"message":"prompt token count of 135355 exceeds the limit of 128000","code":"model_max_prompt_tokens_exceeded"}}"#,
        r#"{"error":{"message":"Invalid request: Your request exceeded model token limit: 262144 (requested: 270000)","type":"invalid_request_error"}}"#,
        r#"{"type":"error","error":{"type":"bad_request_error","message":"invalid params, context window exceeds limit (2013)","http_code":"400"}}"#,
        r#"{"error":{"code":"1261","message":"Prompt exceeds max length"}}"#,
        r#"{"error":{"code":"invalid_parameter_error","message":"Range of input length should be [1, 98304]","type":"invalid_request_error"}}"#,
        r#"{"message":"too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5292. Try using a shorter prompt, or enable prompt truncating."}"#,
        r#"{"errors":[{"message":"AiError: The estimated number of input and maximum output tokens (9000) exceeded this model context window limit (8192).","code":5021}]}"#,
    ];
    for body in bodies {
        check(400, body, |class| class == TooLong);
    }
    let others = [
        (
            500,
            r#"{"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}}"#,
        ),
        (
            500,
            r#"{"error":{"code":500,"message":"the request exceeds the available context size. try increasing the context size or enable context shift","type":"server_error"}}"#,
        ),
        (
            422,
            r#"{"detail":[{"type":"value_error","loc":["body"],"msg":"Value error, the prompt is longer than the context length of 4096","input":{}}]}"#,
        ),
        (413, "<html>413 Request Entity Too Large</html>"),
        (
            413,
            r#"{"error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#,
        ),
        (
            413,
            r#"{"error":{"message":"Request too large for model `llama-3.3-70b-versatile` on tokens per minute (TPM): Limit 12000, Requested 31560, please reduce your message size and try again.","type":"tokens","code":"rate_limit_exceeded"}}"#,
        ),
        (
            429,
            r#"{"error":{"message":"Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 40000.","type":"tokens","code":"rate_limit_exceeded"}}"#,
        ),
    ];
    for (status, body) in others {
        check(status, body, |class| class == TooLong);
    }
    let far_behind = format!(
        r#"{{"error":{{"message":"{} prompt is too long: 210000 tokens > 200000 maximum"}}}}"#,
        "Received Model Group=x ".repeat(100)
    );
    check(400, &far_behind, |class| class == TooLong);
}

/// Wordings that no list has: a gateway or a new server has its own.
#[test]
fn a_wording_that_is_not_known_is_understood() {
    for words in [
        "Your conversation has 140000 tokens, and this deployment only takes 131072.",
        "total tokens (210000) over the limit (200000)",
        "context overflow: 9000 > 8192",
        "the sequence does not fit into the KV cache",
        "Sorry, this is more than the 32768 tokens that I can read at once.",
        "There is no room left in the context for an answer.",
        "number of tokens must be at most 8192, got 9000",
        "prompt of length 9000 is beyond what the model was loaded with (8192)",
        "messages: total length is above the allowed 400000 characters",
        "litellm.BadRequestError: Vertex_aiException - context limit hit, please shorten the conversation",
    ] {
        for body in [
            serde_json::json!({"error": {"message": words, "type": "invalid_request_error"}}),
            serde_json::json!({"type": "error", "error": {"type": "invalid_request_error", "message": words}}),
            serde_json::json!({"code": "x", "error": words}),
            serde_json::json!({"detail": words}),
        ] {
            check(400, &body.to_string(), |class| class == TooLong);
            check(413, &body.to_string(), |class| class == TooLong);
        }
    }
}

#[test]
fn errors_about_other_limits_are_not_taken_as_too_long() {
    let bodies = [
        // Tokens and lengths of another kind.
        r#"{"error":{"message":"Unexpected token } in JSON at position 5 exceeds depth limit"}}"#,
        r#"{"error":{"message":"Your access token is over the limit of its life"}}"#,
        r#"{"error":{"message":"Invalid 'tools[0].function.name': length must be at most 64"}}"#,
        r#"{"error":{"message":"metadata: value length exceeds 512"}}"#,
        r#"{"error":{"message":"stop sequence length is at most 16"}}"#,
        r#"{"error":{"message":"Invalid 'temperature': decimal above maximum value. Expected a value <= 2"}}"#,
        // The room for the answer.
        r#"{"error":{"message":"max_tokens is too large: 32000. This model supports at most 16384 completion tokens, whereas you provided 32000.","type":"invalid_request_error","param":"max_tokens"}}"#,
        r#"{"error":{"message":"`max_tokens` must be less than or equal to `32768`, the maximum value for `max_tokens` is less than the `context_window` for this model","type":"invalid_request_error"}}"#,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for claude-x"}}"#,
        r#"{"error":{"message":"Invalid max_tokens value, the valid range of max_tokens is [1, 8192]","type":"invalid_request_error"}}"#,
        r#"{"message":"too many tokens: max tokens must be less than or equal to 4000, the maximum output length for this model - received 32000."}"#,
        r#"{"message":"The maximum tokens you requested exceeds the model limit of 4096. Try again with a maximum tokens value that is lower than 4096."}"#,
        r#"{"error":{"message":"max_tokens exceeds the output token limit of this model: 8192"}}"#,
        r#"{"error":{"code":400,"message":"Unable to submit request because it has a maxOutputTokens value of 100000 but the supported range is from 1 (inclusive) to 65537 (exclusive).","status":"INVALID_ARGUMENT"}}"#,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"`max_tokens` must be greater than `thinking.budget_tokens`."}}"#,
        // Something small that is too long or too many.
        r#"{"error":{"message":"Invalid 'messages[2].tool_calls[0].id': string too long. Expected a string with maximum length 40, but instead got a string with length 53 instead.","code":"string_above_max_length"}}"#,
        r#"{"error":{"message":"Invalid 'tools[0].function.description': string too long. Expected a string with maximum length 1024, but instead got a string with length 4000 instead.","code":"string_above_max_length"}}"#,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"messages.1.content.0.image.source.base64: image exceeds 5 MB maximum: 7823456 bytes > 5242880 bytes"}}"#,
        r#"{"error":{"message":"Schemas contains too many parameters with union types (17 parameters with type arrays or anyOf). Reduce the number of nullable or union-typed parameters (limit: 16 parameters with unions).","type":"invalid_request_error"}}"#,
        r#"{"error":{"message":"Invalid schema for function 'f': In context=(), 'required' is required to be supplied"}}"#,
        // What was asked comes back with the error.
        r#"{"detail":[{"type":"missing","loc":["body","model"],"msg":"Field required","input":{"messages":[{"content":"the prompt is too long and exceeds the context window"}]}}]}"#,
        "{}",
    ];
    for body in bodies {
        check(400, body, |class| class == BadRequest);
        check(422, body, |class| class == BadRequest);
        check(500, body, |class| class == Overloaded);
    }
    // Limits by time and by money, also behind a gateway that gives them another status.
    let rates = [
        r#"{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your organization's rate limit of 30,000 input tokens per minute. Please reduce the prompt length or the maximum tokens requested."}}"#,
        r#"{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.\n* Quota exceeded for metric: generativelanguage.googleapis.com/generate_content_paid_tier_input_token_count, limit: 1000000","status":"RESOURCE_EXHAUSTED"}}"#,
        r#"{"message":"Too many tokens, please wait before trying again."}"#,
        r#"{"message":"ThrottlingException: Too many tokens per day"}"#,
        r#"{"error":{"message":"Requests to the ChatCompletions_Create Operation have exceeded token rate limit of your current pricing tier."}}"#,
    ];
    for body in rates {
        check(429, body, |class| class == RateLimit);
        for status in [400, 500, 503] {
            check(status, body, |class| class != TooLong);
        }
    }
    let credit = r#"{"error":{"message":"This request requires more credits, or fewer max_tokens. Prompt tokens limit exceeded: 12000 > 8000","code":402}}"#;
    check(402, credit, |class| class == UsedUp);
    check(403, credit, |class| class == Auth);
}
