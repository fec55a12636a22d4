"""``/docs``: the interface as one page that needs no script and nothing from elsewhere."""

from __future__ import annotations

from html import escape
from typing import Any

import orjson
from fastapi import FastAPI
from pydantic import BaseModel
from starlette.responses import HTMLResponse, RedirectResponse, Response

from app.api.problems import MEDIA_TYPE
from app.api.schema import (
    DEADLINE_HEADER,
    LONGEST_DEADLINE_MS,
    ClassifyRequest,
    ClassifyResponse,
    ProblemDetails,
    StreamRequest,
)
from app.errors import PROBLEMS, NotFound

_EXAMPLE = {"input": ["Is this progress ?", "A film to remember ."], "explain": "steps"}
_DESCRIPTION = (
    "Classify one document or several and tell how they were read. A document that fails beside others that "
    "do not carries `error` in its place; where all fail, the answer is the first one's problem. The headers "
    "`x-request-id` and `Server-Timing` (tokenize, queue, run, encode; milliseconds) come with every answer."
)
_UNSENT = (400, 408, 431)  # answered before the request is known, hence always as problem details
_STATUSES = (*_UNSENT, 401, 403, 404, 413, 422, 429, 500, 503, 504)
_DEADLINE = {
    "name": DEADLINE_HEADER,
    "in": "header",
    "required": False,
    "description": "How long the answer may take.",
    "schema": {"type": "integer", "minimum": 1, "maximum": LONGEST_DEADLINE_MS},
}


def _problem_response(status: int, other_form: bool = False) -> dict[str, Any]:
    slugs = ", ".join(problem.slug for problem in PROBLEMS if problem.status == status)
    if other_form and status not in _UNSENT:
        return {"description": slugs, "content": {"application/json": {"schema": {"type": "object"}}}}
    schema = {"$ref": "#/components/schemas/ProblemDetails"}
    return {"description": slugs, "model": ProblemDetails, "content": {MEDIA_TYPE: {"schema": schema}}}


def _request_body(schema: type[BaseModel], example: object) -> dict[str, Any]:
    content = {"schema": _inlined(schema.model_json_schema()), "example": example}
    return {"required": True, "content": {"application/json": content}}


def _inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema with its definitions in place, since it becomes a part of a larger document."""
    definitions = schema.pop("$defs", {})

    def place(node: Any) -> Any:
        if isinstance(node, dict):
            if "$ref" in node:
                return place(definitions[node["$ref"].rpartition("/")[2]])
            return {key: place(value) for key, value in node.items()}
        return [place(one) for one in node] if isinstance(node, list) else node

    placed: dict[str, Any] = place(schema)
    return placed


CLASSIFY_DOCUMENTATION: dict[str, Any] = {
    "summary": "Classify documents",
    "description": _DESCRIPTION,
    "tags": ["classify"],
    "response_model": ClassifyResponse,
    "responses": {status: _problem_response(status) for status in _STATUSES},
    "openapi_extra": {
        "parameters": [_DEADLINE],
        "requestBody": _request_body(ClassifyRequest, _EXAMPLE),
    },
}

_STREAM_EXAMPLE = {"input": "Is this progress ?"}
_STREAM_DESCRIPTION = (
    "Classify one document and tell how while it is read, in server-sent events: `steps` for every segment (as in "
    "the answer of `/classify`, with `first`, the index of the first token), then `answer` (that of `/classify` "
    "without the steps), or `error` (problem details). Until the first event errors have a status as everywhere."
)
_EVENT = {
    "type": "object",
    "properties": {
        "event": {"type": "string", "enum": ["steps", "answer", "error"]},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
    "required": ["event", "data"],
}
STREAM_DOCUMENTATION: dict[str, Any] = {
    "summary": "Classify a document, told while it is read",
    "description": _STREAM_DESCRIPTION,
    "tags": ["classify"],
    "response_class": Response,
    "responses": {
        200: {"description": "Events", "content": {"text/event-stream": {"schema": _EVENT}}},
        **{status: _problem_response(status) for status in _STATUSES},
    },
    "openapi_extra": {
        "parameters": [_DEADLINE],
        "requestBody": _request_body(StreamRequest, _STREAM_EXAMPLE),
    },
}


def classifying(
    summary: str, tag: str, request: type[BaseModel], example: object, response: dict[str, Any]
) -> dict[str, Any]:
    """The documentation of a dialect's route that classifies; its errors are in the dialect's own form."""
    answer = {"description": "Classified", "content": {"application/json": {"schema": response}}}
    return {
        "summary": summary,
        "tags": [tag],
        "response_class": Response,
        "responses": {200: answer, **{status: _problem_response(status, True) for status in _STATUSES}},
        "openapi_extra": {"parameters": [_DEADLINE], "requestBody": _request_body(request, example)},
    }


def problem_responses(*statuses: int, other_form: bool = False) -> dict[int | str, dict[str, Any]]:
    """Of a route that does not classify: what it may be refused for, besides its answer."""
    return {status: _problem_response(status, other_form) for status in (*_UNSENT, *statuses)}


def add_reference(app: FastAPI) -> None:
    """Add ``/docs``, drawn from the application's own OpenAPI document, and a link for each problem type."""

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(render_reference(app.openapi()))

    @app.get("/problems/{slug}", include_in_schema=False)
    async def problem(slug: str) -> RedirectResponse:
        if all(known.slug != slug for known in PROBLEMS):
            raise NotFound("No problem has this name; /docs lists them all.")
        return RedirectResponse(f"../docs#{slug}")


