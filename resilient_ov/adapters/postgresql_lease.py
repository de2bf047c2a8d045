"""Who is alive on one database: a row per process that is renewed, by the database's clock.

Rule: dead stays dead. A lease that ran out is never renewed, its process becomes another owner.
Here its end is counted from before the request that renewed it, so we think ourselves dead before
anybody else can.
"""

import threading
import time
from collections.abc import Callable

from resilient_ov.adapters.forked import renew_after_fork
from resilient_ov.adapters.postgresql_database import Database, DatabaseError

_BEGIN = """
    INSERT INTO resilient_ov_owners (token, lease_until)
    VALUES (%(me)s, clock_timestamp() + %(lease_s)s * interval '1 second')
    ON CONFLICT (token) DO NOTHING"""
# The dead of an hour ago: their rows say nothing that a missing row does not say.
_SWEEP = """
    DELETE FROM resilient_ov_owners WHERE lease_until < clock_timestamp() - interval '1 hour'"""
_RENEW = """
    UPDATE resilient_ov_owners
    SET lease_until = clock_timestamp() + %(lease_s)s * interval '1 second'
    WHERE token = %(me)s AND lease_until > clock_timestamp() RETURNING 1"""
_LIVES = """
    SELECT 1 FROM resilient_ov_owners
    WHERE token = %(token)s AND lease_until > clock_timestamp()"""
_END = "DELETE FROM resilient_ov_owners WHERE token = %(me)s"


class Lease:
    """The life of this process as the others see it. Safe from any thread; a fork is a new owner.

    Args:
        database: where the rows are.
        new_token: makes a token.
        needed_s: a token that is given out lives at least so long.
        spare_s: how much longer a lease is; it is renewed three times in this.
        on_beat: called by the thread that renews, each time.
        now_s: monotonic seconds.
    """

    _token: str
    _end_s: float

    def __init__(
        self,
        database: Database,
        new_token: Callable[[], str],
        *,
        needed_s: float,
        spare_s: float,
        on_beat: Callable[[], None] = lambda: None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._new_token = new_token
        self._needed_s = needed_s
        self._lease_s = needed_s + spare_s
        self._beat_s = spare_s / 3
        self._on_beat = on_beat
        self._now_s = now_s
        self._start_anew()
        renew_after_fork(self)

    def token(self) -> str:
        """Return our token, alive for ``needed_s`` from now; renews or begins a life if needed.

        Raises:
            DatabaseError: that cannot be done.
        """
        with self._mutex:
            if self._token and self._now_s() + self._needed_s <= self._end_s:
                return self._token
            self._renew()
            if not self._token:
                self._begin()
            return self._token

    def end_s(self, token: str) -> float:
        """Return until when (monotonic) ``token`` certainly is ours and lives; never blocks."""
        known, end_s = self._life
        return end_s if token == known else 0.0

    @property
    def current(self) -> str:
        """Our token, "" = none; never blocks."""
        return self._life[0]

    def lives(self, token: str) -> bool:
        """Tell whether the owner with ``token`` lives.

        Raises:
            DatabaseError: it cannot be told.
        """
        if token == self.current and self._now_s() < self.end_s(token):
            return True
        return bool(self._database.run(_LIVES, {"token": token}))

    def lost(self, token: str) -> None:
        """Know from elsewhere that the life of ``token`` is over."""
        with self._mutex:
            if token == self._token:
                self._set("", 0.0)

    def hurry(self) -> None:
        """Let the next beat come now."""
        self._wake.set()

    def end(self) -> None:
        """End our life; idempotent.

        Raises:
            DatabaseError: the row stays until its lease runs out.
        """
        with self._mutex:
            token = self._token
            self._set("", 0.0)
            self._stop_beating()
            # Under the mutex, so that whoever ends it too returns when it is ended.
            if token:
                self._database.run(_END, {"me": token})

    def renew(self) -> None:
        """Be nobody yet in a forked child; called by ``forked``."""
        self._start_anew()

    def _start_anew(self) -> None:
        self._mutex = threading.Lock()
        self._wake = threading.Event()
        self._set("", 0.0)

    def _set(self, token: str, end_s: float) -> None:
        self._token, self._end_s = token, end_s
        # One reference, so that who reads without the lock never mixes two lives.
        self._life = (token, end_s)

    def _renew(self) -> None:
        """Make the lease longer; a life that is over ends here too. Under the mutex."""
        if not self._token:
            return
        began_s = self._now_s()
        if began_s < self._end_s and self._database.run(
            _RENEW, {"me": self._token, "lease_s": self._lease_s}
        ):
            self._set(self._token, began_s + self._lease_s)
        else:
            self._set("", 0.0)

    def _begin(self) -> None:
        began_s, token = self._now_s(), self._new_token()
        self._database.run(_BEGIN, {"me": token, "lease_s": self._lease_s})
        self._database.run(_SWEEP)
        self._set(token, began_s + self._lease_s)
        self._stop_beating()
        self._wake = threading.Event()
        threading.Thread(
            target=self._beat, args=(token, self._wake), name="resilient-ov-lease", daemon=True
        ).start()

    def _stop_beating(self) -> None:
        self._wake.set()

    def _beat(self, token: str, wake: threading.Event) -> None:
        while True:
            wake.wait(self._beat_s)
            wake.clear()
            with self._mutex:
                if token != self._token:
                    return
                try:
                    self._renew()
                except DatabaseError:
                    # The next beat tries again; whoever needs the token hears why.
                    continue
            self._on_beat()
