"""A chat endpoint that remembers its users: the parts that a FastAPI or Starlette program needs.

    pip install 'resilient-ov[server]'
    export OPENVIKING_API_KEY=...           # of your OpenViking server
    uvicorn fastapi_chat:app

FastAPI is Starlette: with it, write the same `lifespan` and `await chat(...)` in your route.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from resilient_ov import AsyncClient
from resilient_ov_manager.host_config import settings_from_config
from resilient_ov_manager.sinks import Sinks


def memory_client() -> AsyncClient:
    """Build the client once; log lines and metrics go where DeerFlow's would."""
    settings = settings_from_config(
        {
            "base_url": os.environ.get("OPENVIKING_URL", "http://127.0.0.1:1933"),
            "account": "chat",
            "api_key_env": "OPENVIKING_API_KEY",
            "storage_path": os.environ.get("CHAT_STATE", "/var/lib/chat"),
        }
    )
    sinks = Sinks(settings, trace_context_manager=None, metrics_registry=None)
    return AsyncClient(settings, around=sinks.surroundings())


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    """Keep one client; leaving it delivers what waits."""
    # Building it reads the key's file and the settings' folders, which a loop must not wait for.
    async with await asyncio.to_thread(memory_client) as memory:
        app.state.memory = memory
        app.state.threads = {}
        yield


async def chat(request: Request) -> JSONResponse:
    """POST {"user", "thread", "text"}: answer with what is remembered, then remember the turn."""
    asked = await request.json()
    memory: AsyncClient = request.app.state.memory
    thread = request.app.state.threads.setdefault((asked["user"], asked["thread"]), [])

    known = await memory.get_context(user_id=asked["user"], query=asked["text"])
    answer = answered(asked["text"], known)

    for role, text in (("user", asked["text"]), ("assistant", answer)):
        thread.append({"role": role, "content": text, "id": f"m{len(thread)}"})
    await memory.add(asked["thread"], thread, user_id=asked["user"])
    return JSONResponse({"answer": answer, "known": known})


def answered(text: str, known: str) -> str:
    """Stand in for your model: put `known` into its prompt."""
    return f"You said: {text}" + (" And I remember you." if known else "")


app = Starlette(routes=[Route("/chat", chat, methods=["POST"])], lifespan=lifespan)
