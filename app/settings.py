"""The settings of the service, read once from ``READTRACE_*`` variables and passed as an argument."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from app.errors import StartError
from app.machine import usable_cpus

Device = Literal["auto", "cpu", "cuda"]
ModerationCategory = Literal[
    "harassment",
    "harassment/threatening",
    "hate",
    "hate/threatening",
    "illicit",
    "illicit/violent",
    "self-harm",
    "self-harm/instructions",
    "self-harm/intent",
    "sexual",
    "sexual/minors",
    "violence",
    "violence/graphic",
]


class Settings(BaseSettings):
    """Every field is the variable ``READTRACE_<FIELD>``; impossible values stop the start."""

    model_config = SettingsConfigDict(env_prefix="READTRACE_", frozen=True, extra="forbid")

    bundles: Path = Path("bundles")
    """The folder of bundles, NAME/VERSION below it, or one bundle."""

    max_models_bytes: int | None = Field(None, ge=1)
    """The most that the files of all loaded bundles may have together; unset: no limit."""

    host: str = "127.0.0.1"
    """The address to listen on. Only this machine by default: without keys everyone may ask."""

    port: int = Field(8000, ge=0, le=65535)
    """The port to listen on; 0 takes a free one and logs it."""

    keys: Path | None = None
    """The file of API keys that `readtrace keys` writes; unset: everyone who reaches the port may ask."""

    cors_origins: Annotated[tuple[str, ...], NoDecode] = ()
    """Origins whose pages may ask, separated by commas, or `*`; none: only the service's own page."""

    moderation: dict[str, dict[str, ModerationCategory]] = {}
    """Categories of `/v1/moderations` by model and label, as JSON; a label without one is harmless."""

    default_model: str | None = None
    """The model for requests that name none; unset: the first name in alphabetical order."""

    device: Device = "auto"
    """`cuda` or `cpu` insist; `auto` takes the card where ONNX Runtime can use one."""

    allow_cpu_fallback: bool = False
    """Whether `device=cuda` may end on the CPU. Off: nobody notices a silent fall to the CPU."""

    worker_threads: int = Field(default_factory=lambda: max(1, usable_cpus() - 1), ge=1, le=256)
    """Engine threads, each running one batch at a time; one CPU less than usable, left for the network."""

    tokenizer_threads: int = Field(default_factory=lambda: min(4, usable_cpus()), ge=1, le=256)
    """Threads that cut texts into tokens; splitting is far cheaper than reading, so four are plenty."""

    max_connections: int = Field(900, ge=1)
    """The most open connections; each takes a file, and the usual limit of a process is 1,024."""

    head_timeout_seconds: float = Field(10, gt=0, le=3600)
    """How long the request line and the headers may take to arrive: they fit into one packet."""

    body_timeout_seconds: float = Field(30, gt=0, le=3600)
    """How long the body may take to arrive after its head: the largest at 280 kB a second."""

    write_timeout_seconds: float = Field(30, gt=0, le=3600)
    """How long a client may take for the next 64 KiB of an answer that waits for it."""

    max_body_bytes: int = Field(8 * 2**20, ge=1024)
    """The largest body of a request: a full request of 256 documents of 32,000 characters fits."""

    max_bodies_bytes: int = Field(256 * 2**20, ge=1024)
    """What the bodies of all requests may hold until they are parsed, beyond the first 64 KiB of each: a full request
    on each of 32 connections."""

    max_documents: int = Field(256, ge=1, le=65_536)
    """The most documents in one request: beyond some full batches a larger request gains nothing."""

    max_document_tokens: int = Field(32_768, ge=1)
    """The longest document, in tokens; a model's own limit may be lower. A long report has 20,000 words."""

    max_queued_documents: int = Field(4096, ge=1)
    """The most documents accepted and not yet answered, which bounds memory for many short texts."""

    max_queued_tokens: int = Field(1_000_000, ge=1)
    """The most tokens waiting to be read, over all passes: some seconds of work for one CPU."""

    max_wait_seconds: float = Field(10, gt=0, le=3600)
    """The longest that a request may wait for others, as predicted, however late its deadline: under overload all the
    accepted wait so long, so lower it to keep their latency, or raise it where clients rather wait than come back."""

    max_run_seconds: float = Field(0.05, gt=0, le=10)
    """The longest run that calibration allows: what a new document waits at most for a busy thread."""

    run_limit_seconds: float = Field(5, gt=0, le=600)
    """When a run is stopped, and after as long again its thread left behind: a hundred times the longest."""

    load_limit_seconds: float = Field(300, gt=0, le=86_400)
    """How long a bundle may load before it is refused: the largest graphs take a minute or two."""

    max_engine_restarts: int = Field(5, ge=0)
    """Lost engine threads within an hour that are replaced; the next one ends the process with a message."""

    state_key: Path | None = None
    """The file of 32 or more secret bytes that sign reading states; unset: states end with the process."""

    state_lifetime_seconds: float = Field(3600, gt=0, le=31 * 86_400)
    """How long a reading state may be sent back: a conversation that paused for an hour begins anew."""

    request_timeout_seconds: float = Field(30, gt=0, le=3600)
    """The deadline of requests that give none: the usual patience of HTTP clients and proxies."""

    readiness_timeout_seconds: float = Field(5, gt=0, le=60)
    """How long the readiness document may take through the real queue."""

    drain_seconds: float = Field(20, ge=0, le=3600)
    """How long accepted requests may take after SIGTERM: below the 30 seconds that orchestrators grant."""

    traces_endpoint: str | None = None
    """OTLP/HTTP address of an OpenTelemetry collector, such as http://collector:4318/v1/traces; unset: no traces."""

    log_format: Literal["json", "console"] = "json"
    """`json` for machines, `console` for people."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The least severe level that is logged; requests are logged at `info`."""

    @field_validator("cors_origins", mode="before")
    @classmethod
    def _separate(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(origin.strip().rstrip("/") for origin in value.split(",") if origin.strip())
        return value

    @model_validator(mode="after")
    def _limits_fit(self) -> Self:
        if self.max_queued_tokens < self.max_document_tokens:
            raise ValueError(
                f"max_queued_tokens ({self.max_queued_tokens}) must be at least "
                f"max_document_tokens ({self.max_document_tokens}), or the longest document is never accepted; "
                "a model of two passes needs twice as much"
            )
        if self.max_bodies_bytes < self.max_body_bytes:
            raise ValueError(
                f"max_bodies_bytes ({self.max_bodies_bytes}) must be at least "
                f"max_body_bytes ({self.max_body_bytes}), or the largest body is never accepted"
            )
        if self.run_limit_seconds <= self.max_run_seconds:
            raise ValueError(
                f"run_limit_seconds ({self.run_limit_seconds}) must be above "
                f"max_run_seconds ({self.max_run_seconds}), or good runs are stopped"
            )
        if self.max_queued_documents < self.max_documents:
            raise ValueError(
                f"max_queued_documents ({self.max_queued_documents}) must be at least "
                f"max_documents ({self.max_documents}), or the largest request is never accepted"
            )
        return self


def read_settings(**overrides: Any) -> Settings:
    """Read the environment; ``overrides`` that are not None win.

    Raises:
        StartError: a value is impossible; the message names the setting, what it must be and what it was.
    """
    try:
        return Settings(**{name: value for name, value in overrides.items() if value is not None})
    except ValidationError as error:
        raise StartError("\n".join(_explain(problem) for problem in error.errors())) from error


def _explain(problem: Any) -> str:
    if not problem["loc"]:
        return str(problem["msg"]).removeprefix("Value error, ")
    name = str(problem["loc"][0]).lower()
    return f"setting {name} (READTRACE_{name.upper()}): {problem['msg']}, got {problem['input']!r}"
