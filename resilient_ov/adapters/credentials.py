"""Secondary adapter (anti-corruption layer): the API key, from a variable or a mounted file.

Rule: the value of a key is in no error, repr, str or pickle; only `ApiKey.reveal` gives it.
"""

import hmac
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from resilient_ov.settings import AuthMode, AuthSettings

_MAX_KEY_BYTES = 4096
_CONVENTIONAL_NAME = re.compile(r"[A-Z][A-Z0-9]{0,23}(_[A-Z0-9]{1,24})*")


def looks_like_variable(name: str) -> bool:
    """Whether a name is spelt like a variable and not like a key, so that it may be shown."""
    return _CONVENTIONAL_NAME.fullmatch(name) is not None


class CredentialError(ValueError):
    """The key is missing or unusable. Names the variable or file, never the value."""


class ApiKey:
    """A key that does not show itself."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the key for the one place that sends it."""
        return self._text

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ApiKey):
            return NotImplemented
        return hmac.compare_digest(self._text.encode(), other._text.encode())

    def __hash__(self) -> int:
        return hash((ApiKey, self._text))

    def __repr__(self) -> str:
        return "ApiKey(<set>)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key is not pickled")


@dataclass(frozen=True, slots=True)
class _Read:
    """What one read found; replaced as a whole, so readers need no lock."""

    key: ApiKey | None
    signature: tuple[int, ...] | None


class ApiKeySource:
    """Where the key comes from.

    `api_key_file` when set, else the variable `api_key_env` names, else the file that the variable
    of that name with `_FILE` appended names, as container images have it.

    Nothing is read before `refresh`. Safe from any thread and after `fork`: no lock is held, the
    last complete read wins. `refresh` does I/O on a local file; on an event loop it belongs on a
    worker thread.
    """

    def __init__(self, auth: AuthSettings, *, environ: Mapping[str, str] = os.environ) -> None:
        self._file = auth.api_key_file
        self._variable = auth.api_key_env
        self._required = auth.mode is not AuthMode.DEV
        self._environ = environ
        self._last: _Read | None = None

    @property
    def path(self) -> Path | None:
        """The file that holds the key; None = a variable holds it."""
        named = self._environ.get(self._file_variable, "")
        if self._file is not None or not named:
            return self._file
        return Path(named)

    @property
    def origin(self) -> str:
        """Name of the file or variable, fit for an operator's eyes."""
        path = self.path
        shown = looks_like_variable(self._variable)
        if path is not None:
            by = "api_key_file"
            if self._file is None:
                by = self._file_variable if shown else "the variable of api_key_env with _FILE"
            if path.is_absolute():
                return f"file {path} ({by})"
            return f"file named by {by} (relative, so not shown: it may be a key)"
        if shown:
            return f"environment variable {self._variable} (api_key_env)"
        # An operator who writes `api_key_env: $NAME` gets the key itself put there by the host.
        return "environment variable named by api_key_env (name not shown: it may be a key)"

    @property
    def _file_variable(self) -> str:
        return f"{self._variable}_FILE"

    def current(self) -> ApiKey | None:
        """Return the key last read, without I/O; None when none is set and none is needed.

        Raises:
            CredentialError: `refresh` never succeeded.

        """
        if self._last is None:
            raise CredentialError(f"{self.origin}: not read yet")
        return self._last.key

    def refresh(self, *, force: bool = False) -> bool:
        """Read the key again if its file changed; True when the key is another one than before.

        `force` reads even if the file looks the same. The first call reads always and returns
        True. On an error the key last read stays the current one.

        Raises:
            CredentialError: the key is missing, unreadable or unusable.

        """
        last = self._last
        path = self.path
        if path is None:
            found = _Read(self._from_environment(), None)
        else:
            self._refuse_two_sources()
            if last is not None and not force and _signature(path) == last.signature:
                return False
            found = _from_file(path, self.origin)
        self._last = found
        return last is None or last.key != found.key

    def _from_environment(self) -> ApiKey | None:
        raw = self._environ.get(self._variable)
        if raw is not None:
            return _usable(raw, self.origin)
        if self._required:
            raise CredentialError(f"{self.origin}: not set. Set it to the key, or use api_key_file")
        return None

    def _refuse_two_sources(self) -> None:
        if self._file is None and self._variable in self._environ:
            raise CredentialError(
                f"{self.origin}: the variable without _FILE is set too. Unset one of the two"
            )

    def __repr__(self) -> str:
        known = self._last is not None and self._last.key is not None
        return f"ApiKeySource({self.origin}, {'set' if known else 'unset'})"


def _signature(path: Path) -> tuple[int, ...] | None:
    """Identity and change marks of a file; None when it cannot be asked."""
    try:
        found = path.stat()
    except OSError:
        return None
    return _marks(found)


def _marks(found: os.stat_result) -> tuple[int, ...]:
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _from_file(path: Path, origin: str) -> _Read:
    problem = None
    raw = b""
    signature: tuple[int, ...] | None = None
    try:
        # A pipe would block the open for ever, so anything but a file is refused beforehand.
        if not stat.S_ISREG(path.stat().st_mode):
            problem = "not a regular file"
        else:
            with path.open("rb") as stream:
                signature = _marks(os.fstat(stream.fileno()))
                raw = stream.read(_MAX_KEY_BYTES + 1)
    except OSError as error:
        problem = f"cannot be read ({error.strerror or type(error).__name__})"
    if problem is not None:
        raise CredentialError(f"{origin}: {problem}. Mount a readable file that holds only the key")
    # latin-1 cannot fail; what is not ASCII is refused by name just below.
    return _Read(_usable(raw.decode("latin-1"), origin), signature)


def _usable(raw: str, origin: str) -> ApiKey:
    """Strip outer white space; refuse what no header can carry."""
    text = raw.strip()
    if not text:
        raise CredentialError(f"{origin}: empty. Put the key there")
    if len(text) > _MAX_KEY_BYTES:
        raise CredentialError(f"{origin}: longer than {_MAX_KEY_BYTES} characters, so not a key")
    if any(character.isspace() for character in text):
        raise CredentialError(f"{origin}: white space inside the key. Put only the key there")
    if not all("!" <= character <= "~" for character in text):
        raise CredentialError(f"{origin}: characters that are not printable ASCII")
    return ApiKey(text)
