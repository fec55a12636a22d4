"""The service without HTTP: texts in, answers out. The commands ``serve`` and ``classify`` both use it."""

from __future__ import annotations

import asyncio
import functools
import gc
import math
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, contextmanager
from dataclasses import replace
from typing import Self

from app.bundle import BundleError
from app.engine.golden import compare
from app.engine.loading import load_registry
from app.engine.registry import LoadedModel, Registry
from app.errors import (
    DeadlineExceeded,
    NotReady,
    Problem,
    QueueFull,
    QuotaExceeded,
    ShuttingDown,
    StartError,
    WaitTooLong,
)
from app.gathering import Gathering
from app.keys import Caller, KeyRing, read_keys
from app.lag import LoopLag
from app.logs import get_logger
from app.observability.metrics import Metrics
from app.observability.model_metrics import ModelMetrics
from app.observability.observer import MetricsObserver
from app.pending import Pending
from app.reading.answer import Answer
from app.reading.continuation import BEGINNING, Continuation
from app.reading.read_request import ReadRequest, Tokenized, Wanted
from app.reading.state_tokens import StateTokens, read_state_key
from app.reload import Reloader
from app.scheduler.admission import Limits
from app.scheduler.document import Document, Reading
from app.scheduler.scheduler import Ended, Reservation, Scheduler
from app.scheduler.threads import EngineThreads
from app.scheduler.watch import Watch
from app.settings import Settings
from app.text.tokens import SHORT_CHARACTERS, CuttingPace, TokenEstimate, TokenizedText

_STOP_SECONDS = 5.0  # a run is bounded by calibration, so a thread that takes longer hangs and is left behind

_log = get_logger("readtrace.service")


