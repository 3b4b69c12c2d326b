//! Tests of bundles.
