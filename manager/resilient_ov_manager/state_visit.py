"""Opens the state of a session from a command, beside gateways that may be running."""

import time
from typing import Final

from resilient_ov.adapters.watermark_store import FileSessionUnit
from resilient_ov.domain.ports import NewerStateError, StateUnwritableError
from resilient_ov.domain.watermark import Watermark
from resilient_ov_manager.terminal import CommandError, ExitCode

_LOCK_WAIT_S: Final = 10.0
_POLL_S: Final = 0.05


def opened_state(unit: FileSessionUnit) -> Watermark | None:
    """Take the session's lock, waiting for a gateway that has it; None = there is no state.

    Raises:
        CommandError: the lock stays taken, or the state cannot be used.

    """
    until_s = time.monotonic() + _LOCK_WAIT_S
    while True:
        try:
            loaded = unit.open()
        except StateUnwritableError as error:
            raise CommandError(str(error), ExitCode.STORAGE) from None
        except NewerStateError:
            raise CommandError(
                "a state was written by a newer version; use that version's command",
                ExitCode.STORAGE,
            ) from None
        if loaded is not None:
            return loaded.watermark
        if time.monotonic() >= until_s:
            raise CommandError(
                "a gateway keeps working on this session. Run the same command"
                " again when it is idle",
                ExitCode.STORAGE,
            )
        time.sleep(_POLL_S)
