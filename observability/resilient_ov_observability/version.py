"""The version of this distribution, as installed.

No I/O here beyond reading the installed metadata once.
"""

from importlib.metadata import PackageNotFoundError, version


def _installed() -> str:
    try:
        return version("resilient-ov")
    except PackageNotFoundError:
        # Run from a source tree that nobody installed.
        return "unknown"


VERSION = _installed()
