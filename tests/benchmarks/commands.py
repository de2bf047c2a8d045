"""Commands that gates send, and the simplest servers that answer them. No product code here."""

from resilient_ov.domain.exchange import AddMessages, Answer, Identity, Search, Success, WireMessage
from resilient_ov.domain.namespace import memories_uri
from resilient_ov.domain.ports import Attempt

ME = Identity(user="df_benchmark")
FIND = Search(
    identity=ME, query="anything", targets=(memories_uri(),), limit=8, score_threshold=0.55
)
ADD = AddMessages(
    identity=ME,
    session_id="df_benchmark",
    messages=(WireMessage(role="user", content="x" * 2000, source_ids=("df1-0",)),),
)
FOUND = Success(value=(), status=200)


class AnswersAtOnce:
    """A memory server without a wire."""

    def send(self, attempt: Attempt) -> Answer:
        return FOUND

    def close(self) -> None: ...
