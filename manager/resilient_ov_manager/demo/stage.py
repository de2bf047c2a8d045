"""How the demo looks: acts, tables of calls, and each check with its verdict.

Rule: draws and keeps count, decides nothing about memory.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

_MS_PER_S = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of the host: what it was, how long it took, and what came of it."""

    name: str
    speaker: str
    took_s: float
    outcome: str
    saw: str


class Stage:
    """Draws on a console and remembers the checks."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._checks: list[tuple[str, bool]] = []
        self._acts = 0

    def opening(self, text: str) -> None:
        """Say what is going to be shown."""
        self._console.print(Panel(Text(text), title="resilient-ov demo", border_style="cyan"))

    def act(self, title: str, text: str) -> None:
        """Begin a part: what happens, and what to look at."""
        self._acts += 1
        self._console.print()
        self._console.rule(Text(f"{self._acts}. {title}", style="bold cyan"), align="left")
        self._console.print(Text(text, style="dim"))

    def note(self, text: str) -> None:
        """Say something in between."""
        self._console.print(Text(f"  {text}"))

    def event(self, text: str) -> None:
        """Say that something drastic happened."""
        self._console.print(Text(f"  >> {text}", style="bold yellow"))

    def quote(self, title: str, text: str) -> None:
        """Show a text exactly as it went to the model."""
        self._console.print(
            Panel(Text(text), title=title, title_align="left", border_style="dim", padding=(0, 1))
        )

    def log(self, lines: Sequence[str]) -> None:
        """Show what the backend has logged meanwhile."""
        if lines:
            self.quote("the gateway's log meanwhile", "\n".join(lines))

    def table(
        self, columns: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[int] = ()
    ) -> None:
        """Show rows; the columns whose positions are in ``numbers`` are aligned to the right."""
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for position, name in enumerate(columns):
            right = position in numbers
            table.add_column(
                name, justify="right" if right else "left", no_wrap=right, overflow="fold"
            )
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        self._console.print(Text(), table, Text(), sep="\n")

    def calls(self, calls: Iterable[Call]) -> None:
        """Show calls of the host, in the order they were made."""
        self.table(
            ("call", "who", "took", "outcome", "agent sees"),
            [
                (call.name, call.speaker, shown_time(call.took_s), call.outcome, call.saw)
                for call in calls
            ],
            numbers=(2,),
        )

    def check(self, text: str, *, holds: bool) -> None:
        """Show a check and remember it."""
        self._checks.append((text, holds))
        mark = ("ok  ", "bold green") if holds else ("FAIL", "bold red")
        self._console.print(Text.assemble("  ", mark, "  ", text))

    def closing(self, took_s: float) -> bool:
        """Show the verdict; return whether every check held."""
        failed = [text for text, holds in self._checks if not holds]
        lines = Text(f"{len(self._checks) - len(failed)} of {len(self._checks)} checks hold")
        lines.append(f", in {took_s:.0f} s.")
        for text in failed:
            lines.append(f"\nFAIL  {text}", style="bold red")
        self._console.print()
        self._console.print(
            Panel(lines, title="verdict", border_style="red" if failed else "green")
        )
        return not failed


def shown_time(took_s: float) -> str:
    """Return a duration as a reader compares it."""
    if took_s >= 1.0:
        return f"{took_s:.1f} s"
    return f"{took_s * _MS_PER_S:.0f} ms" if took_s >= 0.001 else "< 1 ms"
