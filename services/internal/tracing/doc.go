// Package tracing tells failovers and calls to sellers to OpenTelemetry.
//
// The trace of a failover is made from its record and its events, by one pure
// function: Spans. Trace and span ids are derived (events.FailoverTrace), so the
// tree is the same whoever makes it, however often, and after any restart. It is
// exported once the record is appended, when every part has its end: a span of
// the past cannot be taken back.
//
// Calls under way are spans of their own, below those of the tree: a seller's program
// reads the trace from the request's headers.
//
// Nothing is exported unless the environment names somewhere: OTEL_EXPORTER_OTLP_ENDPOINT (OTLP over
// HTTP, with the usual variables beside it) or SPOTFERRY_TRACE_FILE (OTLP JSON, one request a line).
package tracing
