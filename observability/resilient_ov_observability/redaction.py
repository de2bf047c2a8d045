"""Says what may leave this process through a log line, span, status page or exemplar.

Rule: an allow-list. A field that is not named here does not leave; a value that does not have its
field's shape does not leave either. Nothing is searched for secrets: what has a closed shape
cannot hold one.
"""

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from math import isfinite
from typing import Final, cast

from resilient_ov.domain import errors
from resilient_ov.domain.exchange import FailureKind, Operation
from resilient_ov.events import labels
from resilient_ov.settings.server import AuthMode, ServerProfile

Check = Callable[[object], object]

MAX_EXEMPLAR_CHARS: Final = 100
"""OpenMetrics allows 128 characters for names and values of an exemplar's labels together."""

ERROR_TYPES: Final = frozenset(
    {name for name in vars(errors) if name.endswith("Error")}
    | {"CancelledError", "TimeoutError", "StateUnwritableError", "NewerStateError"}
)
"""Class names that may be told; any other is told as OTHER_ERROR."""
OTHER_ERROR: Final = "_OTHER"

_ENUMS: tuple[type[StrEnum], ...] = (
    Operation,
    FailureKind,
    AuthMode,
    ServerProfile,
    *(getattr(labels, name) for name in labels.__all__),
)
WORDS: Final = frozenset(str(word) for enum in _ENUMS for word in enum) | {
    "hits_rejected",
    "budget_too_small",
}
"""Every closed word of the events; reasons and groups are among them."""
# A look-up also turns a member of an enumeration into its plain word, at a third of str()'s cost.
_PLAIN: Final = {word: word for word in WORDS}


def _shape(pattern: str) -> Check:
    matches = re.compile(pattern).fullmatch

    def check(value: object) -> object:
        return value if isinstance(value, str) and matches(value) else None

    return check


def _word(value: object) -> object:
    return _PLAIN.get(value) if isinstance(value, str) else None


def _error_type(value: object) -> object:
    return value if isinstance(value, str) and value in ERROR_TYPES else OTHER_ERROR


def _count(value: object) -> object:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _milliseconds(value: object) -> object:
    return round(float(value), 3) if isinstance(value, int | float) and isfinite(value) else None


def _truth(value: object) -> object:
    return value if isinstance(value, bool) else None


def _settings(value: object) -> object:
    """Keep settings that are numbers, truth values, closed words, or the mark of a secret."""
    if not isinstance(value, tuple):
        return None
    pairs = cast("tuple[tuple[str, object], ...]", value)
    return {name: setting for name, setting in pairs if _setting_name(name) and _harmless(setting)}


def _harmless(setting: object) -> bool:
    if isinstance(setting, str):
        return setting in WORDS or setting in ("set", "unset")
    return setting is None or (isinstance(setting, bool | int | float) and isfinite(setting))


_setting_name = _shape(r"[a-z][a-z0-9_]{0,39}(\.[a-z][a-z0-9_]{0,39})?")

ALLOWED: Final[Mapping[str, Check]] = {
    "operation": _word,
    "call": _word,
    "outcome": _word,
    "duration_ms": _milliseconds,
    "success": _truth,
    "status_code": _count,
    "error_type": _error_type,
    "retry_count": _count,
    "attempts": _count,
    "breaker_state": _word,
    "result_count": _count,
    "account_alias": _shape(r"[A-Za-z0-9_.-]{1,64}"),
    "user_hash": _shape(r"df_[0-9a-f]{40}"),
    "session_hash": _shape(r"df_[a-z2-7]{52}"),
    "trace_id": _shape(r"[!-~]{1,512}"),
    "request_id": _shape(r"[A-Za-z0-9-]{1,64}"),
    "task_id": _shape(r"[A-Za-z0-9_-]{1,64}"),
    "group": _word,
    "reason": _word,
    "pending": _count,
    "dropped": _count,
    "suppressed": _count,
    "failures": _count,
    "first_failure_at": _shape(r"[0-9T:.+Z-]{1,40}"),
    "version": _shape(r"[0-9A-Za-z.+-]{1,40}"),
    "server_profile": _word,
    "settings": _settings,
}
"""What may leave, and the shape it must have."""


def permit(field: str, value: object) -> object:
    """Return the value if it may leave under that name, else None."""
    check = ALLOWED.get(field)
    return None if check is None or value is None else check(value)


def clean(fields: Mapping[str, object]) -> dict[str, object]:
    """Return the fields that may leave; order is kept, empty ones are left out."""
    kept: dict[str, object] = {}
    for name, value in fields.items():
        if value is None:
            continue
        check = ALLOWED.get(name)
        if check is not None and (permitted := check(value)) is not None:
            kept[name] = permitted
    return kept


def exemplar_trace_id(trace_id: str) -> str | None:
    """Return the trace id if it may be an exemplar's label."""
    permitted = permit("trace_id", trace_id)
    return str(permitted) if permitted and len(trace_id) <= MAX_EXEMPLAR_CHARS else None
