"""Two nodes that give a LangGraph graph a memory of its users: recall before, remember after.

    pip install resilient-ov langgraph
    export OPENVIKING_API_KEY=...           # of your OpenViking server
    python langgraph_nodes.py

The nodes are plain functions of the state, so they work in any graph whose state has `messages`.
"""

import os
from typing import Any, TypedDict

from resilient_ov import Client
from resilient_ov_manager.host_config import settings_from_config


class State(TypedDict):
    """What the graph carries: whose thread it is, its messages, and what is remembered."""

    user_id: str
    thread_id: str
    messages: list[Any]
    memory: str


class MemoryNodes:
    """The two nodes; LangChain's messages are read as they are."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def recall(self, state: State) -> dict[str, str]:
        """Put what is remembered into the state; never later than the budget, never an error."""
        return {"memory": self._client.get_context(user_id=state["user_id"])}

    def remember(self, state: State) -> dict[str, str]:
        """Present the thread; only what is new is stored, however often this runs."""
        self._client.add(state["thread_id"], state["messages"], user_id=state["user_id"])
        return {}


def main() -> None:
    """Run one turn of a graph: recall -> answer -> remember."""
    from langgraph.graph import END, START, StateGraph

    settings = settings_from_config(
        {
            "base_url": os.environ.get("OPENVIKING_URL", "http://127.0.0.1:1933"),
            "account": "graphs",
            "api_key_env": "OPENVIKING_API_KEY",
            "storage_path": os.environ.get("GRAPH_STATE", "/var/lib/graphs"),
        }
    )
    with Client(settings) as client:
        nodes = MemoryNodes(client)
        graph = StateGraph(State)
        graph.add_node("recall", nodes.recall)
        graph.add_node("answer", answer)
        graph.add_node("remember", nodes.remember)
        graph.add_edge(START, "recall")
        graph.add_edge("recall", "answer")
        graph.add_edge("answer", "remember")
        graph.add_edge("remember", END)
        first = {"role": "user", "content": "I prefer short answers.", "id": "m0"}
        state = State(user_id="alice", thread_id="t1", messages=[first], memory="")
        print(graph.compile().invoke(state))


def answer(state: State) -> dict[str, list[Any]]:
    """Stand in for your model: put `state["memory"]` into its prompt."""
    said = {"role": "assistant", "content": "Short answers it is.", "id": "m1"}
    return {"messages": [*state["messages"], said]}


if __name__ == "__main__":
    main()
