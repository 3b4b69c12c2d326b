//! Images that a server refuses: how a refusal is recognised by its words, and the text that is
//! sent instead.
//!
//! An image stays in the log, so it would be part of every later request, and all of them would be
//! refused. The refusal is recorded (`Learned.images`). From then on the requests to that model
//! have a line of text for each earlier image.
//!
//! Sources: the error texts of Anthropic ("Could not process image", "image exceeds 5 MB
//! maximum"), OpenAI ("You uploaded an unsupported image", "image_url is only supported by
//! certain models"), Gemini ("Unable to process input image"), OpenRouter ("No endpoints found
//! that support image input"), llama.cpp ("image input is not supported … mmproj", "failed to
//! load image"), vLLM ("is not a multimodal model", "cannot identify image file"), Ollama
//! ("this model does not support images"), DeepSeek ("unknown variant `image_url`").

use super::entry::{FailureClass, Image, Refusal, Seq};
use super::request_failure::RequestFailure;
use super::text::one_line;

/// Maximum length of the server's words in the text for the model.
const MAX_WORDS: usize = 200;

/// Messages that the model accepts no images at all.
#[rustfmt::skip]
const NONE_TAKEN: [&str; 19] = [
    "does not support image", "doesn't support image", "not support image input", "not support vision",
    "not support multimodal", "image input is not supported", "image inputs are not supported",
    "images are not supported", "image content is not supported", "image_url is not supported",
    "image_url is only supported by", "support image input", "mmproj", "not a multimodal model",
    "not a vision model", "unknown variant `image_url`", "unknown variant `input_image`", "at most 0 image",
    "only supports text",
];

/// Messages that this image, or these, cannot be read.
#[rustfmt::skip]
const NOT_READ: [&str; 13] = [
    "could not process image", "unable to process input image", "cannot identify image", "failed to decode image",
    "failed to load image", "unsupported image", "invalid image", "invalid_image", "image exceeds",
    "image dimensions exceed", "valid image", "image is not valid", "too many images",
];

/// Names of the field for an image that servers mention.
const NAMES: [&str; 6] = [
    "image",
    "images",
    "image_url",
    "input_image",
    "inline_data",
    "image_data",
];

/// Returns whether the server clearly refuses because of images, whatever its status.
pub fn is_clear(message: &str) -> bool {
    let text = message.to_lowercase();
    NONE_TAKEN.iter().chain(&NOT_READ).any(|w| text.contains(w))
}

/// Returns the refusal that explains the failure of a request with images. `None`: the images were
/// not the reason. `model` is `provider/model`, whose name may contain the word "image".
pub fn refusal(class: FailureClass, message: &str, model: &str) -> Option<Refusal> {
    if class != FailureClass::BadRequest {
        return None;
    }
    let name = model.split_once('/').map_or(model, |(_, name)| name);
    let (text, name) = (message.to_lowercase(), name.to_lowercase());
    let text = if name.contains("image") {
        text.replace(&name, " ")
    } else {
        text
    };
    let every = NONE_TAKEN.iter().any(|words| text.contains(words));
    let named = text
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .any(|word| NAMES.contains(&word));
    (every || named || is_clear(&text)).then(|| Refusal {
        why: words(message),
        every,
    })
}

/// Returns the server's own words, without the address of the request.
fn words(message: &str) -> String {
    let own = RequestFailure::parse(message).and_then(|failure| failure.server_words());
    one_line(own.unwrap_or(message), MAX_WORDS)
}

/// A refusal and its place in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    pub at: Seq,
    pub refusal: Refusal,
}

/// Returns why the images of the entry `seq` are not sent, according to the refusals, oldest first.
pub(crate) fn why(learnt: &[Refused], seq: Seq) -> Option<&str> {
    let by = learnt.iter().find(|r| seq < r.at || r.refusal.every);
    by.map(|r| r.refusal.why.as_str())
}

/// Returns the text that is sent instead of an image.
pub(crate) fn line(image: &Image, why: &str) -> String {
    format!(
        "[{}, {} bytes, not sent: the server refused images: {why}]",
        image.media_type, image.blob.bytes
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learnt(message: &str) -> Option<bool> {
        refusal(FailureClass::BadRequest, message, "p/gemini-image-1").map(|r| r.every)
    }

    #[test]
    fn a_server_that_refuses_images_is_understood() {
        for message in [
            "messages.2.content.0.image.source.base64.data: Could not process image",
            "messages.3.content.0.tool_result.content.1: image exceeds 5 MB maximum: 5316852 bytes > 5242880 bytes",
            "You uploaded an unsupported image. Please make sure your image is valid.",
            "Invalid value: 'input_image'. Supported values are: 'input_text'.",
            "Unable to process input image. Please retry or report",
            "Provided image is not valid.",
            "Failed to load image or audio file",
            "cannot identify image file <_io.BytesIO object at 0x7f>",
        ] {
            assert_eq!(learnt(message), Some(false), "{message}");
        }
        for message in [
            "Invalid content type. image_url is only supported by certain models.",
            "No endpoints found that support image input",
            "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
            "x is not a multimodal model",
            "this model does not support images",
            "Failed to deserialize the JSON body: messages[1]: unknown variant `image_url`, expected `text`",
            "At most 0 image(s) may be provided in one request.",
        ] {
            assert_eq!(learnt(message), Some(true), "{message}");
            assert!(is_clear(message), "{message}");
        }
    }

    #[test]
    fn failures_with_other_reasons_are_not_image_refusals() {
        for message in [
            "max_tokens: 5 > 3",
            "the model gemini-image-1 was not found",
            "imagine that",
            "",
        ] {
            assert_eq!(learnt(message), None, "{message}");
            assert!(!is_clear(message), "{message}");
        }
        for class in [
            FailureClass::Auth,
            FailureClass::Network,
            FailureClass::TooLong,
        ] {
            assert_eq!(refusal(class, "Could not process image", "a/b"), None);
        }
    }

    #[test]
    fn the_words_are_the_servers_own() {
        for message in [
            "asking p at http://127.0.0.1:1/v1: HTTP 400: Could not process image",
            "request to p failed: HTTP 400: Could not process image (http://127.0.0.1:1/v1)",
        ] {
            let learnt = refusal(FailureClass::BadRequest, message, "a/b").unwrap();
            assert_eq!(learnt.why, "Could not process image");
        }
        let learnt = refusal(FailureClass::BadRequest, &"image ".repeat(200), "a/b").unwrap();
        assert!(learnt.why.chars().count() <= MAX_WORDS + 1);
    }

    #[test]
    fn the_first_refusal_after_an_image_counts() {
        let refused = |at, why: &str, every| Refused {
            at,
            refusal: Refusal {
                why: why.into(),
                every,
            },
        };
        let learnt = [refused(3, "a", false), refused(7, "b", true)];
        let whys: Vec<_> = [1, 2, 5, 9].map(|seq| why(&learnt, seq)).to_vec();
        assert_eq!(whys, [Some("a"), Some("a"), Some("b"), Some("b")]);
        assert_eq!(why(&learnt[..1], 5), None);
    }
}
