"""Wall-clock texts in the forms the wire uses."""

from datetime import UTC, datetime


def now_iso() -> str:
    """`2026-11-30T14:58:26.451860+00:00`: messages and accounts."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def to_iso(seconds: float) -> str:
    """A Unix time in the form of `now_iso`."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")


def now_millis() -> str:
    """`2026-11-30T14:58:26.451Z`: session metadata and files."""
    moment = datetime.now(UTC).isoformat(timespec="milliseconds")
    return moment.removesuffix("+00:00") + "Z"