def render_reference(openapi: dict[str, Any]) -> str:
    """The OpenAPI document and the problem types as plain HTML."""
    operations = [
        _operation(method, path, operation)
        for path, methods in openapi["paths"].items()
        for method, operation in methods.items()
    ]
    info = openapi["info"]
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{escape(info["title"])}: interface</title><link rel="icon" href="static/favicon.svg">'
        '<link rel="stylesheet" href="static/theme.css"><link rel="stylesheet" href="static/reference.css">'
        f"<h1>{escape(info['title'])}</h1><p>{escape(info['description'])} "
        '<a href="openapi.json">OpenAPI document</a></p>'
        f"{''.join(operations)}<h2>Problems</h2><dl>{''.join(map(_problem, PROBLEMS))}</dl></html>"
    )


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    parts = [
        f"<h2><code>{method.upper()} {escape(path)}</code></h2><p>{escape(operation.get('summary', ''))}</p>",
        f"<p>{escape(operation.get('description', ''))}</p>",
    ]
    for media_type in operation.get("requestBody", {}).get("content", {}).values():
        parts.append(_fields(media_type["schema"]))
        example = orjson.dumps(media_type["example"], option=orjson.OPT_INDENT_2).decode()
        parts.append(f"<p>Example:</p><pre>{escape(example)}</pre>")
    answers = "".join(
        f"<li><code>{escape(status)}</code> {escape(answer['description'])}</li>"
        for status, answer in operation["responses"].items()
    )
    return "".join(parts) + f"<p>Answers:</p><ul>{answers}</ul>"


def _fields(schema: dict[str, Any]) -> str:
    required = schema.get("required", [])
    rows = "".join(
        f"<li><code>{escape(name)}</code>{' (required)' if name in required else ''}: "
        f"{escape(field.get('description', ''))}{_choices(field)}</li>"
        for name, field in schema["properties"].items()
    )
    return f"<p>Fields:</p><ul>{rows}</ul>"


def _choices(field: dict[str, Any]) -> str:
    if "enum" not in field:
        return ""
    values = ", ".join(f"<code>{escape(str(value))}</code>" for value in field["enum"])
    return f" One of {values}; without it <code>{escape(str(field.get('default')))}</code>."


def _problem(problem: type[Any]) -> str:
    meaning = (problem.__doc__ or "").strip()
    return (
        f'<dt id="{problem.slug}"><code>/problems/{problem.slug}</code> {problem.status}</dt>'
        f"<dd>{escape(problem.title)}. {escape(meaning)}</dd>"
    )
