"""The import rule of docs/architecture.md, seen in a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Every module of the package, then the forbidden ones among those that were loaded.
_PROGRAM = """
import importlib, pkgutil, sys
package = importlib.import_module({package!r})
for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print(*sorted({{name.split(".")[0] for name in sys.modules}} & set({forbidden!r})))
"""


@pytest.mark.parametrize(
    ("package", "forbidden"),
    [("app", ["torch", "onnx", "sklearn", "models", "export"]), ("models", ["app", "export", "onnxruntime"])],
)
def test_package_loads_without_what_it_must_not_know(package: str, forbidden: list[str]) -> None:
    program = _PROGRAM.format(package=package, forbidden=forbidden)
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == ""


def test_export_knows_only_the_schema_of_the_service() -> None:
    program = "import sys, export.command; print(*sorted(n for n in sys.modules if n.startswith('app.')))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["app.bundle", "app.manifest"]
