"""``python -m grafana.tests.live.pictures FOLDER``: draws the dashboards from one live run.

Not Grafana: matplotlib draws each panel's own queries, title, unit, thresholds and state colours in
the dashboard's own layout, from the Prometheus of that run. What it cannot show is Grafana itself.
"""

import itertools
import math
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import dates, pyplot
from matplotlib.patches import Patch

from grafana.tests.expressions import boards, panels, plain
from grafana.tests.live.stage import CALM, JOB, Run, stage

BACK, PANEL, TEXT = "#111217", "#181b1f", "#ccccdc"
COLORS = ("#73bf69", "#f2cc0c", "#5794f2", "#ff9830", "#b877d9", "#f2495c", "#8ab8ff", "#96d98d")
NAMED = {"green": "#73bf69", "yellow": "#f2cc0c", "red": "#f2495c", "blue": "#5794f2"}
FAULT = "#f2495c"
WIDTH, CELL = 24, 0.36


def filled(expr: str) -> str:
    return plain(expr, interval="5s", shown="170s", job=JOB)


def told(value: float, unit: str, decimals: int | None = None) -> str:
    if math.isnan(value):
        return "-"
    if decimals is not None and unit == "short":
        return f"{value:.{decimals}f}"
    match unit:
        case "percentunit":
            return f"{value:.1%}"
        case "s" if value < 1:
            return f"{value * 1000:.0f} ms"
        case "s":
            return f"{value:.3g} s"
        case "cps" | "reqps":
            return f"{value:.3g}/s"
        case _:
            return f"{value:.3g}"


def legend(pattern: str, metric: dict[str, str]) -> str:
    name = re.sub(r"\{\{(\w+)\}\}", lambda found: metric.get(found[1], ""), pattern)
    return name or "value"


def lines(run: Run, panel: dict[str, Any]) -> list[tuple[str, list[float], list[float]]]:
    found = []
    for target in panel["targets"]:
        for series in run.over_time(filled(target["expr"])):
            times = [at_s for at_s, _ in series["values"]]
            values = [float(value) for _, value in series["values"]]
            if any(not math.isnan(value) for value in values):
                found.append((legend(target["legendFormat"], series["metric"]), times, values))
    return found


def color_at(panel: dict[str, Any], value: float) -> str:
    defaults = panel["fieldConfig"]["defaults"]
    for mapping in defaults.get("mappings", []):
        if f"{value:g}" in mapping["options"]:
            color = mapping["options"][f"{value:g}"]["color"]
            return NAMED.get(color, color)
    steps = (defaults.get("thresholds") or {}).get("steps", [])
    passed = [s["color"] for s in steps if s.get("value") is None or value >= s["value"]]
    return NAMED.get(passed[-1], passed[-1]) if passed else NAMED["green"]


def name_of(panel: dict[str, Any], value: float) -> str | None:
    for mapping in panel["fieldConfig"]["defaults"].get("mappings", []):
        if f"{value:g}" in mapping["options"]:
            return str(mapping["options"][f"{value:g}"]["text"])
    return None


def draw_figure(axes: Any, run: Run, panel: dict[str, Any]) -> None:
    found = lines(run, panel)
    unit = panel["fieldConfig"]["defaults"]["unit"]
    text, color = panel["fieldConfig"]["defaults"]["noValue"], PANEL
    if found:
        name, _, values = found[0]
        last = [value for value in values if not math.isnan(value)][-1]
        text = name_of(panel, last) or told(
            last, unit, panel["fieldConfig"]["defaults"].get("decimals")
        )
        color = color_at(panel, last)
        if name != "value":
            text = f"{name}\n{text}"
    axes.set_facecolor(color)
    axes.text(0.5, 0.5, text, ha="center", va="center", fontsize=15, color="white", weight="bold")
    axes.set_xticks([])
    axes.set_yticks([])


def draw_states(axes: Any, run: Run, panel: dict[str, Any]) -> None:
    found = lines(run, panel)
    for row, (_, times, values) in enumerate(found):
        for value, grouped in itertools.groupby(zip(times, values, strict=True), lambda p: p[1]):
            span = [at_s for at_s, _ in grouped]
            axes.barh(
                row,
                (span[-1] - span[0] + 1) / 86400,
                left=span[0] / 86400,
                height=0.8,
                color=color_at(panel, value),
            )
    axes.set_yticks(range(len(found)), [name for name, _, _ in found])
    states = panel["fieldConfig"]["defaults"]["mappings"][0]["options"].values()
    keys = [Patch(color=NAMED.get(s["color"], s["color"]), label=s["text"]) for s in states]
    below(axes, keys)


