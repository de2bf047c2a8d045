"""`resilient-ov recall`: a dry run of a recall on the live server, and why each hit is cut.

Reads only. It prints the memories of a user, which is what it is for: mind who looks on.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from resilient_ov_manager.terminal import CommandError, ExitCode, out

if TYPE_CHECKING:
    from collections.abc import Sequence

    from resilient_ov.domain.exchange import Failure, Identity
    from resilient_ov.domain.recall_report import Judged, Limits, Point
    from resilient_ov.settings import Settings
    from resilient_ov_manager.live_server import LiveServer

_STEP = 0.05
_BAR_CHARS = 20
_WHY = {
    "injected": "",
    "too_long": "not injected: longer than retrieval.max_item_chars",
    "no_room": "not injected: no room in retrieval.max_injection_chars, or nothing left of it",
    "beyond_top_k": "cut by top_k",
    "below_threshold": "cut by retrieval.score_threshold",
    "repeated": "repeats a better hit",
    "other_category": "another category",
    "not_a_memory": "the note of a directory, or blank",
    "not_own": "NOT of this user: refused (text not shown)",
}


def recall(
    user: Annotated[str, typer.Option(help="User id, exactly as DeerFlow passes it.")],
    config: Annotated[
        Path,
        typer.Option(metavar="FILE", help="DeerFlow's config.yaml, or a bare backend_config."),
    ],
    query: Annotated[
        str | None,
        typer.Argument(help="What is asked; without it the configured injection query."),
    ] = None,
    agent: Annotated[
        str | None, typer.Option(help="Name of a custom agent; without it the lead agent.")
    ] = None,
    category: Annotated[
        str | None, typer.Option(help="Only this category, such as preferences.")
    ] = None,
    top_k: Annotated[
        int | None,
        typer.Option(min=1, max=100, help="Most hits.  [default: retrieval.top_k]"),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            min=0.0, max=1.0, help="Try another threshold.  [default: retrieval.score_threshold]"
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the sweep into a .png or .svg file."),
    ] = None,
    *,
    sweep: Annotated[
        bool, typer.Option("--sweep", help="Show what each threshold would give.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print it as JSON, for programs.")
    ] = False,
) -> None:
    """Show what a recall finds, what is injected, and what is cut by which setting.

    The server is asked once without a threshold for up to 100 hits, then the configured
    threshold, top_k and caps are applied as in a call of DeerFlow. Nothing is written, and
    nothing of the running gateway is touched. With --sweep you see how many hits each threshold
    would leave: a good one lies in the gap between what belongs to the question and what does
    not. Ask several real questions, and one that has no answer.

    Exit codes: 0 = shown, also when nothing was found; 1 = the server is not usable; 2 = a wrong
    option or configuration.
    """
    from resilient_ov.settings import InjectionMode
    from resilient_ov_manager.live_server import LiveServer, settings_of

    settings = settings_of(config)
    asked = settings.retrieval.injection_query if query is None else query
    if not asked.strip():
        raise CommandError("the query is blank, and a blank query is never sent. Name one")
    if plot is not None:
        _check_plot(plot)
    limits = _limits(settings, top_k, threshold)
    identity = _identity(settings, user, agent)
    with LiveServer(settings) as server:
        judged = _asked(server, settings, identity, asked, category, limits)
    points = _points(judged, limits) if sweep or plot is not None else []
    if plot is not None:
        from resilient_ov_manager.recall_plot import draw_sweep

        draw_sweep(plot, judged, points, limits)
    if as_json:
        typer.echo(json.dumps(_as_json(judged, points, limits), indent=2, ensure_ascii=False))
        return
    _show_hits(judged, limits)
    if settings.injection.mode is InjectionMode.MEASURE:
        out().print("injection.mode is measure: get_context does this and injects nothing yet.")
    if sweep:
        _show_sweep(points, limits)
    if plot is not None:
        out().print(f"\ndrawn: {plot}", soft_wrap=True)


def _limits(settings: "Settings", top_k: int | None, threshold: float | None) -> "Limits":
    from resilient_ov.domain.recall_report import Limits

    kept = settings.retrieval
    return Limits(
        score_threshold=kept.score_threshold if threshold is None else threshold,
        top_k=kept.top_k if top_k is None else top_k,
        max_chars=kept.max_injection_chars,
        max_item_chars=kept.max_item_chars,
    )


def _identity(settings: "Settings", user: str, agent: str | None) -> "Identity":
    from resilient_ov.domain.errors import OpenVikingScopeError
    from resilient_ov.domain.identity import scope
    from resilient_ov.settings import AuthMode
    from resilient_ov.usecases.addressing import identity_of

    auth = settings.auth
    if auth.mode is AuthMode.API_KEY and user != auth.owner_user_id:
        raise CommandError("--user: the API key belongs to another user (owner_user_id)")
    try:
        return identity_of(settings, scope(auth.scope_account, user, agent))
    except OpenVikingScopeError as error:
        raise CommandError(error.problem) from None


def _asked(
    server: "LiveServer",
    settings: "Settings",
    identity: "Identity",
    query: str,
    category: str | None,
    limits: "Limits",
) -> "tuple[Judged, ...]":
    from resilient_ov.domain.exchange import Failure, Search
    from resilient_ov.domain.namespace import is_category
    from resilient_ov.domain.recall import MAX_TOP_K, ServerHit
    from resilient_ov.domain.recall_report import explain

    if category is not None and not is_category(category):
        raise CommandError("--category: must be of a-z 0-9 _ -, such as preferences")
    view = server.view(identity)
    if isinstance(view, Failure):
        raise _unusable(view, settings, settings.budgets.health_s, "budgets.health_seconds")
    command = Search(
        identity=identity,
        query=query,
        targets=view.targets(category),
        limit=MAX_TOP_K,
        score_threshold=0.0,
    )
    budget_s = settings.budgets.search_s
    answer, _ = server.ask(command, budget_s)
    if isinstance(answer, Failure):
        raise _unusable(answer, settings, budget_s, "budgets.search_seconds")
    told = answer.value if isinstance(answer.value, tuple) else ()
    hits: list[ServerHit] = [hit for hit in told if isinstance(hit, ServerHit)]
    categories = None if category is None else (category,)
    return explain(hits, view=view, limits=limits, categories=categories)


def _unusable(failure: "Failure", settings: "Settings", budget_s: float, key: str) -> CommandError:
    from resilient_ov_manager.failure_words import failure_words

    found, advice = failure_words(failure, settings.auth.mode, budget_s=budget_s, budget_key=key)
    return CommandError(f"{found}. {advice}", ExitCode.NOT_USABLE)


def _points(judged: "Sequence[Judged]", limits: "Limits") -> "list[Point]":
    from resilient_ov.domain.recall_report import sweep

    steps = round(1.0 / _STEP)
    thresholds = {round(step * _STEP, 2) for step in range(steps)} | {limits.score_threshold}
    return sweep(judged, sorted(thresholds), limits)


def _show_hits(judged: "Sequence[Judged]", limits: "Limits") -> None:
    from rich.table import Table
    from rich.text import Text

    console = out()
    if not judged:
        console.print(
            "The server found nothing for this user, whatever the threshold. DeerFlow's user ids"
            " are the names below its users/ folder, not e-mail addresses.",
            soft_wrap=True,
        )
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("score", justify="right", no_wrap=True)
    table.add_column("category", no_wrap=True)
    table.add_column("memory", ratio=3, overflow="fold")
    table.add_column("why it is cut", ratio=2, overflow="fold")
    for one in judged:
        why = _WHY[one.fate.value]
        text = "-" if one.hit is None else " ".join(one.hit.text.split())
        table.add_row(
            f"{one.score:.3f}",
            "-" if one.hit is None else one.hit.category,
            Text(text, style="" if not why else "dim"),
            Text(why or "(injected)", style="yellow" if why else "green"),
        )
    console.print(table)
    counts = {fate: sum(one.fate.value == fate for one in judged) for fate in _WHY}
    returned = counts["injected"] + counts["too_long"] + counts["no_room"]
    console.print(
        f"\n{len(judged)} hits of the server; search returns {returned}, get_context injects"
        f" {counts['injected']} (score_threshold {limits.score_threshold:g}, top_k {limits.top_k})."
    )


def _show_sweep(points: "Sequence[Point]", limits: "Limits") -> None:
    from rich.table import Table
    from rich.text import Text

    most = max([point.above for point in points], default=0)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("threshold", "hits above", "returned", "injected chars"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    for point in points:
        is_set = point.score_threshold == limits.score_threshold
        bar = "█" * round(_BAR_CHARS * point.above / most) if most else ""
        table.add_row(
            f"{point.score_threshold:.2f}",
            str(point.above),
            str(point.returned),
            str(point.injection_chars),
            Text(f"{bar} <- set" if is_set else bar, style="bold cyan" if is_set else ""),
        )
    console = out()
    console.print()
    console.print(table)


def _check_plot(plot: Path) -> None:
    from resilient_ov_manager.terminal import require_extra

    if plot.suffix not in {".png", ".svg"}:
        raise CommandError(f"--plot {plot}: the name must end with .png or .svg")
    if not plot.resolve().parent.is_dir():
        raise CommandError(f"--plot {plot}: there is no such folder")
    require_extra("chaos", "matplotlib")


def _as_json(
    judged: "Sequence[Judged]", points: "Sequence[Point]", limits: "Limits"
) -> dict[str, object]:
    return {
        "score_threshold": limits.score_threshold,
        "top_k": limits.top_k,
        "hits": [
            {
                "score": one.score,
                "fate": one.fate.value,
                "uri": None if one.hit is None else one.hit.uri,
                "category": None if one.hit is None else one.hit.category,
                "text": None if one.hit is None else one.hit.text,
            }
            for one in judged
        ],
        "sweep": [
            {
                "score_threshold": point.score_threshold,
                "above": point.above,
                "returned": point.returned,
                "injection_chars": point.injection_chars,
            }
            for point in points
        ],
    }
