"""Reads memory through one client and tells, read by read, how it went; made for `peers`.

Run `python -m tests.benchmarks.peer_reads PEER URL USER CALLERS READS`. Prints one line for each
read: seconds and whether something was found. Every peer is used as its documentation shows, with
two seconds as its timeout: our budget for a read. We get the defaults, but for our limits, which
let as many callers in as there are: the others have none.
"""

import contextlib
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator

QUERY = "what does the user like to drink"
TARGET = "viking://~/memories"
ACCOUNT = "bench"
KEY = "test-key"
TIMEOUT_S = 2.0

Read = Callable[[], bool]


@contextlib.contextmanager
def resilient_ov(url: str, _user: str, callers: int) -> Iterator[Read]:
    """Ours."""
    from resilient_ov_manager import OpenVikingMemoryManager

    os.environ["BENCHMARK_KEY"] = KEY
    with tempfile.TemporaryDirectory(prefix="bench-") as storage:
        manager = OpenVikingMemoryManager.from_config(
            {
                "base_url": url,
                "account": ACCOUNT,
                "api_key_env": "BENCHMARK_KEY",
                "storage_path": storage,
                "limits": {"sync_read_in_flight": callers, "read_in_flight": max(16, callers)},
            }
        )
        yield lambda: bool(manager.search(QUERY, user_id="someone"))
        manager.close()


@contextlib.contextmanager
def openviking_sdk(url: str, user: str, _callers: int) -> Iterator[Read]:
    """The vendor's SDK."""
    from openviking_sdk import SyncHTTPClient

    client = SyncHTTPClient(url=url, api_key=KEY, account=ACCOUNT, user=user, timeout=TIMEOUT_S)
    client.initialize()
    yield lambda: bool(client.find(QUERY, target_uri=TARGET, limit=8)["memories"])


@contextlib.contextmanager
def langchain_openviking(url: str, user: str, _callers: int) -> Iterator[Read]:
    """The vendor's retriever for LangChain."""
    from langchain_openviking import OpenVikingRetriever

    retriever = OpenVikingRetriever(
        url=url,
        api_key=KEY,
        account=ACCOUNT,
        user=user,
        timeout=TIMEOUT_S,
        target_uri=TARGET,
        limit=8,
        content_mode="abstract",
    )
    yield lambda: bool(retriever.invoke(QUERY))


@contextlib.contextmanager
def httpx_alone(url: str, user: str, _callers: int) -> Iterator[Read]:
    """httpx with a timeout."""
    import httpx

    headers = {"X-API-Key": KEY, "X-OpenViking-Account": ACCOUNT, "X-OpenViking-User": user}
    with httpx.Client(base_url=url, headers=headers, timeout=TIMEOUT_S) as client:

        def read() -> bool:
            body = {"query": QUERY, "target_uri": TARGET, "limit": 8}
            reply = client.post("/api/v1/search/find", json=body)
            reply.raise_for_status()
            return bool(reply.json()["result"]["memories"])

        yield read


@contextlib.contextmanager
def httpx_pybreaker_stamina(url: str, user: str, callers: int) -> Iterator[Read]:
    """httpx as it is usually hardened: retries around a breaker around the request."""
    import httpx
    import pybreaker
    import stamina

    breaker = pybreaker.CircuitBreaker(fail_max=5, reset_timeout=30)
    with httpx_alone(url, user, callers) as plain:
        yield stamina.retry(on=httpx.HTTPError, attempts=3)(breaker(plain))


PEERS = {
    "resilient-ov": resilient_ov,
    "openviking-sdk": openviking_sdk,
    "langchain-openviking": langchain_openviking,
    "httpx": httpx_alone,
    "httpx + pybreaker + stamina": httpx_pybreaker_stamina,
}


def main() -> None:
    """Read, and tell of each read at once: whoever started this may not wait for the end."""
    peer, url, user, callers, reads = sys.argv[1:]
    # What a peer logs goes elsewhere.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    told = threading.Lock()

    def work(read: Read, count: int) -> None:
        for _ in range(count):
            began_s = time.perf_counter()
            try:
                found = read()
            except Exception:  # noqa: BLE001 - a peer tells of a fault by whatever it raises
                found = False
            took_s = time.perf_counter() - began_s
            with told:
                print(f"{took_s:.6f} {int(found)}", file=out, flush=callers == "1")

    with PEERS[peer](url, user, int(callers)) as read:
        if callers != "1":
            read()  # connect, import and warm up before the clock starts
        print("ready", file=out, flush=True)
        began_s = time.perf_counter()
        share = int(reads) // int(callers)
        threads = [
            threading.Thread(target=work, args=(read, share), daemon=True)
            for _ in range(int(callers))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(f"all {time.perf_counter() - began_s:.6f}", file=out, flush=True)
    os._exit(0)  # threads of a peer that are still waiting would keep the process


if __name__ == "__main__":
    main()
