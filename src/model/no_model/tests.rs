//! The words of each server for a model that is not there, and errors that are something else.

use crate::core::entry::FailureClass;
use crate::model::errors::classify;

/// Bodies as their servers send them, with the status.
const REFUSED: &[(u16, &str)] = &[
    (
        404,
        r#"{"type":"error","error":{"type":"not_found_error","message":"model: claude-sonnet-4-5"}}"#,
    ),
    (
        404,
        r#"{"error":{"message":"The model `gpt-5` has been deprecated, learn more here: https://platform.openai.com/docs/deprecations","type":"invalid_request_error","param":null,"code":"model_not_found"}}"#,
    ),
    (
        403,
        r#"{"error":{"message":"Project `proj_1` does not have access to model `gpt-6`","type":"invalid_request_error","param":null,"code":"model_not_found"}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"The requested model 'm' does not exist.","type":"invalid_request_error","param":"model","code":"model_not_found"}}"#,
    ),
    (
        404,
        r#"[{"error":{"code":404,"message":"models/m is not found for API version v1beta, or is not supported for generateContent.","status":"NOT_FOUND"}}]"#,
    ),
    (
        404,
        r#"{"error":{"code":404,"message":"This model models/gemini-2.5-pro is no longer available to new users. Please update your code to use a newer model.","status":"NOT_FOUND"}}"#,
    ),
    (
        404,
        r#"{"error":{"code":404,"message":"Publisher Model `projects/p/locations/l/publishers/google/models/m` was not found or your project does not have access to it.","status":"NOT_FOUND"}}"#,
    ),
    (
        404,
        r#"{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}"#,
    ),
    (
        410,
        r#"{"error":{"code":"410","message":"The model 'gpt-4' has been retired."}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"The model `llama3-70b-8192` has been decommissioned and is no longer supported. Please refer to https://example.com/docs/deprecations","type":"invalid_request_error","code":"model_decommissioned"}}"#,
    ),
    (
        404,
        r#"{"error":{"message":"Unable to access model m. Please visit the list of supported models.","type":"invalid_request_error","param":null,"code":"model_not_available"}}"#,
    ),
    (
        400,
        r#"{"object":"error","message":"Invalid model: m","type":"invalid_model","param":null,"code":"1500"}"#,
    ),
    (
        400,
        r#"{"error":{"message":"Model Not Exist","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}"#,
    ),
    (
        404,
        r#"{"error":{"message":"Not found the model kimi-x or Permission denied","type":"resource_not_found_error"}}"#,
    ),
    (
        400,
        r#"{"error":{"code":"1211","message":"Unknown Model, please check the model code."}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"x is not a valid model ID","code":400}}"#,
    ),
    (
        404,
        r#"{"error":{"message":"No endpoints found for x/m.","code":404}}"#,
    ),
    (
        404,
        r#"{"error":{"message":"No allowed providers are available for the selected model.","code":404}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"{'error': '/chat/completions: Invalid model name passed in model=m. Call `/v1/models` to view available models for your key.'}","type":"None","param":"None","code":"400"}}"#,
    ),
    (
        401,
        r#"{"error":{"message":"key not allowed to access model. This key can only access models=['a']. Tried to access m","type":"key_model_access_denied","param":"model","code":"401"}}"#,
    ),
    (
        404,
        r#"{"object":"error","message":"The model `m` does not exist.","type":"NotFoundError","param":null,"code":404}"#,
    ),
    (404, r#"{"error":"model 'm' not found"}"#),
    (
        404,
        r#"{"error":"model \"m\" not found, try pulling it first"}"#,
    ),
    (
        400,
        r#"{"error":{"code":400,"message":"model 'm' not found","type":"invalid_request_error"}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"Invalid model identifier \"m\". Please specify a valid downloaded model","type":"invalid_request_error"}}"#,
    ),
    (
        400,
        r#"{"message":"The provided model identifier is invalid."}"#,
    ),
    (
        404,
        r#"{"message":"This model version has reached the end of its life. Please refer to the documentation."}"#,
    ),
    (
        403,
        r#"{"message":"You don't have access to the model with the specified model ID."}"#,
    ),
    (
        404,
        r#"{"error":{"message":"Model not found, inaccessible, and/or not deployed","code":"NOT_FOUND"}}"#,
    ),
    (
        404,
        r#"{"code":"Some requested entity was not found","error":"The model m does not exist or your team t does not have access to it."}"#,
    ),
    (
        400,
        r#"{"error":{"message":"The requested model is not supported.","code":"model_not_supported","param":"model"}}"#,
    ),
    (
        503,
        r#"{"error":{"message":"No available channel for m under group default","code":"model_not_found"}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"Model m is not available in your region."}}"#,
    ),
    (
        404,
        r#"{"error":{"message":"The model 'grok-4-fast-reasoning' was not found"}}"#,
    ),
    // GitHub Models, One API, OpenCode, Cohere, Zhipu, Bedrock, Azure, SiliconFlow, Ark, DashScope, Groq, Ollama,
    // OpenRouter, watsonx, Novita, Cerebras, Cloudflare, Copilot, llama-swap and others.
    (
        403,
        r#"{"error":{"code":"no_access","message":"No access to model: openai/m-old","details":"No access to model: openai/m-old"}}"#,
    ),
    (
        400,
        r#"{"error":{"code":"unknown_model","message":"Unknown model: x/y"}}"#,
    ),
    (
        403,
        r#"{"error":{"message":"This token has no access to model m-old","type":"new_api_error"}}"#,
    ),
    (
        401,
        r#"{"type":"error","error":{"type":"ModelError","message":"Model m-old is not supported"}}"#,
    ),
    (
        404,
        r#"{"message":"model 'm-old' was removed on September 15, 2025. See https://docs.cohere.com/docs/models for how to update your code."}"#,
    ),
    (
        400,
        r#"{"error":{"code":"1211","message":"模型不存在，请检查模型代码。"}}"#,
    ),
    (403, r#"{"error":{"message":"该令牌无权访问模型 m-old"}}"#),
    (
        400,
        r#"{"message":"Invocation of model ID m-old with on-demand throughput isn’t supported. Retry your request with the ID or ARN of an inference profile that contains this model."}"#,
    ),
    (
        400,
        r#"{"error":{"code":"OperationNotSupported","message":"The chatCompletion operation does not work with the specified model, m-old. Please choose different model and try again."}}"#,
    ),
    (
        410,
        r#"{"error":{"code":"ModelDeprecated","message":"The model associated with the deployment is deprecated and no longer available for use."}}"#,
    ),
    (
        403,
        r#"{"code":30003,"message":"Model disabled.","data":null}"#,
    ),
    (
        404,
        r#"{"error":{"code":"ModelNotOpen","message":"Your account 210 has not activated the model m-old. Please activate the model service in the Ark Console."}}"#,
    ),
    (
        404,
        r#"{"error":{"message":"Your account 210 has not activated the model m-old."}}"#,
    ),
    (
        403,
        r#"{"error":{"code":"Model.AccessDenied","message":"Model access denied."}}"#,
    ),
    (
        403,
        r#"{"error":{"message":"Access to model denied. Please make sure you are eligible for using the model."}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"The model `m-old` requires terms acceptance. Please have the org admin accept the terms at https://console.groq.com/playground?model=m-old","code":"model_terms_required"}}"#,
    ),
    (
        403,
        r#"{"error":"this model requires a subscription, upgrade for access: https://ollama.com/upgrade"}"#,
    ),
    (
        404,
        r#"{"error":{"message":"This model is unavailable for free. The paid version is available now - use this slug instead: x/m-old","code":404}}"#,
    ),
    (
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"Unsupported model: m-old"}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"m-old cannot be used here","code":"unsupported_model"}}"#,
    ),
    (400, r#"{"error":{"message":"Invalid model 'm-old'."}}"#),
    (400, r#"{"error":{"message":"Unrecognized model `m-old`"}}"#),
    (422, r#"{"detail":"Unavailable model m-old"}"#),
    (
        400,
        r#"{"message":"Model m-old is unavailable in your region"}"#,
    ),
    (
        404,
        r#"{"errors":[{"code":"model_withdrawn","message":"The model m-old has been withdrawn."}]}"#,
    ),
    (
        400,
        r#"{"success":false,"errors":[{"code":5007,"message":"No such model m-old or task"}]}"#,
    ),
    (
        404,
        r#"{"code":404,"reason":"MODEL_NOT_FOUND","message":"no"}"#,
    ),
    (
        404,
        r#"{"message":"Model m-old is archived and unavailable for the organization.","code":"model_archived"}"#,
    ),
    (
        410,
        r#"{"error":{"message":"This model was sunset on 2026-11-01."}}"#,
    ),
    (
        403,
        r#"{"error":{"message":"Project does not have permission to use model m-old"}}"#,
    ),
    (
        403,
        r#"{"error":{"message":"The model m-old is not included in your plan"}}"#,
    ),
    (
        403,
        r#"{"status":"failure","message":"User u is not authorized to access model m-old or model does not exist","error":{"message":"User u is not authorized to access model m-old or model does not exist","type":"AuthorizationError"}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"The requested model is not available for integrator \"x\". Verify the correct Copilot-Integration-Id is being sent."}}"#,
    ),
    (404, r#"{"error":"no router for requested model m-old"}"#),
    (404, r#"{"error":"m-old: gone"}"#),
    (
        403,
        r#"{"error":{"message":"m-old is not available on the free plan"}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"This provider does not support the model m-old"}}"#,
    ),
    (
        403,
        r#"{"error":{"message":"Access denied for model 'm-old'"}}"#,
    ),
    (400, r#"{"error":{"message":"bad value","param":"model"}}"#),
    // Other words in the same forms.
    (
        404,
        r#"{"error":{"message":"The model 'm-old' could not be found"}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"The provided model name is invalid"}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"model m-old is not a supported model"}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"'m-old' is not one of the supported models: a, b"}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"Value error, model must be one of a, b","param":"model"}}"#,
    ),
    (
        403,
        r#"{"error":{"message":"You are not allowed to use the m-old model"}}"#,
    ),
    (
        403,
        r#"{"error":{"message":"You are not entitled to this model"}}"#,
    ),
    (
        403,
        r#"{"error":{"message":"Your organization is not allowed to use m-old"}}"#,
    ),
    (
        403,
        r#"{"error":{"message":"Your subscription does not include m-old"}}"#,
    ),
    (
        403,
        r#"{"error":{"message":"The model m-old requires a Pro subscription"}}"#,
    ),
    (
        403,
        r#"{"error":{"message":"m-old is only available to enterprise customers"}}"#,
    ),
    (
        403,
        r#"{"error":{"message":"Access to m-old requires approval"}}"#,
    ),
    (401, r#"{"error":{"message":"m-old: access denied"}}"#),
    (
        401,
        r#"{"error":{"message":"You do not have access to m-old"}}"#,
    ),
    (
        403,
        r#"{"error":{"message":"Model m-old has been blocked by your administrator"}}"#,
    ),
    (
        403,
        r#"{"error":{"message":"This model is gated. Request access first."}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"Model m-old has reached end-of-support"}}"#,
    ),
    (410, r#"{"error":{"message":"m-old has been shut off"}}"#),
    (
        404,
        r#"{"error":{"message":"Model m-old was turned off on 2026-10-01"}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"The model m-old is no longer being served"}}"#,
    ),
    (
        422,
        r#"{"detail":[{"loc":["body","model"],"msg":"Model m-old not found"}]}"#,
    ),
    (
        422,
        r#"{"detail":[{"loc":["body","model"],"msg":"value is not a valid enumeration member"}]}"#,
    ),
    (
        400,
        r#"{"error":{"message":"No provider available for model m-old"}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"no healthy upstream for model m-old"}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"Model group m-old has no deployments"}}"#,
    ),
    (404, r#"{"error":{"message":"Deployment m-old not found"}}"#),
    (404, r#"{"error":{"message":"Unknown deployment m-old"}}"#),
    (
        400,
        r#"{"error":{"message":"There are no healthy deployments for this model. Received Model Group=m-old"}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"This model isn't enabled for your account"}}"#,
    ),
    (
        404,
        r#"{"error":{"message":"Le modèle m-old n'existe pas"}}"#,
    ),
    (400, r#"{"error":{"message":"该模型已下线","code":"1212"}}"#),
    (
        403,
        r#"{"error":{"message":"您的账户没有 m-old 的访问权限"}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"Requested model is not hosted here"}}"#,
    ),
    (400, r#"{"error":{"message":"Bad model: m-old"}}"#),
    (400, r#"{"error":{"message":"Wrong model name m-old"}}"#),
    (400, r#"{"error":{"message":"Not a known model: m-old"}}"#),
    (400, r#"{"error":{"message":"We don't support m-old"}}"#),
    (400, r#"{"error":{"message":"m-old is not recognized"}}"#),
    (
        400,
        r#"{"error":{"message":"Model m-old isn't available in this region"}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"Model m-old has been superseded by m-new"}}"#,
    ),
    (400, r#"{"error":{"message":"Model m-old is obsolete"}}"#),
    (400, r#"{"error":{"code":"MODEL_GONE","message":"x"}}"#),
    (400, r#"{"error":{"code":"model_eol","message":"x"}}"#),
    (
        403,
        r#"{"error":{"code":"model_not_entitled","message":"x"}}"#,
    ),
    (
        403,
        r#"{"error":{"code":"ModelAccessNotGranted","message":"x"}}"#,
    ),
    (400, r#"{"error":{"code":"InvalidModelId","message":"x"}}"#),
    (
        400,
        r#"{"__type":"ResourceNotFoundException","message":"Could not resolve the foundation model from the provided model identifier"}"#,
    ),
    // A reason phrase beside the words, and other keys: Fastify, NestJS, Spring, FastAPI, OAuth, TGI, Azure.
    (
        400,
        r#"{"statusCode":400,"error":"Bad Request","message":"The model m-old does not exist"}"#,
    ),
    (
        404,
        r#"{"status":404,"error":"Not Found","message":"model m-old is not available","path":"/v1/chat/completions"}"#,
    ),
    (
        404,
        r#"{"error":"not_found","detail":"The model `m-old` does not exist."}"#,
    ),
    (
        404,
        r#"{"error":"model_not_found","error_description":"m-old"}"#,
    ),
    (
        404,
        r#"{"error":true,"message":"The model m-old does not exist"}"#,
    ),
    (
        404,
        r#"{"error":{},"message":"The model m-old does not exist"}"#,
    ),
    (404, r#"{"error_type":"model_not_found","error":"no"}"#),
    (
        404,
        r#"{"error_code":"model_not_found","error_message":"no"}"#,
    ),
    (
        404,
        r#"{"error":{"code":"NotFound","message":"Resource not found","innererror":{"code":"DeploymentNotFound"}}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"Value not one of the allowed values","param":"modelId","code":"invalid_value"}}"#,
    ),
    // Nothing but the status.
    (410, ""),
    (410, r#"{"type":"about:blank","title":"Gone","status":410}"#),
    // Vertex, Gemini, Anthropic.
    (
        403,
        r#"{"error":{"code":403,"message":"Permission denied on resource '//aiplatform.googleapis.com/projects/p/locations/l/publishers/google/models/m-old' (or it may not exist).","status":"PERMISSION_DENIED"}}"#,
    ),
    (
        400,
        r#"{"error":{"code":400,"message":"* GenerateContentRequest.model: unexpected model name format\n","status":"INVALID_ARGUMENT"}}"#,
    ),
    (
        403,
        r#"{"type":"error","error":{"type":"permission_error","message":"Your account does not have access to Claude m-old. Please contact sales."}}"#,
    ),
    // Gateways that send the error of another server as their own.
    (
        500,
        r#"{"error":{"message":"OpenAIException - The model `m-old` does not exist or you do not have access to it.","code":"500"}}"#,
    ),
    (
        500,
        r#"{"error":{"code":500,"message":"could not load model - all backends returned error: model m-old does not exist"}}"#,
    ),
];

/// Errors about something else, also those that name a model.
const OTHERS: &[(u16, &str)] = &[
    (404, ""),
    (404, "404 page not found"),
    (404, r#"{"detail":"Not Found"}"#),
    (
        404,
        "<!DOCTYPE html><title>Error 404</title>The requested URL /x/models/m:streamGenerateContent was not found on this server.",
    ),
    (
        404,
        r#"{"error":{"message":"Invalid URL (POST /v1/v1/models/chat)","type":"invalid_request_error"}}"#,
    ),
    (
        404,
        r#"{"type":"error","error":{"type":"not_found_error","message":"Not Found"}}"#,
    ),
    (
        404,
        r#"{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}"#,
    ),
    (
        404,
        r#"{"error":{"code":"404","message":"Resource not found"}}"#,
    ),
    (410, "This API version was shut down. See the changelog."),
    (
        404,
        r#"{"error":{"message":"No endpoints found that support image input","code":404}}"#,
    ),
    (
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"`temperature` is deprecated for this model."}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"Unsupported value: 'none' is not supported with the 'gpt-6.1-sol' model.","param":"reasoning.effort","code":"unsupported_value"}}"#,
    ),
    (
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"This model does not support assistant message prefill."}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"model m: prefix mode is on; top_p is not supported"}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"Prompt caching is not enabled for this model"}}"#,
    ),
    (
        429,
        r#"{"error":{"message":"The model m is not available: quota exceeded"}}"#,
    ),
    (
        503,
        r#"{"error":{"message":"The model is overloaded. Please try again later."}}"#,
    ),
    (
        403,
        r#"{"type":"error","error":{"type":"permission_error","message":"Your key does not have permission to use the specified resource."}}"#,
    ),
    (
        401,
        r#"{"error":{"message":"Incorrect API key provided: sk-x","code":"invalid_api_key"}}"#,
    ),
    (
        401,
        r#"{"error":{"message":"Invalid API key for model m-old"}}"#,
    ),
    (
        401,
        r#"{"error":{"message":"Your API key has expired, so the model m-old is not available"}}"#,
    ),
    (
        401,
        r#"{"message":"Unauthorized – check your API key and ensure it has access to the requested model"}"#,
    ),
    (
        401,
        r#"{"error":{"message":"Invalid model key or incorrect local model configuration"}}"#,
    ),
    (
        403,
        r#"{"error":{"message":"The `models` permission is required to access this endpoint"}}"#,
    ),
    (
        403,
        r#"{"error":{"type":"forbidden","message":"Request not allowed"}}"#,
    ),
    (
        403,
        r#"{"error":{"code":"unsupported_country_region_territory","message":"Country, region, or territory not supported"}}"#,
    ),
    (403, r#"{"model":"m-old"}"#),
    (
        400,
        r#"{"error":{"code":400,"message":"The request is not supported by this model.","status":"INVALID_ARGUMENT"}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","param":"max_tokens","code":"unsupported_parameter"}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with m-old.","code":"invalid_request_body"}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"Invalid parameter: 'response_format' of type 'json_object' is not supported with this model.","code":"model_parameter_unsupported"}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"Multiple system messages are not supported by model m-old"}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"Streaming is disabled for the model m-old"}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"The model m-old does not support the system role: it is not supported"}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"This model's maximum context length is 8192 tokens, m-old is not available for more","code":"context_length_exceeded"}}"#,
    ),
    (
        403,
        r#"{"error":{"message":"The rate limit of m-old is exceeded, the model is unavailable"}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"Invalid model output: the model m-old wrote no JSON"}}"#,
    ),
    (400, r#"{"error":{"message":"模型暂不可用"}}"#),
    (404, r#"{"error":"path /v1/models/m-old not found"}"#),
    (404, r#"{"error":"no route for /models/m-old:generate"}"#),
    (
        503,
        r#"{"error":{"message":"Model m-old is unavailable","code":"model_unavailable"}}"#,
    ),
    (
        429,
        r#"{"error":{"message":"No access to model m-old","code":"model_access_denied"}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"Invalid value for max_tokens for model m-old"}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"logprobs are not available for m-old"}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"The model m-old does not support logprobs"}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"seed is not supported by m-old"}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"m-old: stop is not supported"}}"#,
    ),
    (400, r#"{"error":{"message":"Model m-old: n must be 1"}}"#),
    (
        400,
        r#"{"error":{"message":"Vision is not available for model m-old"}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"Streaming unsupported: model m-old"}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"m-old supports at most 8192 output tokens"}}"#,
    ),
    (
        401,
        r#"{"error":{"message":"Invalid token. Model m-old requires a valid key"}}"#,
    ),
    (
        401,
        r#"{"error":{"message":"Authentication required to use model m-old"}}"#,
    ),
    (
        401,
        r#"{"error":{"message":"API key not found. Cannot use model m-old"}}"#,
    ),
    (
        403,
        r#"{"error":{"message":"Your IP address is not allowed. model m-old"}}"#,
    ),
    (
        403,
        r#"{"error":{"message":"Free quota of model m-old is used up"}}"#,
    ),
    (
        403,
        r#"{"error":{"message":"The content was blocked by the safety filter of model m-old"}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"The model m-old refused: content not allowed"}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"The prompt for m-old is not permitted by our usage policy"}}"#,
    ),
    (
        404,
        r#"{"error":{"message":"Conversation not found for model m-old"}}"#,
    ),
    (
        404,
        r#"{"error":{"message":"previous_response_id resp_1 not found","param":"previous_response_id"}}"#,
    ),
    (404, r#"{"error":{"message":"Cache not found"}}"#),
    (
        404,
        r#"{"error":{"message":"The requested URL /v1/chat/completions was not found. model"}}"#,
    ),
    (404, r#"{"error":{"message":"Account not found"}}"#),
    (
        400,
        r#"{"error":{"message":"System message not supported on model m-old"}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"File type not supported: model m-old"}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"model m-old: the assistant role is not supported at this position"}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"Service tier flex is not available for model m-old"}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"Model m-old is not available in service tier flex"}}"#,
    ),
    (
        403,
        r#"{"error":{"message":"Your IP address is not allowed to access this model serving endpoint from outside the VPN"}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"output_config: This model is not available with output_config.format."}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"The model m-old is not available with Zero Data Retention enabled; set store=false."}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"model m-old is not supported in batch mode"}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"This model is not allowed to use `seed`"}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"The model m-old has not been given any messages"}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"The request to model m-old has been rejected: invalid characters in messages"}}"#,
    ),
    (
        403,
        r#"{"error":{"message":"Access to this model is blocked until your invoice is paid"}}"#,
    ),
    (
        404,
        r#"{"error":{"message":"The adapter `x` of model m-old was not found"}}"#,
    ),
    (
        404,
        r#"{"error":{"message":"This model is only supported in v1/responses and not in v1/chat/completions.","param":"model","code":null}}"#,
    ),
    (
        400,
        r#"{"error":{"message":"The model m-old has been given no prompt"}}"#,
    ),
    (
        500,
        r#"{"error":{"message":"The model m-old is not ready: its file was not found, try again"}}"#,
    ),
    (500, r#"{"error":{"message":"The file x was not found"}}"#),
];

#[test]
fn every_server_says_it_in_its_own_words() {
    for (status, body) in REFUSED {
        let failure = classify(*status, body, "m-old");
        assert_eq!(failure.class, FailureClass::NoModel, "{status} {body}");
        let hint = failure.hint.unwrap_or_default();
        assert!(hint.contains("-m ") && hint.contains("/model"), "{hint}");
    }
}

#[test]
fn other_errors_stay_what_they_are() {
    for (status, body) in OTHERS {
        let class = classify(*status, body, "m-old").class;
        assert_ne!(class, FailureClass::NoModel, "{status} {body}");
    }
}

#[test]
fn a_name_counts_as_a_whole_word() {
    for (text, model, is_there) in [
        ("The model `m-old` is gone.", "m-old", true),
        ("M-OLD: gone", "m-old", true),
        ("x/m-old", "x/m-old", true),
        ("m-old", "x/m-old", true),
        ("m-old-2", "m-old", false),
        ("m-old.5", "m-old", false),
        ("m-old:free", "m-old", false),
        ("y/m-old", "x/m-old", false),
        ("/models/m-old", "m-old", false),
        ("anything", "", false),
    ] {
        assert_eq!(super::is_named(text, model), is_there, "{text} {model}");
    }
}
