"""Matches one ordered list against another, and makes one of both.

Rule: pure; nothing here knows what a token means.
"""

from collections.abc import Sequence


def align(presented: Sequence[str], window: Sequence[str]) -> list[int | None]:
    """Match `presented` to `window` along a longest common subsequence.

    Returns one window index (strictly growing) or None per presented token. Among the longest
    alignments the one that matches the earliest presented tokens is taken, because new messages
    stand at the end. Bit-parallel (Hyyrö 2004): about len(presented) operations on integers of
    len(window) bits.
    """
    size = len(window)
    # Bit 0 stands for the last window token, so that the low bits are an end of the window.
    places: dict[str, int] = {}
    for index, token in enumerate(window):
        places[token] = places.get(token, 0) | 1 << (size - 1 - index)
    full = (1 << size) - 1
    # The zeros among the low n bits of rows[k] count what the last k presented tokens have in
    # common with the last n window tokens.
    rows = [full]
    for token in reversed(presented):
        row = rows[-1]
        hit = row & places.get(token, 0)
        rows.append(((row + hit) | (row - hit)) & full)
    matches: list[int | None] = []
    free = size
    for offset, token in enumerate(presented):
        rest = len(presented) - offset
        mask = (1 << free) - 1
        best = (~rows[rest] & mask).bit_count()
        found = (places.get(token, 0) & mask).bit_length()
        if found and 1 + (~rows[rest - 1] & (1 << found - 1) - 1).bit_count() == best:
            matches.append(size - found)
            free = found - 1
        else:
            matches.append(None)
    return matches


def align_head(presented: Sequence[str], window: Sequence[str]) -> list[int | None]:
    """Match as long a head of `presented` as possible, and nothing behind it.

    For lists of which one was made from the other by new tokens at its end: behind the first new
    one a match is a coincidence of equal texts.
    """
    matches: list[int | None] = []
    taken = 0
    for token in presented:
        try:
            found = window.index(token, taken)
        except ValueError:
            break
        matches.append(found)
        taken = found + 1
    return matches + [None] * (len(presented) - len(matches))


def align_head_first(presented: Sequence[str], window: Sequence[str]) -> list[int | None]:
    """Match a head as `align_head` does, and what stands behind it as `align` does.

    Where a longer common subsequence skips the head, that is a coincidence of equal texts.
    """
    head = [match for match in align_head(presented, window) if match is not None]
    taken = head[-1] + 1 if head else 0
    rest = align(presented[len(head) :], window[taken:])
    return [*head, *(None if match is None else match + taken for match in rest)]


def interleave(old: Sequence[str], new: Sequence[str]) -> tuple[str, ...]:
    """Return the tokens of both lists, each once; the tokens of each are unique.

    The order is that of `new`, and that of `old` as far as it agrees. What only `new` has stands
    next to its neighbour there; lists with nothing in common stand one behind the other.
    """
    rest = iter(old)
    if all(token in rest for token in new):
        return tuple(old)
    held = frozenset(new)
    agreed = {at for at in align(new, old) if at is not None}
    kept = [token for at, token in enumerate(old) if at in agreed or token not in held]
    woven: list[str] = []
    gap: list[str] = []
    taken = 0
    for token, match in zip(new, align(new, kept), strict=True):
        gap.append(token)
        if match is not None:
            woven += [*kept[taken:match], *gap]
            taken, gap = match + 1, []
    return (*woven, *gap, *kept[taken:]) if woven else (*kept, *gap)
