"""What each single value of `backend_config` must be: one pydantic type per setting.

Pure: files and environment are looked at by `host_config`. The types are made from the settings
they end up in, when first needed; a null means the default everywhere and never comes here.
"""

import os
import re
from collections.abc import Callable
from enum import StrEnum
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictStr,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import PydanticCustomError

from resilient_ov.settings import InjectionMode, KnobField, ReadFailurePolicy, ServerProfile
from resilient_ov_manager.base_url import checked_base_url

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ACCOUNT = re.compile(r"(?!_)(?!\.{1,2}\Z)(?!.*@.*@)[A-Za-z0-9_.@-]{1,255}")
_ALIAS = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_MEMORY_TYPE = re.compile(r"[a-z0-9_-]{1,64}")
_HOST = re.compile(r"[A-Za-z0-9._:-]{1,255}")
_MAX_OWNER_CHARS = 1024

# What YAML 1.1 makes of an unquoted `on` and `0.5`, and the host's spelling of fail_fast.
_SPELLINGS: tuple[tuple[str, object, StrEnum], ...] = (
    ("injection.mode", True, InjectionMode.ON),
    ("server_profile", 0.5, ServerProfile.V0_5),
    ("failure_policy.read", "fail_closed", ReadFailurePolicy.FAIL_FAST),
)


class UnfitError(Exception):
    """A value is not allowed. `reason` is a whole sentence, or None for the general one."""

    def __init__(self, reason: str | None) -> None:
        super().__init__(reason)
        self.reason = reason


def fit_value(found: KnobField, value: object) -> object:
    """Return the value as the setting takes it.

    Numbers and truth values may come as text, because the host puts environment variables in.

    Raises:
        UnfitError: wrong type, not finite, out of range or malformed; never repeats the value.

    """
    reason = None
    try:
        return _adapter(found).validate_python(value)
    except ValidationError as error:
        # Only our own sentences: pydantic's repeat the value.
        first = error.errors(include_url=False, include_input=False)[0]
        if first["type"] == "value_error":
            reason = str(first.get("ctx", {}).get("error"))
    raise UnfitError(reason)


@cache
def _adapter(found: KnobField) -> TypeAdapter[Any]:
    return TypeAdapter(_field_type(found), config=ConfigDict(hide_input_in_errors=True))


def _field_type(found: KnobField) -> Any:
    if found.kind is bool:
        return Annotated[bool, BeforeValidator(_boolean)]
    if found.kind is int or found.kind is float:
        bounds = Field(ge=found.knob.low, le=found.knob.high)
        return Annotated[found.kind, BeforeValidator(_number), bounds]
    if issubclass(found.kind, StrEnum):
        return Annotated[found.kind, BeforeValidator(partial(_spelling, found.key))]
    if found.kind is Path:
        return Annotated[Path, BeforeValidator(partial(_path, found.key))]
    if found.kind is tuple:
        return Annotated[tuple[StrictStr, ...], AfterValidator(_memory_types)]
    return Annotated[StrictStr, AfterValidator(_whole_text), AfterValidator(_TEXTS[found.key])]


def _unfit() -> PydanticCustomError:
    """Fall back on the sentence that names the allowed values."""
    return PydanticCustomError("unfit", "not allowed")


def _boolean(value: object) -> object:
    # A `$VAR` of the host arrives as text.
    words = {"true": True, "false": False}
    if isinstance(value, str):
        value = words.get(value.strip().lower())
    if not isinstance(value, bool):
        raise _unfit()
    return value


def _number(value: object) -> object:
    if isinstance(value, str):
        if _NUMBER.fullmatch(value.strip()) is None:
            raise _unfit()
        return value.strip()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _unfit()
    return value


def _spelling(key: str, value: object) -> object:
    for name, spelt, meant in _SPELLINGS:
        if name == key and type(value) is type(spelt) and value == spelt:
            return meant
    if not isinstance(value, str):
        raise _unfit()
    return value


def _path(key: str, value: object) -> object:
    if not isinstance(value, str | Path) or "\0" in str(value):
        raise _unfit()
    if not str(value) and key != "storage_path":
        raise _unfit()
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        raise _unfit() from None
    return Path(value)


def _whole_text(text: str) -> str:
    """Refuse half characters, which no request can carry."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _unfit() from None
    return text


def _matches(pattern: re.Pattern[str], text: str) -> str:
    if pattern.fullmatch(text) is None:
        raise _unfit()
    return text


def _variable(text: str) -> str:
    if _VARIABLE.fullmatch(text) is None:
        raise ValueError(
            "must be the NAME of an environment variable (value not shown: it may be a key)."
            " Write it without $, which DeerFlow replaces by the value"
        )
    return text


def _owner(text: str) -> str:
    if not text.strip() or len(text) > _MAX_OWNER_CHARS:
        raise ValueError(f"must be 1..{_MAX_OWNER_CHARS} characters, not blank (value not shown)")
    return text


def _not_blank(text: str) -> str:
    if not text.strip():
        raise _unfit()
    return text


def _memory_types(names: tuple[str, ...]) -> tuple[str, ...]:
    if not names or len(set(names)) != len(names):
        raise _unfit()
    return tuple(_matches(_MEMORY_TYPE, name) for name in names)


_TEXTS: Final[dict[str, Callable[[str], str]]] = {
    "base_url": checked_base_url,
    "account": partial(_matches, _ACCOUNT),
    "owner_user_id": _owner,
    "api_key_env": _variable,
    "account_alias": partial(_matches, _ALIAS),
    "retrieval.injection_query": _not_blank,
    "state.dsn_env": _variable,
    "metrics.host": partial(_matches, _HOST),
}
