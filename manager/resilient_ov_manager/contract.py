"""The host's contract: DeerFlow's own classes where DeerFlow is installed, else a stand-in.

Rule: the only module that imports ``deerflow``. The stand-in has the same signatures, recorded
from DeerFlow's harness 2.1.0; a test compares it with the record.
"""

from abc import abstractmethod
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

if TYPE_CHECKING or find_spec("deerflow") is None:

    class MemoryManagerError(RuntimeError):
        """Base of what a backend may raise at the host."""

    class MemoryManager(BaseModel):
        """The methods a host calls; those without a body here are not supported by default."""

        model_config = ConfigDict(arbitrary_types_allowed=True)

        backend_config: dict[str, Any] = Field(default_factory=dict[str, Any])
        mode: Literal["middleware", "tool"] = "middleware"
        callbacks: Any = None

        supports_search: ClassVar[bool] = False
        requires_passive_writes_in_tool_mode: ClassVar[bool] = False

        @field_validator("backend_config", mode="before")
        @classmethod
        def _coerce_backend_config(cls, value: Any) -> Any:
            return value or {}

        @classmethod
        @abstractmethod
        def from_config(
            cls,
            backend_config: dict[str, Any],
            *,
            mode: Literal["middleware", "tool"] = "middleware",
            **host_hooks: Any,
        ) -> "MemoryManager":
            """Build the backend from its configuration."""

        @abstractmethod
        def add(
            self,
            thread_id: str,
            messages: list[Any],
            *,
            agent_name: str | None = None,
            user_id: str | None = None,
            trace_id: str | None = None,
        ) -> None:
            """Remember a conversation."""

        @abstractmethod
        def get_context(
            self,
            user_id: str | None,
            *,
            agent_name: str | None = None,
            thread_id: str | None = None,
        ) -> str:
            """Return text to inject."""

        def add_nowait(
            self,
            thread_id: str,
            messages: list[Any],
            *,
            agent_name: str | None = None,
            user_id: str | None = None,
        ) -> None:
            """Remember a conversation right before its messages are removed."""
            self.add(thread_id, messages, agent_name=agent_name, user_id=user_id)

        def search(
            self,
            query: str,
            top_k: int = 5,
            *,
            user_id: str | None = None,
            agent_name: str | None = None,
            category: str | None = None,
        ) -> list[dict[str, Any]]:
            """Return hits for a query."""
            raise NotImplementedError(f"search not supported by {type(self).__name__}")

        async def aadd(
            self,
            thread_id: str,
            messages: list[Any],
            *,
            agent_name: str | None = None,
            user_id: str | None = None,
            trace_id: str | None = None,
        ) -> None:
            """Remember a conversation, on a loop."""

        async def aget_context(
            self,
            user_id: str | None,
            *,
            agent_name: str | None = None,
            thread_id: str | None = None,
        ) -> str:
            """Return text to inject, on a loop."""
            raise NotImplementedError

        async def asearch(
            self,
            query: str,
            top_k: int = 5,
            *,
            user_id: str | None = None,
            agent_name: str | None = None,
            category: str | None = None,
        ) -> list[dict[str, Any]]:
            """Return hits for a query, on a loop."""
            raise NotImplementedError

        def warm(self) -> bool | None:
            """Check the backend at start-up."""
            return None

        def shutdown_flush(self, timeout: float) -> bool:
            """Deliver what waits within ``timeout`` seconds."""
            del timeout
            return True

        def close(self) -> None:
            """Release what is held."""

else:
    from deerflow.agents.memory.manager import MemoryManager, MemoryManagerError

__all__ = ["MemoryManager", "MemoryManagerError"]
