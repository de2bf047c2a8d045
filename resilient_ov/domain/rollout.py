"""Who already gets memory into the prompt while it is being rolled out.

Pure. Users are drawn by their hash: a user stays in or out across agents, threads and processes,
and a larger share only adds users.
"""

from typing import Final

from resilient_ov.domain.identity import namespace_user

_HEX_DIGITS: Final = 8


def is_in_share(account: str, user_id: str, percent: float) -> bool:
    """Whether a user belongs to the first `percent` (0..100) of all users of an account."""
    digits = namespace_user(account, user_id).removeprefix("df_")[:_HEX_DIGITS]
    return int(digits, 16) * 100.0 < percent * 16.0**_HEX_DIGITS
