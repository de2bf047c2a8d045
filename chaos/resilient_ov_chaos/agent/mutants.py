"""Switches that turn one protection of the product off, in this process only.

Rule: they live here and not in the product, which has no knob for any of them.
"""


def apply(name: str | None) -> None:
    """Turn a protection off; None = none."""
    if name is not None:
        raise ValueError(f"no such mutant: {name}")
