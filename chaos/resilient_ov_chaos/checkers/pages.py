"""Reads the product's metrics page as a checker needs it.

Pure.
"""

import re
from collections.abc import Mapping
from typing import Final

from resilient_ov_chaos.history import History, MetricsPage

_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')


def last_pages(history: History) -> dict[int, Mapping[str, float]]:
    """Return each process's last page."""
    return {page.process: page.samples for page in history.of(MetricsPage)}


def total(page: Mapping[str, float], name: str, **labels: str) -> float:
    """Return the sum of a metric's series that carry these labels."""
    return sum(
        value
        for key, value in page.items()
        if key.partition("{")[0] == name and labels.items() <= dict(_LABEL.findall(key)).items()
    )
