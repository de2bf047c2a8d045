"""Finds what a command line names, or fails with advice: an external suite never skips."""

from pathlib import Path

import pytest


def existing(config: pytest.Config, option: str, inside: str, advice: str) -> Path:
    """Return an option's path as absolute; fails with advice when it is not what is needed."""
    given = str(config.getoption(option))
    # Not resolved: an environment is known by the place of its interpreter's link.
    path = Path(given).absolute()
    if not given or not (path / inside).exists():
        missing = f"there is no {inside or 'such file'}: {advice}"
        pytest.fail(f"{option}={given!r}: {missing}", pytrace=False)
    return path
