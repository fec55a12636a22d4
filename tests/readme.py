"""The parts of README.md that are made from the shipped bundles: `python -m tests.readme` rewrites them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from app.bundle import find_bundles, read_manifest
from app.manifest import Manifest
from benchmarks.shipped import BUNDLES
from tests.service import running_server

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
QUESTION = {"input": ["Is this progress ?"], "model": "sst2"}


def block(text: str, name: str) -> str:
    """What stands between `<!-- NAME -->` and `<!-- end -->`."""
    found = re.search(rf"<!-- {name} -->\n(.*?)\n?<!-- end -->", text, re.DOTALL)
    assert found, f"README.md has no block '{name}'"
    return found[1]


def with_block(text: str, name: str, content: str) -> str:
    """The text with another content of a block."""
    old = f"<!-- {name} -->\n{block(text, name)}"
    return text.replace(old, f"<!-- {name} -->\n{content}")


def manifests() -> list[Manifest]:
    return [read_manifest(folder) for folder in find_bundles(BUNDLES)]


def models_table() -> str:
    """A row per shipped bundle."""
    rows = [
        "| model | labels | architecture | dev accuracy | test accuracy | skip rate | size |",
        "|---" * 7 + "|",
    ]
    for manifest in manifests():
        dev, test = (manifest.training.metrics[split] for split in ("dev", "test"))
        folder = BUNDLES / manifest.name / manifest.version
        size = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
        skip_rate = f"{test['skip_rate']:.2f}" if "skip_rate" in test else ""
        rows.append(
            f"| `{manifest.name}` | {', '.join(manifest.labels)} | {manifest.architecture} | {dev['accuracy']:.4f} "
            f"| {test['accuracy']:.4f} | {skip_rate} | {size:.1f} MB |"
        )
    return "\n".join(rows)


def ask() -> dict[str, Any]:
    """The real answer to the README's question."""
    with running_server(BUNDLES) as server, server.client() as client:
        answer: dict[str, Any] = client.post("/classify", json=QUESTION).raise_for_status().json()
        return answer


def _layout(answer: dict[str, Any]) -> str:
    """JSON with a line per field, as a person reads it."""
    document = answer["data"][0]
    steps = ",\n".join(
        f"      {json.dumps(name)}: {json.dumps(value)}" for name, value in document["steps"].items()
    )
    fields = [(name, json.dumps(value)) for name, value in document.items() if name != "steps"]
    lines = ",\n".join(f"    {json.dumps(name)}: {value}" for name, value in fields)
    head = ", ".join(
        f"{json.dumps(name)}: {json.dumps(value)}" for name, value in answer.items() if name != "data"
    )
    return f'{{{head},\n  "data": [{{\n{lines},\n    "steps": {{\n{steps}}}}}]}}'


def main() -> None:
    text = with_block(README.read_text(encoding="utf-8"), "models", models_table())
    indented = "\n".join(f"    {line}" for line in _layout(ask()).splitlines())
    README.write_text(with_block(text, "answer", f"\n{indented}\n"), encoding="utf-8")


if __name__ == "__main__":
    main()
