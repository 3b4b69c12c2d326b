//! The settings of telemetry: the user's config, and the variables `OTEL_*` (OpenTelemetry
//! specification, "OTLP Exporter Configuration" and "Environment Variable Specification").

use reqwest::Url;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use crate::config::{Env, TelemetryConfig};

/// Variables that may hold a key of the collector. Commands do not get them.
pub const HEADERS_ENV: [&str; 5] = [
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
    "OTEL_EXPORTER_OTLP_LOGS_HEADERS",
    "OTEL_EXPORTER_OTLP_PROFILES_HEADERS",
];

const DEFAULT_ENDPOINT: &str = "http://localhost:4318";
const PROTOCOL: &str = "http/json";

/// The address of one kind of data.
#[derive(Debug, Clone)]
pub struct Target {
    pub url: Url,
    pub headers: HeaderMap,
}

/// Complete settings.
#[derive(Debug, Clone)]
pub struct Exporting {
    /// `None`: switched off by `OTEL_TRACES_EXPORTER=none`.
    pub traces: Option<Target>,
    /// `None`: switched off by `OTEL_METRICS_EXPORTER=none`.
    pub metrics: Option<Target>,
    /// Attributes of the resource.
    pub resource: Vec<(String, String)>,
    /// `TRACEPARENT`.
    pub parent: Option<String>,
    pub has_contents: bool,
}

/// Reads the settings. `None`: telemetry is off.
///
/// # Errors
/// A warning for the user: nothing can be sent with these variables.
pub fn read(config: &TelemetryConfig, env: &Env) -> Result<Option<Exporting>, String> {
    let is_disabled = env.var("OTEL_SDK_DISABLED");
    if !config.enabled || is_disabled.is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return Ok(None);
    }
    Ok(Some(Exporting {
        traces: target(env, "TRACES")?,
        metrics: target(env, "METRICS")?,
        resource: resource(env),
        parent: env.var("TRACEPARENT").map(str::to_string),
        has_contents: config.contents,
    }))
}

fn target(env: &Env, signal: &str) -> Result<Option<Target>, String> {
    if env.var(&format!("OTEL_{signal}_EXPORTER")) == Some("none") {
        return Ok(None);
    }
    let of_signal = |what: &str| format!("OTEL_EXPORTER_OTLP_{signal}_{what}");
    let find = |what: &str| {
        let names = [of_signal(what), format!("OTEL_EXPORTER_OTLP_{what}")];
        names
            .into_iter()
            .find_map(|name| Some((env.var(&name)?.trim(), name.clone())))
    };
    if let Some((protocol, name)) = find("PROTOCOL").filter(|(value, _)| *value != PROTOCOL) {
        return Err(format!(
            "no telemetry is sent: {name} is {protocol:?}, and only {PROTOCOL} is supported; hint: set it to {PROTOCOL}"
        ));
    }
    let (endpoint, name) = match env.var(&of_signal("ENDPOINT")) {
        Some(url) => (url.trim().to_string(), of_signal("ENDPOINT")),
        None => {
            let name = "OTEL_EXPORTER_OTLP_ENDPOINT";
            let base = env.var(name).unwrap_or(DEFAULT_ENDPOINT).trim();
            let path = signal.to_lowercase();
            (
                format!("{}/v1/{path}", base.trim_end_matches('/')),
                name.into(),
            )
        }
    };
    let url = Url::parse(&endpoint).ok();
    let url = url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    // The address is not repeated, because it may contain a password.
    let url = url.ok_or_else(|| {
        format!(
            "no telemetry is sent: {name} is not an HTTP address; hint: as in {DEFAULT_ENDPOINT}"
        )
    })?;
    let given = find("HEADERS");
    let (text, name) = given.unwrap_or_default();
    let headers = headers(text)
        .ok_or_else(|| format!("no telemetry is sent: {name} is not of the form NAME=VALUE,…"))?;
    Ok(Some(Target { url, headers }))
}

/// Parses `a=b,c=d`. Values are percent-encoded.
fn pairs(text: &str) -> impl Iterator<Item = Option<(String, String)>> {
    let parts = text.split(',').filter(|part| !part.trim().is_empty());
    parts.map(|part| {
        let (key, value) = part.split_once('=')?;
        Some((key.trim().to_string(), decoded(value.trim())?))
    })
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|_| *first == b'%');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = byte.map_or(after, |_| &after[2..]);
    }
    String::from_utf8(bytes).ok()
}

