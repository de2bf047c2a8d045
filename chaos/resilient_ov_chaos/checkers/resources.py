"""What a process holds comes back to where it was; after ``close`` nothing of ours is left."""

from collections.abc import Iterator

from resilient_ov_chaos.history import Resources
from resilient_ov_chaos.verdict import GATEWAY, Finding, Run, Status

NAME = "resources"
MORE_THREADS = 24
"""Worker pools grow to their bound (8 disk, 8 jobs, decoders, resolvers) and stay there."""
MORE_FILES = 24
IDLE_SOCKETS = 20
"""Two pools keep ten idle connections each."""
MORE_BYTES = 96 * 1024 * 1024


def check(run: Run) -> Iterator[Finding]:
    """Compare the end of the run with its quiet begin, and look at what ``close`` left."""
    gateways = run.history.processes(GATEWAY)
    seen = {each.moment: each for each in run.history.of(Resources) if each.process in gateways}
    before, after, closed = (seen.get(each) for each in ("baseline", "end", "closed"))
    if closed is None:
        yield Finding(
            checker=NAME, call=None, status=Status.UNKNOWN, text="the process was not closed"
        )
        return
    wrong: list[str] = []
    if closed.own_threads:
        wrong.append(f"{closed.own_threads} threads of ours outlive close()")
    if closed.sockets:
        wrong.append(f"{closed.sockets} connections outlive close()")
    measured = {
        "threads_closed": float(closed.own_threads),
        "sockets_closed": float(closed.sockets),
    }
    if before is not None and after is not None:
        wrong += _grown(before, after)
        measured |= {
            "threads_more": after.threads - before.threads,
            "sockets_more": after.sockets - before.sockets,
            "files_more": after.files - before.files,
            "mb_more": round((after.rss_bytes - before.rss_bytes) / 1e6, 1),
        }
    yield Finding(
        checker=NAME,
        call=None,
        status=Status.RED if wrong else Status.GREEN,
        text="; ".join(wrong),
        measured=measured,
    )


def _grown(before: Resources, after: Resources) -> list[str]:
    bounds = (
        ("threads", before.threads, after.threads, MORE_THREADS),
        ("connections", max(before.sockets, IDLE_SOCKETS), after.sockets, 0),
        ("open files", before.files, after.files, MORE_FILES),
        ("bytes", before.rss_bytes, after.rss_bytes, MORE_BYTES),
    )
    return [
        f"{name} grew from {was} to {now}" for name, was, now, more in bounds if now > was + more
    ]