class Service:
    """Loaded models, their queue and their threads; ``start`` and ``stop`` belong to one event loop."""

    def __init__(self, settings: Settings, registry: Registry, metrics: Metrics) -> None:
        self.settings = settings
        self.registry = registry
        self.metrics = metrics
        self.keys = None if settings.keys is None else KeyRing(read_keys(settings.keys))
        metrics.declare_callers(() if self.keys is None else self.keys.callers)
        self._states = StateTokens(read_state_key(settings.state_key), settings.state_lifetime_seconds)
        self.lag = LoopLag()
        self.draining = False
        self._observer = MetricsObserver(metrics)
        self.reloader = Reloader(settings, registry, metrics, ModelMetrics(metrics, registry).show)
        self._tokenizers = ThreadPoolExecutor(settings.tokenizer_threads, "tokenizer")
        self._lengths = TokenEstimate()
        self._cutting = CuttingPace(settings.tokenizer_threads)
        self._reading = 0  # requests accepted and not answered yet
        self._answered_at = -math.inf
        self._rendering = asyncio.Lock()
        self._idle = asyncio.Event()
        self._idle.set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pending = Pending()
        self.failure: str | None = None  # why the engine was given up
        self.on_failure: Callable[[], None] = lambda: None
        watch = Watch(settings.run_limit_seconds)
        self._scheduler = Scheduler(
            registry,
            Limits(settings.max_queued_documents, settings.max_queued_tokens, settings.max_wait_seconds),
            self._observer,
            self._deliver,
            watch,
            places=settings.worker_threads,
        )
        self._gathering = Gathering(self._scheduler.wake)
        self._engine = EngineThreads(
            self._scheduler,
            watch,
            settings.worker_threads,
            self._observer,
            settings.max_engine_restarts,
            self._give_up,
        )

    @classmethod
    def load(cls, settings: Settings) -> Self:
        """Load every bundle.

        Raises:
            StartError: there is nothing to serve, or not as the settings ask.
        """
        registry = load_registry(settings)
        # What is loaded stays: no collection needs to walk through it again.
        gc.collect()
        gc.freeze()
        return cls(settings, registry, Metrics())

    def start(self) -> None:
        """Start the engine threads; call it on the event loop that will wait for answers."""
        self._loop = asyncio.get_running_loop()
        self._engine.start()

    async def drain(self) -> None:
        """Take nothing new and wait for every accepted request; what is late is answered with a refusal."""
        self.draining = True
        try:
            await asyncio.wait_for(self._idle.wait(), self.settings.drain_seconds)
        except TimeoutError:
            self._scheduler.close()

    async def stop(self) -> None:
        """Fail what is still queued and end the threads."""
        self._scheduler.close()
        await self.reloader.close()
        await asyncio.to_thread(self._engine.join, _STOP_SECONDS)
        self._tokenizers.shutdown(wait=False, cancel_futures=True)
        await asyncio.sleep(0)  # lets the last outcomes reach their callers
        self._pending.fail_all(ShuttingDown("The service stopped before the document was read.", 1))

    def reload_keys(self) -> None:
        """Read the file of keys anew; where it is bad the keys stay as they were, and the log says why."""
        if self.keys is None or self.settings.keys is None:
            return
        try:
            self.keys.replace(read_keys(self.settings.keys))
        except StartError as error:
            _log.error("keys_not_reloaded", reason=str(error))
            return
        self.metrics.declare_callers(self.keys.callers)
        _log.info("keys_reloaded", keys=sorted(caller.key.name for caller in self.keys.callers))

    def resolve(self, name: str | None, state: str | None) -> tuple[LoadedModel, Continuation]:
        """Who reads, and from where on; without a name the model that wrote the state.

        Raises:
            UnknownModel: no model has the name.
            InvalidState: the state is none of ours.
            ExpiredState: it is too old.
            OtherModelState: it is of another model than the named one.
        """
        if state is None:
            return self.registry.find(name), BEGINNING
        signed = self._states.read(state)
        model = self.registry.find(name or signed.model_id)
        return model, signed.of(model)

    def check_quota(self, caller: Caller | None) -> None:
        """Let a request of the caller in.

        Raises:
            QuotaExceeded: nothing is left.
        """
        if caller is None or caller.quota is None:
            return
        try:
            caller.quota.check()
        except QuotaExceeded:
            self.metrics.quota_refused_total.labels(caller.key.name).inc()
            raise

    async def classify(
        self,
        model: LoadedModel,
        texts: Sequence[str],
        wanted: Wanted = Wanted(),  # noqa: B008 - frozen
        deadline_seconds: float | None = None,
        caller: Caller | None = None,
    ) -> list[Answer | Problem]:
        """Read texts; a text that fails takes its place in the list as a problem.

        Args:
            model: who reads.
            texts: the documents, at least one.
            wanted: how.
            deadline_seconds: seconds from now that the caller waits; None for the settings' own.
            caller: whose quota the tokens are charged to.

        Raises:
            Refused: the request cannot be queued now, or the caller's quota is used up.
            RequestTooLarge: nor ever.
            DocumentTooLong: the document that is to be continued has no room left.
            asyncio.CancelledError: the caller was cancelled; the documents are dropped at their next border.
        """
        deadline = time.monotonic() + (deadline_seconds or self.settings.request_timeout_seconds)
        answers = await self._read(ReadRequest(model, texts, wanted, deadline, caller))
        for answer in answers:
            self._observer.answered(answer)
        return answers

    async def follow(
        self,
        model: LoadedModel,
        text: str,
        wanted: Wanted = Wanted(),  # noqa: B008 - frozen
        deadline_seconds: float | None = None,
        caller: Caller | None = None,
    ) -> AsyncGenerator[Answer]:
        """Read one text and give the answer so far after every segment of the last pass.

        The last one is what `classify`, which has the same arguments, would give.

        Raises:
            Problem: the text cannot be read, now or at all.
        """
        deadline = time.monotonic() + (deadline_seconds or self.settings.request_timeout_seconds)
        request = ReadRequest(model, [text], wanted, deadline, caller)
        with self._accepted(), self._reserved(request) as reservation:
            ((tokenized, seconds),) = await self._tokenize(request)
            if isinstance(tokenized, Problem):
                self._observer.answered(tokenized)
                raise tokenized
            submit = functools.partial(self._submit, request, reservation)
            following = self._pending.follow(request.document(tokenized), submit)
            async with aclosing(following) as readings:
                async for read, is_last in readings:
                    if not is_last and isinstance(read, Reading):
                        yield request.answer(tokenized, read, seconds)
                        continue
                    answer = self._answer(request, tokenized, read, seconds)
                    self._observer.answered(answer)
                    if isinstance(answer, Problem):
                        raise answer
                    yield answer

    async def exposition(self) -> bytes:
        """The metrics in Prometheus' text format, rendered off the event loop and once at a time."""
        async with self._rendering:
            return await asyncio.to_thread(self.metrics.exposition)

    async def check_ready(self) -> None:
        """Send the shortest golden document of every model through the real queue and compare its answer.

        One that is longer than the service's own limit is read up to it, and then it is enough that it is read.
        Where there is no room for one, it is enough that others are answered: busy is not broken, and an instance
        that is taken out of service for its load leaves that to the rest.

        Raises:
            NotReady: an answer was late, wrong or missing.
            ShuttingDown: the service drains.
        """
        if not self._engine.complete:
            raise NotReady("An engine thread is lost.")
        for model in self.registry.loaded.values():
            number, golden = min(enumerate(model.manifest.golden), key=lambda pair: len(pair[1].text))
            deadline = time.monotonic() + self.settings.readiness_timeout_seconds
            try:
                (answer,) = await self._read(ReadRequest(model, [golden.text], Wanted("right"), deadline))
            except (QueueFull, WaitTooLong) as busy:
                if time.monotonic() - self._answered_at > self.settings.readiness_timeout_seconds:
                    raise NotReady("The queue is full, and nobody is answered.") from busy
                continue
            if isinstance(answer, Problem):
                raise NotReady(f"{model.id} did not answer: {answer.title}.")
            if answer.text.truncated:
                continue
            try:
                compare(model, number, golden, answer.reading.steps)
            except BundleError as error:
                raise NotReady(str(error)) from error

    async def _read(self, request: ReadRequest) -> list[Answer | Problem]:
        with self._accepted(), self._reserved(request) as reservation:
            tokenized = await self._tokenize(request)
            documents = [request.document(text) for text, _ in tokenized if isinstance(text, TokenizedText)]
            submit = functools.partial(self._submit, request, reservation)
            read = iter(await self._pending.wait(documents, submit))
            return [
                self._answer(request, text, next(read), seconds) if isinstance(text, TokenizedText) else text
                for text, seconds in tokenized
            ]

    @contextmanager
    def _accepted(self) -> Iterator[None]:
        """A request that a drain waits for."""
        if self.draining:
            raise ShuttingDown("The service is shutting down and takes nothing new.", 1)
        self._reading += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._reading -= 1
            if not self._reading:
                self._idle.set()

    def _answer(
        self, request: ReadRequest, text: TokenizedText, read: Reading | Problem, tokenize_seconds: float
    ) -> Answer | Problem:
        if isinstance(read, Problem):
            return read
        self._answered_at = time.monotonic()
        answer = request.answer(text, read, tokenize_seconds)
        after = request.after(text, read)
        return answer if after is None else replace(answer, state=self._states.write(request.model, after))

    @contextmanager
    def _reserved(self, request: ReadRequest) -> Iterator[Reservation | None]:
        """Refuse by an estimate what would be refused once it is cut into tokens, which costs far more."""
        if request.characters <= SHORT_CHARACTERS:  # cut at once
            yield None
            return
        reservation = self.lag.judge(
            self._scheduler.reserve,
            self._estimates(request),
            self._cutting.wait_seconds(request.characters),
        )
        try:
            yield reservation
        finally:
            self._scheduler.release(reservation)

    def _estimates(self, request: ReadRequest) -> list[Document]:
        """Documents as long as the request's probably are; those of a huge one fill the queue at most."""
        most_tokens = request.most_tokens(self.settings.max_document_tokens)
        tokens = [min(most_tokens, self._lengths.tokens(text)) for text in request.texts]
        part = min(1.0, self.settings.max_queued_tokens / sum(tokens))
        return [request.estimate(max(1, int(part * one))) for one in tokens]

    def _submit(
        self, request: ReadRequest, reservation: Reservation | None, documents: Sequence[Document]
    ) -> None:
        # between this and the charge nobody else's turn comes: of requests at once only one overdraws the quota
        self.check_quota(request.caller)
        self.lag.judge(self._scheduler.submit, documents, reservation)
        self._gathering.submitted()
        if request.caller is not None:
            again = len(request.wanted.continued.tail)
            self._charge(request.caller, sum(len(document.token_ids) - again for document in documents))

    def _charge(self, caller: Caller, tokens: int) -> None:
        if caller.quota is not None:
            caller.quota.charge(tokens)
        self.metrics.quota_tokens_total.labels(caller.key.name).inc(tokens)

    async def _tokenize(self, request: ReadRequest) -> Tokenized:
        """Cut texts, one job a request and off the event loop unless short."""
        most_tokens = request.most_tokens(self.settings.max_document_tokens)
        characters = request.characters
        if characters <= SHORT_CHARACTERS:
            return self._learn(request.tokenize(most_tokens))
        self._cutting.waiting += characters
        given_up = threading.Event()
        try:
            # the time limit also takes a job back that has not begun
            async with asyncio.timeout(request.deadline_seconds - time.monotonic()):
                tokenized = await asyncio.get_running_loop().run_in_executor(
                    self._tokenizers, request.tokenize, most_tokens, given_up.is_set
                )
        except TimeoutError:
            late = DeadlineExceeded("The time was up before the text was cut into tokens.")
            return [(late, 0.0)] * len(request.texts)
        finally:
            given_up.set()  # a job that goes on, as its caller left or its time is up, ends with its piece
            self._cutting.waiting -= characters
        self._cutting.learn(characters, sum(seconds for _, seconds in tokenized))
        return self._learn(tokenized)

    def _learn(self, tokenized: Tokenized) -> Tokenized:
        self._lengths.learn(text for text, _ in tokenized if isinstance(text, TokenizedText))
        return tokenized

    def _deliver(self, ended: Sequence[Ended]) -> None:
        """Called on engine threads, once per batch."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._pending.deliver, ended)

    def _give_up(self, message: str) -> None:
        """Called on the thread that noticed."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._fail, message)

    def _fail(self, message: str) -> None:
        self.failure = message
        self.draining = True
        self._scheduler.close()
        self.on_failure()
