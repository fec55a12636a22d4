"""Everything that the service tells a caller went wrong.

EngineLostError            the service ends: its engine threads were lost too often
StartError                 the service cannot start: settings, device or bundles
└── MissingDeviceError     the device that was asked for is not there
Problem                    an answer of RFC 9457: status, type, title, detail
├── ConnectionProblem           found before there is a request to answer
│   ├── BadHttp            400  no HTTP/1.1, or in two readings
│   ├── RequestTimeout     408  head or body came too slowly
│   └── HeadTooLarge       431  more bytes before the body than the limit
├── Unauthenticated        401  no key, or none that is known
├── Forbidden              403  the key may not do this
├── InvalidRequest         422  the body is not what the route takes
├── BodyTooLarge           413  more bytes than the limit
├── TooManyDocuments       413  more documents in one request than the limit
├── RequestTooLarge        413  more tokens in one request than the queue ever holds
├── UnknownModel           404  no loaded bundle has the name
├── InvalidState           422  the state to go on from is none that the service signed
├── ExpiredState           422  it is too old
├── OtherModelState        422  another model or version wrote it
├── NoCategories           422  the model's labels map to no categories of moderation
├── NotFound               404  no such page
├── MethodNotAllowed       405  the page exists, the method does not
├── ReloadFailed           409  the folder of bundles cannot be served; the models stay
├── NotReady               503  the readiness document got no right answer
├── InternalError          500  a bug; the answer tells nothing inside
├── DocumentProblem             one document fails, the others of its request do not
│   ├── EmptyDocument      422  no token in the text
│   ├── DocumentTooLong    422  more tokens than the model or the service reads
│   ├── InvalidText        422  not Unicode text
│   ├── ReadingFailed      500  the model raises on this document, also when it is alone
│   ├── ReadingTerminated  500  the model took too long with this document and was stopped
│   ├── NotANumber         500  the model answered with what is no number
│   ├── EngineFailed       500  the engine died, hung or gave no answer; no document is to blame
│   └── DeadlineExceeded   504  the time was up before the last word was read
└── Refused                     not accepted now; `Retry-After` says when to come back
    ├── QuotaExceeded      429  the key read its share of tokens
    ├── TooManyConnections 503  no connection is left
    ├── NetworkBusy        503  requests come faster than they can be looked at
    ├── BodiesFull         503  the bodies of all requests hold too much
    ├── QueueFull          503  too much waits already
    ├── WaitTooLong        503  what waits would outlast the request's deadline
    └── ShuttingDown       503  the service drains
"""

from __future__ import annotations

from typing import ClassVar


class StartError(Exception):
    """The service cannot start; the message says what was expected and what was found."""


class MissingDeviceError(StartError):
    """The device that was asked for is not there."""


class EngineLostError(Exception):
    """The service ends, as its engine threads were lost too often; the message says how often and why."""


class Problem(Exception):  # noqa: N818 - the word of RFC 9457
    """An error with a status, a stable type and a title; ``detail`` is written for the caller."""

    status: ClassVar[int]
    slug: ClassVar[str]
    title: ClassVar[str]

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail

    @property
    def type(self) -> str:
        """The stable URI reference that names this kind of problem."""
        return f"/problems/{self.slug}"

    @property
    def headers(self) -> dict[str, str]:
        """Headers that belong to the answer, besides the content type."""
        return {}

    def body(self) -> dict[str, object]:
        """The members of ``application/problem+json``."""
        return {"type": self.type, "title": self.title, "status": self.status, "detail": self.detail}


class ConnectionProblem(Problem):
    """The connection is closed before there is a request that could be answered."""


class BadHttp(ConnectionProblem):
    """What came is no HTTP/1.1, or can be read in two ways."""

    status, slug, title = 400, "bad-http", "The request is not HTTP/1.1"


class RequestTimeout(ConnectionProblem):
    """The head or the body of the request did not arrive in time."""

    status, slug, title = 408, "request-timeout", "The request came too slowly"


class HeadTooLarge(ConnectionProblem):
    """The request line and the headers have more bytes than the limit."""

    status, slug, title = 431, "head-too-large", "The head of the request is too large"


class Unauthenticated(Problem):
    """The service asks for an API key, and none that it knows came."""

    status, slug, title = 401, "unauthenticated", "An API key is needed"

    @property
    def headers(self) -> dict[str, str]:
        """``WWW-Authenticate`` as RFC 6750 has it."""
        return {"www-authenticate": 'Bearer realm="readtrace"'}


class Forbidden(Problem):
    """The API key is known and may not do this."""

    status, slug, title = 403, "forbidden", "The API key may not do this"

    def __init__(self, detail: str, scope: str) -> None:
        super().__init__(detail)
        self.scope = scope

    @property
    def headers(self) -> dict[str, str]:
        """``WWW-Authenticate`` with the scope that is missing."""
        challenge = f'Bearer realm="readtrace", error="insufficient_scope", scope="{self.scope}"'
        return {"www-authenticate": challenge}


class InvalidRequest(Problem):
    """The body, or a header, is not what the route takes."""

    status, slug, title = 422, "invalid-request", "The request is not valid"


class BodyTooLarge(Problem):
    """The body has more bytes than the limit."""

    status, slug, title = 413, "body-too-large", "The body is too large"

    @property
    def headers(self) -> dict[str, str]:
        """The rest of the body is not read, so the connection cannot be used again."""
        return {"connection": "close"}


class TooManyDocuments(Problem):
    """The request has more documents than the limit."""

    status, slug, title = 413, "too-many-documents", "Too many documents in one request"


class RequestTooLarge(Problem):
    """The documents of the request together can never fit into the queue."""

    status, slug, title = 413, "request-too-large", "The request has too many tokens"