fn headers(text: &str) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    for pair in pairs(text) {
        let (name, value) = pair?;
        let mut value = HeaderValue::from_str(&value).ok()?;
        value.set_sensitive(true);
        headers.insert(HeaderName::try_from(name).ok()?, value);
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Some(headers)
}

fn resource(env: &Env) -> Vec<(String, String)> {
    let given = env.var("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
    let mut all: Vec<(String, String)> = pairs(given).flatten().collect();
    let given = all.iter().find(|(key, _)| key == "service.name");
    let name = env.var("OTEL_SERVICE_NAME").map(str::to_string);
    let name = name.or_else(|| given.map(|(_, name)| name.clone()));
    all.retain(|(key, _)| key != "service.name" && key != "service.version");
    let version = env!("CARGO_PKG_VERSION").to_string();
    all.push(("service.name".into(), name.unwrap_or("rewake".into())));
    all.push(("service.version".into(), version));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exporting(vars: &[(&str, &str)]) -> Result<Option<Exporting>, String> {
        let config = TelemetryConfig {
            enabled: true,
            contents: false,
        };
        read(&config, &Env::new(vars.iter().copied(), "/"))
    }

    fn on(vars: &[(&str, &str)]) -> Exporting {
        exporting(vars).unwrap().unwrap()
    }

    #[test]
    fn the_address_of_a_signal_is_used_as_it_is() {
        let urls = |vars| {
            let on = on(vars);
            let url = |target: Option<Target>| target.unwrap().url.to_string();
            [url(on.traces), url(on.metrics)]
        };
        let local = [
            "http://localhost:4318/v1/traces",
            "http://localhost:4318/v1/metrics",
        ];
        assert_eq!(urls(&[]), local);
        let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://c.test/otlp/");
        let traces = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://t.test/in");
        assert_eq!(
            urls(&[base, traces]),
            ["https://t.test/in", "https://c.test/otlp/v1/metrics"]
        );
    }

    #[test]
    fn any_other_protocol_is_one_warning() {
        for name in [
            "OTEL_EXPORTER_OTLP_PROTOCOL",
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
        ] {
            for protocol in ["grpc", "http/protobuf", "HTTP/JSON", "x"] {
                let why = exporting(&[(name, protocol)]).unwrap_err();
                assert!(
                    why.contains("only http/json") && why.contains(name),
                    "{why}"
                );
            }
        }
        assert!(exporting(&[("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")]).is_ok());
        let bad = exporting(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "secret@host")]).unwrap_err();
        assert!(!bad.contains("secret"), "{bad}");
    }

    #[test]
    fn it_is_off_unless_the_config_and_the_variables_allow_it() {
        let env = Env::new([("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c.test")], "/");
        assert!(read(&TelemetryConfig::default(), &env).unwrap().is_none());
        assert!(
            exporting(&[("OTEL_SDK_DISABLED", "True")])
                .unwrap()
                .is_none()
        );
        let no_metrics = on(&[("OTEL_METRICS_EXPORTER", "none")]);
        assert!(no_metrics.metrics.is_none() && no_metrics.traces.is_some());
    }

    #[test]
    fn headers_and_the_resource_are_lists_of_pairs() {
        let on = on(&[
            ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b, x=1"),
            ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "api-key=m"),
            (
                "OTEL_RESOURCE_ATTRIBUTES",
                "service.name=other,team=a%2Cb,bad",
            ),
            ("OTEL_SERVICE_NAME", "mine"),
        ]);
        let header = |target: Option<Target>, name: &str| {
            let value = target.unwrap().headers.get(name).cloned();
            value.map(|value| value.to_str().unwrap().to_string())
        };
        assert_eq!(header(on.traces.clone(), "api-key").as_deref(), Some("a b"));
        assert_eq!(header(on.traces, "x").as_deref(), Some("1"));
        assert_eq!(header(on.metrics.clone(), "api-key").as_deref(), Some("m"));
        assert_eq!(header(on.metrics, "x"), None);
        let version = env!("CARGO_PKG_VERSION");
        let expected = [
            ("team", "a,b"),
            ("service.name", "mine"),
            ("service.version", version),
        ];
        let expected = expected.map(|(key, value)| (key.to_string(), value.to_string()));
        assert_eq!(on.resource, expected);
        for bad in ["no-pair", "a b=c", "k=a%0Ab"] {
            assert!(
                exporting(&[("OTEL_EXPORTER_OTLP_HEADERS", bad)]).is_err(),
                "{bad}"
            );
        }
    }
}
