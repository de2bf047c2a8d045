"""Writes PromQL for panels: every selector carries the dashboard's job and instance.

No I/O here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

READS: Final = "get_context|search"
"""Values of ``call`` that are recalls."""
WRITES: Final = "add|add_nowait"
FAILED: Final = "degraded_.*"
"""Values of ``outcome`` with which the agent went on without memory."""


@dataclass(frozen=True, slots=True)
class Source:
    """Who is asked: the variables that choose the scraped job and its instances."""

    job: str
    instance: str

    def select(self, metric: str, **match: str) -> str:
        """Return a selector; a value is a regular expression, a leading ``!`` negates it."""
        chosen = [f'job=~"${self.job}"', f'instance=~"${self.instance}"']
        return f"{metric}{{{', '.join([*chosen, *matchers(match)])}}}"

    def rate(self, metric: str, by: str = "", **match: str) -> str:
        """Return a counter's increase per second."""
        return f"{total(by)} (rate({self.select(metric, **match)}[$__rate_interval]))"

    def increase(self, metric: str, by: str = "", **match: str) -> str:
        """Return a counter's increase over the time that the dashboard shows."""
        return f"{total(by)} (increase({self.select(metric, **match)}[$__range]))"

    def quantile(self, share: float, metric: str, by: str = "", **match: str) -> str:
        """Return a quantile of a histogram (its name without ``_bucket``)."""
        buckets = self.rate(f"{metric}_bucket", by=f"le, {by}" if by else "le", **match)
        return f"histogram_quantile({share}, {buckets})"

    def gauge(self, how: str, metric: str, by: str = "", **match: str) -> str:
        """Return a gauge put together over instances by ``how`` (max, min, sum)."""
        grouped = f"{how} by ({by})" if by else how
        return f"{grouped} ({self.select(metric, **match)})"


CLIENT: Final = Source("job", "instance")
SERVER: Final = Source("server_job", "server_instance")


def total(by: str) -> str:
    """Return the head of a sum."""
    return f"sum by ({by})" if by else "sum"


def matchers(match: dict[str, str]) -> Sequence[str]:
    """Return matchers of label values; ``a|b`` is a choice, a leading ``!`` negates."""
    return [_matcher(name, value) for name, value in match.items()]


def _matcher(name: str, value: str) -> str:
    wanted = value.removeprefix("!")
    plain = wanted.replace("_", "").replace(".", "").isalnum() and ".*" not in wanted
    operator = ("!=" if plain else "!~") if value != wanted else ("=" if plain else "=~")
    return f'{name}{operator}"{wanted}"'