def draw_lines(axes: Any, run: Run, panel: dict[str, Any]) -> None:
    found = lines(run, panel)
    unit = panel["fieldConfig"]["defaults"]["unit"]
    # Grafana keeps every line; here flat zeros only crowd the legend.
    moving = [each for each in found if any(value for value in each[2] if not math.isnan(value))]
    shown = sorted(moving or found[:1], key=lambda each: -max(v for v in each[2] if v == v))[:7]
    stacked = panel["fieldConfig"]["defaults"]["custom"].get("stacking", {}).get("mode") == "normal"
    base: dict[float, float] = {}
    used: dict[str, int] = {}
    for plain_color, (name, times, values) in zip(itertools.cycle(COLORS), shown, strict=False):
        color = color_of(panel, name, plain_color, used)
        days = [at_s / 86400 for at_s in times]
        if stacked:
            low = [base.get(at_s, 0.0) for at_s in times]
            high = [b + (v if v == v else 0.0) for b, v in zip(low, values, strict=True)]
            base.update(zip(times, high, strict=True))
            axes.fill_between(days, low, high, color=color, alpha=0.75, linewidth=0, label=name)
        else:
            axes.plot(days, values, color=color, linewidth=1.4, label=name)
    top = max([v for each in shown for v in each[2] if v == v and not math.isinf(v)], default=1.0)
    defaults = panel["fieldConfig"]["defaults"]
    steps = (defaults.get("thresholds") or {}).get("steps", [])
    drawn = steps if defaults["custom"].get("thresholdsStyle") else []
    for step in drawn:
        if (step.get("value") or math.inf) <= 1.5 * top:
            color = NAMED.get(step["color"], step["color"])
            axes.axhline(step["value"], color=color, linestyle="--", linewidth=0.8)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(lambda value, _: told(value, unit))
    if shown:
        below(axes, None)


def below(axes: Any, handles: Any) -> None:
    told_below: dict[str, Any] = {"handles": handles} if handles else {}
    axes.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, -0.16),
        ncols=4,
        fontsize=6.5,
        frameon=False,
        labelcolor=TEXT,
        handlelength=1.2,
        columnspacing=1.0,
        **told_below,
    )


def color_of(panel: dict[str, Any], name: str, otherwise: str, used: dict[str, int]) -> Any:
    """The colour that an override gives to a series, a shade further each time."""
    for override in panel["fieldConfig"].get("overrides", []):
        pattern = str(override["matcher"]["options"]).strip("/")
        if re.search(pattern, name):
            color = override["properties"][0]["value"]["fixedColor"]
            used[color] = used.get(color, 0) + 1
            share = 0.82 ** (used[color] - 1)
            return tuple(share * part for part in mpl.colors.to_rgb(NAMED[color]))
    return otherwise


DRAW = {"stat": draw_figure, "state-timeline": draw_states, "timeseries": draw_lines}


def draw(run: Run, board: dict[str, Any], path: Path) -> None:
    bottom = max(p["gridPos"]["y"] + p["gridPos"]["h"] for p in board["panels"])
    figure = pyplot.figure(figsize=(15, bottom * CELL + 0.6), facecolor=BACK)
    high = bottom * CELL + 0.6
    figure.text(0.01, 1 - 0.25 / high, board["title"], color=TEXT, fontsize=13, va="center")
    note = "shaded: something is broken (server silent, resets, wrong key, full disk); one live run"
    figure.text(0.99, 1 - 0.25 / high, note, color=TEXT, fontsize=8, va="center", ha="right")
    for panel in board["panels"]:
        place = panel["gridPos"]
        top = 1 - (place["y"] * CELL + 0.5) / high
        if panel["type"] == "row":
            figure.text(
                0.01, top - 0.2 / high, panel["title"], color=TEXT, fontsize=10, va="center"
            )
            continue
        figure_panel = panel["type"] == "stat"
        left, wide = place["x"] / WIDTH, place["w"] / WIDTH
        tall = place["h"] * CELL / high
        inner = 0.30 / high
        foot = 0.08 / high if figure_panel else 0.75 / high
        side = 0.008 if figure_panel else 0.045
        axes = figure.add_axes(
            (left + side, top - tall + foot, wide - side - 0.01, tall - inner - foot),
            facecolor=PANEL,
        )
        axes.set_title(panel["title"], color=TEXT, fontsize=8.5, loc="left", pad=4)
        axes.tick_params(colors=TEXT, labelsize=6.5)
        for spine in axes.spines.values():
            spine.set_visible(False)
        DRAW[panel["type"]](axes, run, panel)
        if not figure_panel:
            axes.grid(color="#2c3235", linewidth=0.5)
            axes.set_xlim(run.phases[CALM][0] / 86400, run.ended_s / 86400)
            axes.xaxis.set_major_formatter(dates.DateFormatter("%H:%M:%S"))
            axes.xaxis.set_major_locator(dates.SecondLocator(bysecond=(0, 30)))
            for name, (began_s, ended_s) in run.phases.items():
                if name not in {CALM, "healed", "switched"}:
                    axes.axvspan(began_s / 86400, ended_s / 86400, color=FAULT, alpha=0.12)
    figure.savefig(path, dpi=80, facecolor=BACK)
    pyplot.close(figure)


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made, stage(Path(made)) as run:
        for uid, board in boards():
            assert list(panels(board))
            draw(run, board, folder / f"{uid.removeprefix('resilient-ov-')}.png")
            print(folder / f"{uid.removeprefix('resilient-ov-')}.png")


if __name__ == "__main__":
    main()
