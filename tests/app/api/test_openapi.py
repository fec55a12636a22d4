"""Every operation of the OpenAPI document, with what it allows and what it does not: nothing undocumented."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.service import Server


def no_server_error(_: Any, response: Any, __: Any) -> None:
    """A deadline of a millisecond may pass, which is 504; any other 5xx is the service's own fault here."""
    assert response.status_code < 500 or response.status_code == 504, response.text


_CHECKS = [
    no_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_answers_are_as_documented(moderating: Server, mode: GenerationMode) -> None:
    document = schemathesis.openapi.from_url(f"{moderating.url}/openapi.json")
    found = list(document.get_all_operations())
    operations = [one.ok() for one in found if isinstance(one, Ok)]
    assert len(operations) == len(found) > 15
    for operation in operations:
        if mode is GenerationMode.NEGATIVE and not operation.body:
            continue  # any text may stand for a path's part, so nothing can be wrong

        @settings(max_examples=30, derandomize=True, suppress_health_check=list(HealthCheck))
        @given(operation.as_strategy(mode))
        def check(case: Any) -> None:
            case.call_and_validate(checks=_CHECKS)

        check()
