"""One picture for each scenario: latency, outcomes and breakers over time, the fault shaded.

Rule: drawn from the history alone.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import ceil, floor
from pathlib import Path
from textwrap import fill
from typing import Any, Final

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from resilient_ov_chaos.history import BreakerMoved, Call, History, Operation, Result
from resilient_ov_chaos.verdict import GATEWAY

_READS: Final = (Call.GET_CONTEXT, Call.SEARCH)
_BINS: Final = 40
"""Pieces of time in a picture, about."""
_STATES: Final = {
    "closed": ("#c7c7c7", 0.1),
    "half_open": ("#ff7f0e", 0.7),
    "open": ("#d62728", 0.7),
}
"""Color and height of a bar."""
_GROUPS: Final = ("host", "recall", "session", "append", "commit")
_TICKS: Final = {0.001: "1 ms", 0.01: "10 ms", 0.1: "0.1 s", 1.0: "1 s"}
_SHADE: Final = "#d62728"
_BLUES: Final = {"p50": "#9ecae1", "p95": "#4292c6", "p99": "#08306b"}


def _served(each: Operation) -> bool:
    return each.result is Result.SERVED


def _without(each: Operation) -> bool:
    return each.call in _READS and each.result is Result.EMPTY


def _accepted(each: Operation) -> bool:
    return each.result is Result.ACCEPTED


def _raised(each: Operation) -> bool:
    return each.result is Result.RAISED


_OUTCOMES: Final = (
    ("read served", "#2ca02c", _served),
    ("read without memory", "#bcbd22", _without),
    ("write accepted", "#1f77b4", _accepted),
    ("raised", "#d62728", _raised),
)


def plot(history: History, path: Path, *, title: str, told: str, budget_s: float) -> None:
    """Write the picture of a scenario as PNG; ``told`` is what was expected of it."""
    on_s, off_s = history.fault_s
    gateways = history.processes(GATEWAY)
    seen = [
        each
        for each in history.operations
        if each.process in gateways and each.ended_s is not None and each.call is not Call.FLUSH
    ]
    figure: Any = Figure(figsize=(10, 8.4), layout="constrained")
    FigureCanvasAgg(figure)
    latency, outcomes, breakers = figure.subplots(
        3, 1, sharex=True, gridspec_kw={"height_ratios": [3, 3, 2]}
    )
    figure.suptitle(f"{title}\n{fill(told, 110)}", fontsize=11)
    begin_s = min((each.began_s for each in seen), default=on_s)
    end_s = max((each.began_s + each.took_s for each in seen), default=off_s)
    width_s = max(0.1, round((end_s - begin_s) / _BINS, 1))
    edges = [
        n * width_s
        for n in range(floor((begin_s - on_s) / width_s), ceil((end_s - on_s) / width_s) + 1)
    ]
    _latency(latency, seen, on_s, edges, budget_s)
    _outcomes(outcomes, seen, on_s, edges)
    _breakers(breakers, history, gateways, edges[0], on_s, edges[-1])
    for axes in (latency, outcomes, breakers):
        axes.axvspan(0, off_s - on_s, color=_SHADE, alpha=0.12, lw=0, zorder=0)
        axes.grid(visible=True, alpha=0.3)
    latency.set_xlim(edges[0], edges[-1])
    latency.text(
        0.0, 1.01, "fault", transform=latency.get_xaxis_transform(), color=_SHADE, va="bottom"
    )
    _turning_points(outcomes, seen, on_s, history.mended_s)
    breakers.set_xlabel("seconds since the fault began")
    figure.savefig(path, dpi=110)


def _latency(
    axes: Any, seen: Sequence[Operation], on_s: float, edges: Sequence[float], budget_s: float
) -> None:
    # Searches have a budget of their own.
    reads = [each for each in seen if each.call is Call.GET_CONTEXT]
    pieces = [(a + b) / 2 for a, b in pairwise(edges)]
    by_piece = [
        sorted(each.took_s for each in reads if a <= each.began_s - on_s < b)
        for a, b in pairwise(edges)
    ]
    for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
        at = [
            (x, took[min(len(took) - 1, int(share * len(took)))])
            for x, took in zip(pieces, by_piece, strict=True)
            if took
        ]
        axes.plot(
            [x for x, _ in at], [y for _, y in at], label=f"recall {name}", color=_BLUES[name]
        )
    writes = [each for each in seen if each.call is Call.ADD]
    axes.scatter(
        [each.began_s - on_s for each in writes],
        [each.took_s for each in writes],
        s=6,
        color="#ff7f0e",
        alpha=0.5,
        label="add",
    )
    axes.axhline(budget_s, color="black", lw=0.8, ls="--")
    axes.text(edges[-1], budget_s, "budget of a recall ", va="bottom", ha="right", fontsize=8)
    axes.set_yscale("log")
    axes.set_yticks(list(_TICKS), list(_TICKS.values()))
    axes.set_ylabel("a call takes")
    _legend(axes)


def _turning_points(axes: Any, seen: Sequence[Operation], on_s: float, mended_s: float) -> None:
    """Write down when turns began to go on without memory, and when they had it again."""
    reads = [(each.began_s + each.took_s, each) for each in seen if each.call in _READS]
    ends = sorted(reads, key=lambda end: end[0])
    lost_s = next((at_s for at_s, each in ends if at_s > on_s and _without(each)), None)
    back_s = next((at_s for at_s, each in ends if at_s > mended_s and _served(each)), None)
    marks = (
        (lost_s, on_s, "without memory after {:.1f} s"),
        (back_s if lost_s is not None else None, mended_s, "memory again {:.1f} s after the fault"),
    )
    for height, (at_s, since_s, text) in zip((0.95, 0.84), marks, strict=True):
        if at_s is not None:
            axes.axvline(at_s - on_s, color="black", lw=1.0, ls=":")
            axes.text(
                at_s - on_s,
                height,
                " " + text.format(at_s - since_s),
                transform=axes.get_xaxis_transform(),
                va="top",
                fontsize=9,
            )


def _outcomes(axes: Any, seen: Sequence[Operation], on_s: float, edges: Sequence[float]) -> None:
    width_s = edges[1] - edges[0]
    rates: list[list[float]] = []
    for _, _, belongs in _OUTCOMES:
        ends = [each.began_s + each.took_s - on_s for each in seen if belongs(each)]
        rates.append([sum(a <= end < b for end in ends) / width_s for a, b in pairwise(edges)])
    axes.stackplot(
        [(a + b) / 2 for a, b in pairwise(edges)],
        rates,
        labels=[name for name, _, _ in _OUTCOMES],
        colors=[color for _, color, _ in _OUTCOMES],
        alpha=0.85,
    )
    axes.set_ylabel("calls ended per second")
    _legend(axes)


def _breakers(
    axes: Any, history: History, gateways: Sequence[int], begin_s: float, on_s: float, end_s: float
) -> None:
    for row, group in enumerate(_GROUPS):
        moves = [
            each
            for each in history.of(BreakerMoved)
            if each.group == group and each.process in gateways
        ]
        times = [begin_s, *(each.at_s - on_s for each in moves), end_s]
        states = ["closed", *(each.to_state for each in moves)]
        for state, (color, height) in _STATES.items():
            spans = [
                (since, until - since)
                for known, (since, until) in zip(states, pairwise(times), strict=True)
                if known == state
            ]
            axes.broken_barh(spans, (row - height / 2, height), color=color)
        # A probe may be too short to be seen.
        probes = [each.at_s - on_s for each in moves if each.to_state == "half_open"]
        axes.scatter(probes, [row] * len(probes), marker="|", s=160, color=_STATES["half_open"][0])
    for state, (color, _) in _STATES.items():
        axes.barh(0, 0, color=color, label=state.replace("_", "-"))
    axes.set_yticks(range(len(_GROUPS)), _GROUPS)
    axes.set_ylim(-0.6, len(_GROUPS) - 0.4)
    axes.set_ylabel("breakers")
    _legend(axes)


def _legend(axes: Any) -> None:
    """Put the legend above the drawing, where it hides nothing."""
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=4, fontsize=8, frameon=False)
