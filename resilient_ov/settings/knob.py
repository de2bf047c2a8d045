"""What a setting tells about itself: its range, its meaning, its configuration key.

No I/O here, no parsing: the configuration edge, the README table and the redacted summary read
this description, so that none of them can drift from the field.
"""

import dataclasses
from dataclasses import dataclass
from types import UnionType
from typing import get_args, get_origin, get_type_hints


@dataclass(frozen=True, slots=True)
class Knob:
    """Description of one setting, carried in the `Annotated` type of its field.

    `low` and `high` are inclusive, in the unit of the field. `accepts` says in words what is
    allowed where a pair of numbers cannot. `key` is the dotted configuration key where it is not
    simply section and field name (`_s` is spelt `_seconds` there). The value of a `private`
    setting never appears in an error, a summary or a repr.
    """

    meaning: str
    low: float | None = None
    high: float | None = None
    accepts: str | None = None
    key: str | None = None
    private: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobField:
    """One setting as found in the dataclasses: where it lives and how it is configured.

    `section` is the attribute of `Settings` that holds it, None for one on `Settings` itself.
    `kind` is its type without None (`tuple` for a list of texts), `nullable` tells whether None
    is a value. `default` is `dataclasses.MISSING` for a required setting.
    """

    key: str
    section: str | None
    attribute: str
    kind: type[object]
    nullable: bool
    default: object
    knob: Knob

    @property
    def required(self) -> bool:
        """Whether the setting has no default."""
        return self.default is dataclasses.MISSING


class Section:
    """Base of all groups of settings: a repr that masks private values."""

    __slots__ = ()

    def __repr__(self) -> str:
        knobs = {found.attribute: found.knob for found in section_fields(type(self))}
        shown: list[str] = []
        for field in dataclasses.fields(self):  # type: ignore[arg-type]  # see section_fields
            value = getattr(self, field.name)
            private = field.name in knobs and knobs[field.name].private and value is not None
            shown.append(f"{field.name}={'<set>' if private else repr(value)}")
        return f"{type(self).__name__}({', '.join(shown)})"


def section_fields(cls: type[object], section: str | None = None) -> list[KnobField]:
    """Settings directly on one dataclass, in the order they are written; groups are left out."""
    hints = get_type_hints(cls, include_extras=True)
    found: list[KnobField] = []
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]  # every section is a dataclass
        hint = hints[field.name]
        knob = next((m for m in getattr(hint, "__metadata__", ()) if isinstance(m, Knob)), None)
        if knob is None:
            continue
        options = [arg for arg in get_args(hint.__origin__) if arg not in (type(None), ...)]
        kind = options[0] if isinstance(hint.__origin__, UnionType) else hint.__origin__
        name = f"{field.name}econds" if field.name.endswith("_s") else field.name
        found.append(
            KnobField(
                key=knob.key or (name if section is None else f"{section}.{name}"),
                section=section,
                attribute=field.name,
                kind=get_origin(kind) or kind,
                nullable=type(None) in get_args(hint.__origin__),
                default=field.default,
                knob=knob,
            )
        )
    return found
