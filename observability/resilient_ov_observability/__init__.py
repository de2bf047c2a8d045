"""Event sinks: structured events, metrics, spans, redaction."""
