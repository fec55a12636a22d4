"""Every error leaves as RFC 9457 ``application/problem+json``."""

from __future__ import annotations

import orjson
from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from app.errors import InternalError, MethodNotAllowed, NotFound, Problem

MEDIA_TYPE = "application/problem+json"


def problem_response(problem: Problem) -> Response:
    """The answer for a problem."""
    return Response(orjson.dumps(problem.body()), problem.status, problem.headers, MEDIA_TYPE)


def install_problem_handlers(app: FastAPI) -> None:
    """Let routes raise; what they raise is answered here."""

    async def on_problem(_: Request, error: Exception) -> Response:
        assert isinstance(error, Problem)
        return problem_response(error)

    async def on_http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        response = problem_response(_known(request, error))
        response.headers.update(error.headers or {})
        return response

    app.add_exception_handler(Problem, on_problem)
    app.add_exception_handler(HTTPException, on_http_error)


def _known(request: Request, error: HTTPException) -> Problem:
    if error.status_code == 404:
        return NotFound(
            f"Nothing is at this path; {request.scope.get('root_path', '')}/docs lists what there is."
        )
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "another method")
        return MethodNotAllowed(f"Expected {allowed}, got {request.method}.")
    return InternalError("The log has more under the request id.")
