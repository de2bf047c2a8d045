"""From a canonical address to the place where it is stored, and back.

Pure. The store shows the topology of the account as it is: no hashes, no rewriting.
"""

from typing import Final

from resilient_ov.domain.namespace_uri import VikingUri

_STORE: Final = "local"
_SETTINGS: Final = VikingUri(("_system", "setting.json"))


def storage_path(account_id: str, uri: VikingUri) -> str:
    """`/local/<account>/<segments>`; raises `InvalidUriError` for an account no path can hold."""
    account = VikingUri((account_id,))
    return "/".join(("", _STORE, *account.segments, *uri.segments))


def from_storage_path(path: str) -> tuple[str, VikingUri]:
    """The account and the address of a path made by `storage_path`.

    Raises:
        ValueError: it was not made by it.

    """
    match path.split("/"):
        case ["", str(store), account, *segments] if store == _STORE:
            return account, VikingUri(tuple(segments))
        case _:
            raise ValueError("not a path of the store")


def settings_path(account_id: str) -> str:
    """Where an account's settings lie, its policy among them; no address of a caller leads there.

    Its first segment is none of the areas, so `locate` refuses what would become this path.
    """
    return storage_path(account_id, _SETTINGS)
