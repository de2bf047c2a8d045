"""No secret and no user content leaves: canaries in every sink at DEBUG."""

from collections.abc import Iterator

from resilient_ov_chaos.verdict import Finding, Run, Status

NAME = "secrets"


def check(run: Run) -> Iterator[Finding]:
    """Look for the key, ids of people and threads, and texts, in everything that was written."""
    texts, canaries = run.leftovers.texts, run.leftovers.canaries
    found = sorted(
        f"{name} in {where}"
        for where, text in texts.items()
        for name, word in canaries.items()
        if word in text
    )
    silent = sorted(where for where, text in texts.items() if not text)
    nothing = not canaries or not any(texts.values())
    yield Finding(
        checker=NAME,
        call=None,
        status=Status.RED if found else Status.UNKNOWN if nothing else Status.GREEN,
        text="; ".join(found) if found else ("nothing was written" if nothing else ""),
        measured={"sinks": len(texts) - len(silent), "leaks": len(found)},
    )
