"""Errors as the clients of each dialect look for them; status and headers stay the service's own."""

from __future__ import annotations

from collections.abc import Callable

from app.errors import Problem, Refused

ErrorBody = Callable[[Problem], dict[str, object]]


def plain(problem: Problem) -> dict[str, object]:
    """Hugging Face and the Open Inference Protocol."""
    return {"error": problem.detail}


def text_embeddings_inference(problem: Problem) -> dict[str, object]:
    """``error_type`` names who is to act: the caller (Validation), nobody (Overloaded), the operator."""
    if isinstance(problem, Refused):
        kind = "Overloaded"
    elif problem.status < 500:
        kind = "Validation"
    else:
        kind = "Backend"
    return {"error": problem.detail, "error_type": kind}


def openai(problem: Problem) -> dict[str, object]:
    """``type`` as that interface has it; ``code`` is the problem's own name."""
    if problem.status == 429:
        kind = "rate_limit_error"
    elif problem.status < 500:
        kind = "invalid_request_error"
    else:
        kind = "server_error"
    return {"error": {"message": problem.detail, "type": kind, "param": None, "code": problem.slug}}


_EXACT: dict[str, ErrorBody] = {
    "/": plain,
    "/predict": text_embeddings_inference,
    "/v1/moderations": openai,
    "/v2": plain,
}
_BELOW: tuple[tuple[str, ErrorBody], ...] = (("/models/", plain), ("/v2/", plain))


def error_body_of(path: str) -> ErrorBody | None:
    """How errors of a path are written; None where they are problem details."""
    found = _EXACT.get(path)
    return found or next((body for below, body in _BELOW if path.startswith(below)), None)