class UnknownModel(Problem):
    """No loaded bundle has the name that was asked for."""

    status, slug, title = 404, "unknown-model", "No such model"


class InvalidState(Problem):
    """The state to go on from was not signed by this service, or was changed."""

    status, slug, title = 422, "invalid-state", "The state is not valid"


class ExpiredState(Problem):
    """The state to go on from is too old."""

    status, slug, title = 422, "expired-state", "The state has expired"


class OtherModelState(Problem):
    """The state to go on from is of another model, another version or another bundle."""

    status, slug, title = 422, "other-model-state", "The state is of another model"


class NoCategories(Problem):
    """The labels of the model map to no categories of moderation."""

    status, slug, title = 422, "no-categories", "The model does not moderate"


class NotFound(Problem):
    """Nothing lives at the path."""

    status, slug, title = 404, "not-found", "Nothing is here"


class MethodNotAllowed(Problem):
    """The path exists; the method does not."""

    status, slug, title = 405, "method-not-allowed", "The method is not allowed here"


class ReloadFailed(Problem):
    """The folder of bundles as a whole cannot be served; the models stay as they were."""

    status, slug, title = 409, "reload-failed", "The models were not reloaded"


class NotReady(Problem):
    """The readiness document got no answer in time, or a wrong one."""

    status, slug, title = 503, "not-ready", "The service cannot classify now"


class InternalError(Problem):
    """A bug. The log has the place under the request id; the caller learns nothing inside."""

    status, slug, title = 500, "internal-error", "The service failed"


class DocumentProblem(Problem):
    """A document that fails alone."""


class EmptyDocument(DocumentProblem):
    """The text has no token."""

    status, slug, title = 422, "empty-document", "The document has no words"


class DocumentTooLong(DocumentProblem):
    """The text has more tokens than the model or the service reads, or is long and cannot be cut in pieces."""

    status, slug, title = 422, "document-too-long", "The document is too long"


class InvalidText(DocumentProblem):
    """The text is not Unicode: it holds half of a surrogate pair."""

    status, slug, title = 422, "invalid-text", "The document is not valid text"


class ReadingFailed(DocumentProblem):
    """The model raises on this document, also when it is alone."""

    status, slug, title = 500, "reading-failed", "The model could not read the document"


class ReadingTerminated(DocumentProblem):
    """The model took too long with this document, also when it was alone, and was stopped."""

    status, slug, title = 500, "reading-terminated", "Reading the document took too long"


class NotANumber(DocumentProblem):
    """The model answered with what is no number."""

    status, slug, title = 500, "not-a-number", "The model gave no number"


class EngineFailed(DocumentProblem):
    """The engine died, hung or gave no answer while it read the document, which is not to blame."""

    status, slug, title = 500, "engine-failed", "The engine failed"


class DeadlineExceeded(DocumentProblem):
    """The time was up before the last word was read."""

    status, slug, title = 504, "deadline-exceeded", "The deadline passed"


class Refused(Problem):
    """Not accepted now; the caller may come back after ``retry_after_seconds``."""

    def __init__(self, detail: str, retry_after_seconds: int) -> None:
        super().__init__(detail)
        self.retry_after_seconds = retry_after_seconds

    @property
    def headers(self) -> dict[str, str]:
        """``Retry-After`` in whole seconds."""
        return {"retry-after": str(self.retry_after_seconds)}


class QuotaExceeded(Refused):
    """The API key has read its share of tokens; it fills up again by the second."""

    status, slug, title = 429, "quota-exceeded", "The quota of the API key is used up"


class TooManyConnections(Refused):
    """As many connections are open as there may be."""

    status, slug, title = 503, "too-many-connections", "Too many connections"


class NetworkBusy(Refused):
    """Requests come faster than they can be looked at."""

    status, slug, title = 503, "network-busy", "Too many requests at once"


class BodiesFull(Refused):
    """The bodies of all requests that arrive hold as many bytes as they may."""

    status, slug, title = 503, "bodies-full", "Too many large requests at once"


class QueueFull(Refused):
    """Too much waits already."""

    status, slug, title = 503, "queue-full", "The queue is full"


class WaitTooLong(Refused):
    """What waits already would outlast the request's deadline, or the longest wait that is wanted."""

    status, slug, title = 503, "wait-too-long", "The wait would be too long"


class ShuttingDown(Refused):
    """The service answers what it accepted and takes nothing new."""

    status, slug, title = 503, "shutting-down", "The service is shutting down"


DOCUMENT_PROBLEMS: tuple[type[DocumentProblem], ...] = (
    EmptyDocument,
    DocumentTooLong,
    InvalidText,
    ReadingFailed,
    ReadingTerminated,
    NotANumber,
    EngineFailed,
    DeadlineExceeded,
)
STATE_PROBLEMS: tuple[type[Problem], ...] = (InvalidState, ExpiredState, OtherModelState)
CONNECTION_PROBLEMS: tuple[type[ConnectionProblem], ...] = (BadHttp, RequestTimeout, HeadTooLarge)
REFUSALS: tuple[type[Refused], ...] = (QuotaExceeded, BodiesFull, QueueFull, WaitTooLong, ShuttingDown)
PROBLEMS: tuple[type[Problem], ...] = (
    *CONNECTION_PROBLEMS,
    Unauthenticated,
    Forbidden,
    InvalidRequest,
    BodyTooLarge,
    TooManyDocuments,
    RequestTooLarge,
    UnknownModel,
    *STATE_PROBLEMS,
    NoCategories,
    NotFound,
    MethodNotAllowed,
    ReloadFailed,
    NotReady,
    InternalError,
    *DOCUMENT_PROBLEMS,
    TooManyConnections,
    NetworkBusy,
    *REFUSALS,
)
