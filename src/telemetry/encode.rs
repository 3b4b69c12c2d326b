//! Spans and metrics as OTLP in JSON (opentelemetry-proto, `trace.proto` and `metrics.proto`, with
//! the JSON rules of the OTLP specification: ids in hex, 64-bit numbers as text).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::spans::{SCHEMA, Span, Trace, hex, provider_and_model};

/// Boundaries that the conventions give for `gen_ai.client.token.usage`.
const TOKENS: [f64; 14] = [
    1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0,
    16777216.0, 67108864.0,
];
/// Boundaries that the conventions give for `gen_ai.client.operation.duration`.
const SECONDS: [f64; 14] = [
    0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
];

const SPAN_KIND_INTERNAL: u8 = 1;
const SPAN_KIND_CLIENT: u8 = 3;
const STATUS_ERROR: u8 = 2;
const DELTA: u8 = 1;

type Attributes = Vec<(&'static str, Value)>;

/// Returns an `ExportTraceServiceRequest`. `None`: there are no spans.
pub fn traces(spans: &[Span], trace: &Trace, resource: &[(String, String)]) -> Option<Value> {
    let spans: Vec<Value> = spans.iter().map(|span| encoded(span, trace)).collect();
    let has_any = !spans.is_empty();
    has_any.then(|| {
        json!({ "resourceSpans": [{
            "resource": resource_of(resource),
            "scopeSpans": [{ "scope": scope(), "spans": spans, "schemaUrl": SCHEMA }],
            "schemaUrl": SCHEMA,
        }] })
    })
}

fn encoded(span: &Span, trace: &Trace) -> Value {
    let mut json = json!({
        "traceId": hex(&trace.id),
        "spanId": hex(&span.id),
        "name": span.name,
        "kind": if span.is_client { SPAN_KIND_CLIENT } else { SPAN_KIND_INTERNAL },
        "startTimeUnixNano": nanos(span.start_ms),
        "endTimeUnixNano": nanos(span.end_ms),
        "attributes": attributes(&span.attributes),
        "flags": 1,
    });
    if let Some(parent) = &span.parent {
        json["parentSpanId"] = json!(hex(parent));
    }
    if span.failed {
        json["status"] = json!({ "code": STATUS_ERROR });
    }
    json
}

/// Returns an `ExportMetricsServiceRequest` about the answers among the spans. `None`: there are
/// none.
pub fn metrics(spans: &[Span], resource: &[(String, String)]) -> Option<Value> {
    let mut tokens = BTreeMap::new();
    let mut seconds = BTreeMap::new();
    for span in spans {
        let Some((model, usage)) = &span.answer else {
            continue;
        };
        for (kind, count) in [("input", usage.prompt()), ("output", usage.output)] {
            let all = tokens.entry((model, Some(kind)));
            all.or_insert_with(|| Histogram::new(&TOKENS))
                .add(count as f64, span);
        }
        let took_ms = span.end_ms.saturating_sub(span.start_ms);
        let all = seconds.entry((model, None));
        all.or_insert_with(|| Histogram::new(&SECONDS))
            .add(took_ms as f64 / 1e3, span);
    }
    (!seconds.is_empty()).then(|| {
        json!({ "resourceMetrics": [{
            "resource": resource_of(resource),
            "scopeMetrics": [{
                "scope": scope(),
                "metrics": [
                    metric("gen_ai.client.token.usage", "{token}", tokens),
                    metric("gen_ai.client.operation.duration", "s", seconds),
                ],
                "schemaUrl": SCHEMA,
            }],
            "schemaUrl": SCHEMA,
        }] })
    })
}

/// A distribution of values.
struct Histogram {
    bounds: &'static [f64],
    counts: Vec<u64>,
    sum: f64,
    start_ms: i64,
    end_ms: i64,
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Histogram {
        Histogram {
            bounds,
            counts: vec![0; bounds.len() + 1],
            sum: 0.0,
            start_ms: i64::MAX,
            end_ms: i64::MIN,
        }
    }

    fn add(&mut self, value: f64, span: &Span) {
        self.counts[self.bounds.partition_point(|bound| *bound < value)] += 1;
        self.sum += value;
        self.start_ms = self.start_ms.min(span.start_ms);
        self.end_ms = self.end_ms.max(span.end_ms);
    }
}

type ByModel<'a> = BTreeMap<(&'a String, Option<&'static str>), Histogram>;

fn metric(name: &str, unit: &str, by_model: ByModel<'_>) -> Value {
    let points = by_model.into_iter().map(|((model, kind), histogram)| {
        let (provider, model) = provider_and_model(model);
        let mut given: Attributes = vec![
            ("gen_ai.operation.name", json!("chat")),
            ("gen_ai.provider.name", json!(provider)),
            ("gen_ai.request.model", json!(model)),
        ];
        given.extend(kind.map(|kind| ("gen_ai.token.type", json!(kind))));
        let counts = histogram.counts.iter();
        json!({
            "attributes": attributes(&given),
            "startTimeUnixNano": nanos(histogram.start_ms),
            "timeUnixNano": nanos(histogram.end_ms),
            "count": counts.clone().sum::<u64>().to_string(),
            "sum": histogram.sum,
            "bucketCounts": counts.map(u64::to_string).collect::<Vec<_>>(),
            "explicitBounds": histogram.bounds,
        })
    });
    let points: Vec<Value> = points.collect();
    let histogram = json!({ "aggregationTemporality": DELTA, "dataPoints": points });
    json!({ "name": name, "unit": unit, "histogram": histogram })
}

fn scope() -> Value {
    json!({ "name": "rewake", "version": env!("CARGO_PKG_VERSION") })
}

fn resource_of(resource: &[(String, String)]) -> Value {
    let pairs = resource.iter();
    let pairs: Vec<Value> = pairs
        .map(|(key, value)| json!({ "key": key, "value": { "stringValue": value } }))
        .collect();
    json!({ "attributes": pairs })
}

fn attributes(given: &[(&'static str, Value)]) -> Value {
    let pairs = given.iter();
    pairs
        .map(|(key, value)| json!({ "key": key, "value": any_value(value) }))
        .collect()
}

fn any_value(value: &Value) -> Value {
    match value {
        Value::Bool(flag) => json!({ "boolValue": flag }),
        Value::Number(number) => json!({ "intValue": number.to_string() }),
        Value::Array(values) => {
            let values: Vec<Value> = values.iter().map(any_value).collect();
            json!({ "arrayValue": { "values": values } })
        }
        Value::String(text) => json!({ "stringValue": text }),
        other => json!({ "stringValue": other.to_string() }),
    }
}

fn nanos(ms: i64) -> String {
    (i128::from(ms.max(0)) * 1_000_000).to_string()
}
