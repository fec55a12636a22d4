"""Every error leaves as RFC 9457 ``application/problem+json``, or as the dialect of its path has it."""

from __future__ import annotations

import orjson
from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from app.api.dialects.errors import error_body_of
from app.errors import InternalError, MethodNotAllowed, NotFound, Problem

MEDIA_TYPE = "application/problem+json"


def problem_response(problem: Problem, path: str) -> Response:
    """The answer for a problem, in the form of the path's dialect."""
    error_body = error_body_of(path)
    body, media_type = (
        (problem.body(), MEDIA_TYPE) if error_body is None else (error_body(problem), "application/json")
    )
    return Response(orjson.dumps(body), problem.status, problem.headers, media_type)


def install_problem_handlers(app: FastAPI) -> None:
    """Let routes raise; what they raise is answered here."""

    async def on_problem(request: Request, error: Exception) -> Response:
        assert isinstance(error, Problem)
        return problem_response(error, request.scope["path"])

    async def on_http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        response = problem_response(_known(request, error), request.scope["path"])
        response.headers.update(error.headers or {})
        return response

    app.add_exception_handler(Problem, on_problem)
    app.add_exception_handler(HTTPException, on_http_error)


def _known(request: Request, error: HTTPException) -> Problem:
    if error.status_code == 404:
        root = request.scope.get(
            "app_root_path", request.scope.get("root_path", "")
        )  # a mount moves the latter
        return NotFound(f"Nothing is at this path; {root}/docs lists what there is.")
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "another method")
        return MethodNotAllowed(f"Expected {allowed}, got {request.method}.")
    return InternalError("The log has more under the request id.")
