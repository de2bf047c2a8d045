"""Draws the sweep of `resilient-ov recall`: hits over thresholds, and where the scores lie."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from resilient_ov.domain.recall_report import Fate, Judged, Limits, Point

_KEPT = {Fate.INJECTED, Fate.TOO_LONG, Fate.NO_ROOM}


def draw_sweep(
    file: Path, judged: Sequence[Judged], points: Sequence[Point], limits: Limits
) -> None:
    """Write the picture; the ending of the name says in which format."""
    figure = Figure(figsize=(8, 5), layout="constrained")
    FigureCanvasAgg(figure)
    counts, scores = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    thresholds = [point.score_threshold for point in points]
    counts.step(
        thresholds, [point.above for point in points], where="post", label="hits above", lw=2
    )
    counts.step(
        thresholds,
        [point.returned for point in points],
        where="post",
        label=f"returned (top_k {limits.top_k})",
        lw=2,
        ls="--",
    )
    counts.set_ylabel("hits")
    counts.set_ylim(bottom=0)
    counts.yaxis.set_major_locator(MaxNLocator(integer=True))
    counts.set_title("What each score threshold would leave of this recall")
    for kept, color, name in ((True, "tab:green", "returned"), (False, "tab:gray", "cut")):
        at = [one.score for one in judged if (one.fate in _KEPT) is kept]
        scores.scatter(at, [0.0] * len(at), marker="|", s=300, color=color, label=name)
    scores.set_yticks([])
    scores.set_ylim(-1, 2)
    scores.set_xlabel("score")
    scores.set_xlim(0, 1)
    line = {"color": "tab:red", "lw": 1, "label": f"score_threshold {limits.score_threshold:g}"}
    for axes in (counts, scores):
        axes.axvline(limits.score_threshold, **line)
    counts.legend(loc="upper right", fontsize="small")
    scores.legend(loc="upper left", fontsize="small", ncols=3, markerscale=0.4)
    figure.savefig(file, dpi=120)  # pyright: ignore[reportUnknownMemberType]
