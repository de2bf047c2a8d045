"""The one edge where a raw `backend_config` becomes `Settings`.

Rule: every problem is reported at once, each with its key, what is allowed, what was found and
what to do; a value that may be secret or personal is never repeated. No network, nothing written.
"""

import difflib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

from resilient_ov.adapters.credentials import ApiKeySource, CredentialError
from resilient_ov.settings import KnobField, Settings, knob_fields, section_types
from resilient_ov_manager.config_rules import FOREIGN_KEYS, rule_problems
from resilient_ov_manager.config_values import UnfitError, fit_value
from resilient_ov_manager.knobs import allowed_text, default_text
from resilient_ov_manager.runtime_home import storage_folder

_SHOWN_TEXT_CHARS: Final = 16
_SHOWN_KEY_CHARS: Final = 64
_PLACEHOLDER_URL: Final = "http://localhost"
_KNOBS: Final = {found.key: found for found in knob_fields()}
_SECTIONS: Final = {key.partition(".")[0] for key in _KNOBS if "." in key}

_Problems = list[tuple[str, str]]


class ConfigError(ValueError):
    """The configuration cannot be used. `problems` holds one sentence per fault."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        if len(self.problems) == 1:
            return f"memory.backend_config: {self.problems[0]}"
        lines = "".join(f"\n- {problem}" for problem in self.problems)
        return f"memory.backend_config has {len(self.problems)} problems:{lines}"


def parse_config(raw: object, *, environ: Mapping[str, str] = os.environ) -> Settings:
    """Settings of a raw section, without a look at the files and secrets it names.

    `environ` only serves the default of `storage_path`. A null section or value is the default.

    Raises:
        ConfigError: anything is wrong; it names every fault.

    """
    settings, problems = _parsed(raw, environ)
    _raise_if_any(problems)
    return settings


def settings_from_config(raw: object, *, environ: Mapping[str, str] = os.environ) -> Settings:
    """Like `parse_config`, and what it names is there and usable: the key, the TLS files.

    Reads the key and looks at the files once; writes nothing and opens no connection.

    Raises:
        ConfigError: anything is wrong; it names every fault.

    """
    settings, problems = _parsed(raw, environ)
    broken = {key for key, _ in problems}
    problems.extend(_surroundings(settings, broken, environ))
    _raise_if_any(problems)
    return settings


def _raise_if_any(problems: _Problems) -> None:
    if problems:
        raise ConfigError(tuple(f"{key}: {text}" for key, text in problems))


def _parsed(raw: object, environ: Mapping[str, str]) -> tuple[Settings, _Problems]:
    """Settings with the default in place of each wrong value; key and sentence of each fault."""
    given, problems = _flat(raw)
    values: dict[str, object] = {}
    for key, value in given.items():
        found = _KNOBS[key]
        try:
            values[key] = fit_value(found, value)
        except UnfitError as error:
            problems.append((key, error.reason or _general(found, value)))
    if "base_url" not in given:
        problems.append(("base_url", "required. Set it to the address of your OpenViking server"))
    broken = {key for key, _ in problems}
    settings = _built({"base_url": _PLACEHOLDER_URL, **values}, environ)
    problems.extend(rule_problems(settings, broken))
    return settings, problems


def _flat(raw: object) -> tuple[dict[str, object], _Problems]:
    """Our keys that have a value, dotted, and a sentence for each other key."""
    top = {} if raw is None else _mapping(raw)
    if top is None:
        raise ConfigError((f"must be a mapping of keys, got {_kind(raw)}. Set at least base_url",))
    given: dict[str, object] = {}
    problems: _Problems = []
    for name, value in top.items():
        if name in _SECTIONS and value is not None:
            section = _mapping(value)
            if section is None:
                text = f"must be a mapping of keys, or null, got {_kind(value)}. Indent its keys"
                problems.append((str(name), text))
                continue
            pairs = [(f"{name}.{_word(word)}", setting) for word, setting in section.items()]
        else:
            pairs = [(_word(name), value)]
        for key, setting in pairs:
            _sort_in(key, setting, given, problems, dotted=name in _SECTIONS)
    return given, problems


def _sort_in(
    key: str, value: object, given: dict[str, object], problems: _Problems, *, dotted: bool
) -> None:
    """Put one key where it belongs."""
    if key in _SECTIONS and value is None:
        return
    if key not in _KNOBS or dotted is not ("." in key):
        problems.append((key, _unknown(key)))
    elif value is not None:
        given[key] = value


def _mapping(value: object) -> dict[object, object] | None:
    if not isinstance(value, Mapping):
        return None
    return dict(cast("Mapping[object, object]", value))


def _word(key: object) -> str:
    """A key as it may be shown: one that cannot be ours is quoted and cut."""
    if isinstance(key, str) and key.isidentifier() and len(key) <= _SHOWN_KEY_CHARS:
        return key
    return ascii(key)[:_SHOWN_KEY_CHARS] if isinstance(key, str) else f"({_kind(key)})"


def _unknown(key: str) -> str:
    if key in FOREIGN_KEYS:
        return FOREIGN_KEYS[key]
    bare = key.strip("'")
    section, _, name = bare.rpartition(".")
    near = [known for known in _KNOBS if known.rpartition(".")[0] == section]
    guesses = [known for known in _KNOBS if known.rpartition(".")[2] == name]
    guesses += difflib.get_close_matches(bare, near if section else [*near, *_SECTIONS], n=1)
    if guesses:
        return f"unknown key. Did you mean {guesses[0]}? Otherwise remove it"
    return "unknown key. Remove it, or look for its name in the README's table"


def _general(found: KnobField, value: object) -> str:
    default = default_text(found)
    advice = "" if found.required else f", or remove it for the default {default}"
    return f"must be {allowed_text(found)}, got {_shown(found, value)}. Correct it{advice}"


def _shown(found: KnobField, value: object) -> str:
    """The value received, if it is harmless: a text may be a key that got into the wrong place."""
    if isinstance(value, bool | float):
        return repr(value)
    if isinstance(value, int):
        return repr(value) if abs(value) < 10**18 else "a huge number"
    if not isinstance(value, str):
        return _kind(value)
    if found.knob.private or len(value) > _SHOWN_TEXT_CHARS:
        return f"a text of {len(value)} characters (not shown)"
    return ascii(value)


def _kind(value: object) -> str:
    if isinstance(value, list):
        return "a list"
    if isinstance(value, Mapping):
        return "a mapping"
    return f"a value of type {type(value).__name__}"


def _built(values: Mapping[str, object], environ: Mapping[str, str]) -> Settings:
    top: dict[str, Any] = {}
    groups: dict[str, dict[str, Any]] = {name: {} for name in section_types()}
    for key, value in values.items():
        found = _KNOBS[key]
        target = top if found.section is None else groups[found.section]
        target[found.attribute] = value
    top["storage_path"] = storage_folder(top.get("storage_path"), environ)
    sections: dict[str, Any] = {
        name: section_types()[name](**given) for name, given in groups.items()
    }
    return Settings(**top, **sections)


def _surroundings(
    settings: Settings, broken: set[str], environ: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """What the configuration names but this machine does not have."""
    for key in ("tls.ca_file", "tls.client_cert_file", "tls.client_key_file"):
        path: Path | None = getattr(settings.tls, _KNOBS[key].attribute)
        problem = None if path is None or key in broken else _unreadable(path)
        if problem is not None:
            yield key, f"{problem}. Correct the path, or let this process read it"
    # `os.path` answers False where `Path` raises, for a parent that may not be entered.
    if os.path.exists(settings.storage_path) and not os.path.isdir(settings.storage_path):
        yield "storage_path", f"{settings.storage_path} is not a folder. Name a folder"
    if broken.isdisjoint(("auth_mode", "api_key_env", "api_key_file")):
        try:
            ApiKeySource(settings.auth, environ=environ).refresh()
        except CredentialError as error:
            key = "api_key_env" if settings.auth.api_key_file is None else "api_key_file"
            yield key, str(error)


def _unreadable(path: Path) -> str | None:
    try:
        # Asked first, because opening a pipe would wait for a writer.
        if not stat.S_ISREG(path.stat().st_mode):
            return f"{path} is not a regular file"
        with path.open("rb") as stream:
            stream.read(1)
    except OSError as error:
        return f"{path} cannot be read ({error.strerror or type(error).__name__})"
    return None
