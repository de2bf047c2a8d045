"""Looks at parsed JSON without trusting its types. No I/O here."""

from typing import Any, cast


def as_object(value: object) -> dict[str, Any] | None:
    """Return a JSON object, None for anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def as_list(value: object) -> list[object] | None:
    """Return a JSON list, None for anything else."""
    return cast("list[object]", value) if isinstance(value, list) else None


def texts(value: object) -> tuple[str, ...]:
    """Return the texts in a JSON list, without whatever else is in it."""
    return tuple(item for item in as_list(value) or () if isinstance(item, str))
