"""Renders the catalogue as the page METRICS.md.

No I/O here.
"""

from collections.abc import Iterable

from resilient_ov_observability.metric import Kind, Metric

_HEAD = """\
# Metrics

Generated from `resilient_ov_observability/catalogue.py`; do not edit
(`python -m resilient_ov_observability.catalogue > METRICS.md`).

Every label value is listed here and no other ever appears: there is no label for a user, session,
agent, URL or error text, so the number of series does not depend on traffic. Series exist from the
start, with 0 unless the table says otherwise.

With `PROMETHEUS_MULTIPROC_DIR` set, the workers of a server show one page; the column "over
processes" says how a gauge is put together. Each scrape first drops the live gauges of processes
that have ended. In that mode there are no exemplars, and a gauge that would be NaN is absent.
In one process, latency histograms carry the trace id of a recent call as an exemplar
(OpenMetrics format).
"""


def document(metrics: Iterable[Metric]) -> str:
    """Return the page for these metrics."""
    rows = list(metrics)
    lines = [
        _HEAD,
        "| metric | type | labels | over processes | meaning |",
        "|---|---|---|---|---|",
    ]
    lines += [_row(metric) for metric in rows]
    lines += ["", "## Label values", ""]
    lines += [f"- {line}" for line in _label_lines(rows)]
    lines += ["", "## Bucket edges", ""]
    lines += [
        f"- `{metric.name}`: {' '.join(f'{edge:g}' for edge in metric.edges)}"
        for metric in rows
        if metric.kind is Kind.HISTOGRAM
    ]
    total = sum(metric.sample_count() for metric in rows)
    lines += ["", f"{len(rows)} metrics, at most {total} samples a process."]
    return "\n".join(lines) + "\n"


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{name}`" for name in metric.label_names) or "-"
    mode = metric.mode.value if metric.mode else "sum"
    return (
        f"| `{metric.name}` | {metric.kind} | {labels} | {mode} | {metric.help}{_start(metric)} |"
    )


def _start(metric: Metric) -> str:
    if metric.initial is None:
        return " Absent until known."
    return " Starts at 1." if metric.initial == 1.0 else ""


def _label_lines(rows: Iterable[Metric]) -> list[str]:
    """Return one line per label and set of values, naming the metrics that use it."""
    users: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for metric in rows:
        for label in metric.labels:
            if label.name != "version":
                users.setdefault((label.name, label.values), []).append(metric.name)
    return [
        f"`{name}` of {', '.join(f'`{user}`' for user in names)}: {' '.join(values)}"
        for (name, values), names in users.items()
    ]
