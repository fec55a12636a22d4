from __future__ import annotations

import gzip
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.bundle import MANIFEST
from tests.app.tiny import rewrite_manifest, write_all, write_reviews


def readtrace(
    *arguments: str | Path, stdin: str = "", expected_code: int = 0
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "app", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == expected_code, done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_rows_are_classified_in_order_with_line_numbers(bundles: Path) -> None:
    rows = [{"text": f"good film {'bad ' * index}"} for index in range(100)]
    lines = "\n".join(map(json.dumps, rows))
    done = readtrace("classify", "-", "--bundles", bundles, "--model", "topics", stdin=lines)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["line"] for one in found] == list(range(1, 101))
    assert all(one["label"] in ("business", "sports", "science") and "skip_rate" in one for one in found)
    assert "100 rows, 0 failed" in done.stderr


def test_bad_rows_are_reported_and_the_others_answered(bundles: Path) -> None:
    lines = '{"text": "good"}\nnonsense\n\n{"text": ""}\n{"title": "no text"}\n"bad"\n'
    done = readtrace("classify", "-", "--bundles", bundles, stdin=lines, expected_code=1)
    found = {one["line"]: one for one in map(json.loads, done.stdout.splitlines())}
    assert set(found) == {1, 2, 4, 5, 6}
    assert found[1]["label"]
    assert found[6]["label"]
    assert found[2]["error"] == "expected JSON: Expecting value at column 1"
    assert found[4]["error"]["type"] == "/problems/empty-document"
    assert found[5]["error"] == "expected a string or an object with a string 'text'"


def test_user_error_ends_with_a_message_and_two(bundles: Path) -> None:
    done = readtrace("classify", "--bundles", bundles, "-", "--model", "nobody", expected_code=2)
    assert "Expected one of reviews, topics" in done.stderr
    assert done.stdout == ""


def test_file_that_breaks_off_is_a_user_error(bundles: Path, tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl.gz"
    path.write_bytes(gzip.compress(b'"good film"\n' * 1000)[:-20])
    done = readtrace("classify", path, "--bundles", bundles, expected_code=2)
    assert "in.jsonl.gz: cannot be read" in done.stderr


def test_class_names_and_paths_are_no_markup(tmp_path: Path) -> None:
    """Nor does a closing tag that nothing opened end the command."""
    write_all(tmp_path)
    path = tmp_path / "reviews" / "1" / MANIFEST
    manifest = json.loads(path.read_bytes())
    path.write_text(json.dumps(manifest | {"labels": ["[spam]", "[/ham]"]}))
    assert "[spam], [/ham]" in readtrace("models", "--bundles", tmp_path).stdout
    done = readtrace("doctor", "--bundles", tmp_path / "none[/red]", expected_code=2)
    assert "none[/red]: expected a folder" in done.stdout


def test_models_lists_good_and_refused_bundles(tmp_path: Path) -> None:
    write_all(tmp_path)
    assert "leap-lstm" in readtrace("models", "--bundles", tmp_path).stdout
    (tmp_path / "topics" / "1" / MANIFEST).write_text("{}")
    done = readtrace("models", "--bundles", tmp_path, expected_code=2)
    assert "refused" in done.stdout
    assert "mt-lstm" in done.stdout


def test_bench_writes_figures_of_every_pass_and_bucket(bundles: Path, tmp_path: Path) -> None:
    report = tmp_path / "bench.json"
    done = readtrace("bench", "--bundles", bundles, "--model", "topics", "--json", report)
    assert "CPUExecutionProvider" in done.stdout
    (found,) = json.loads(report.read_bytes())["models"]
    assert {(run["reading"], run["bucket"]) for run in found["runs"]} == {
        (reading, bucket) for reading in ("look", "read") for bucket in (4, 8, 16)
    }
    assert all(run["documents_per_second"] > 0 for run in found["runs"])


def test_doctor_finds_a_healthy_installation(bundles: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("READTRACE_PORT", "0")
    done = readtrace("doctor", "--bundles", bundles)
    assert done.stdout.count("good ") == 6
    assert "reviews@1 on CPUExecutionProvider" in done.stdout


def test_doctor_says_what_is_wrong_and_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setenv("READTRACE_PORT", str(taken.getsockname()[1]))
        done = readtrace("doctor", "--bundles", tmp_path, expected_code=2)
    assert done.stdout.count("bad ") == 3
    assert "choose another with --port" in done.stdout
    assert "--bundles" in done.stdout


def damage(root: Path, kind: str) -> str:
    """Damage a bundle; what the message must say."""
    bundle = root / "reviews" / "1"
    if kind == "truncated":
        (bundle / "read.onnx").write_bytes((bundle / "read.onnx").read_bytes()[:100])
        return "reviews/1/read.onnx: sha256 is"
    if kind == "tampered":
        rewrite_manifest(bundle, golden=[{"text": "good", "probabilities": [0.0, 1.0]}])
        return "reviews@1: golden document 0 differs"
    (bundle / MANIFEST).write_text("{")
    return "reviews/1/manifest.json: manifest: Invalid JSON"


@pytest.mark.parametrize("kind", ["truncated", "tampered", "corrupt"])
def test_damaged_bundle_stops_a_start_without_others_and_doctor_finds_it(tmp_path: Path, kind: str) -> None:
    write_reviews(tmp_path)
    reason = damage(tmp_path, kind)
    done = readtrace("serve", "--bundles", tmp_path, "--port", "0", expected_code=2)
    assert f"readtrace: No bundle can be served: {reason}" in done.stderr
    done = readtrace("doctor", "--bundles", tmp_path, expected_code=2)
    assert f"No bundle can be served: {reason}" in done.stdout


def test_missing_gpu_stops_the_start_and_doctor_finds_it(bundles: Path) -> None:
    done = readtrace("serve", "--bundles", bundles, "--port", "0", "--device", "cuda", expected_code=2)
    assert "readtrace: device=cuda was asked for, but ONNX Runtime runs on the CPU." in done.stderr
    done = readtrace("doctor", "--bundles", bundles, "--device", "cuda", expected_code=2)
    assert "bad  bundles: not loaded: device=cuda was asked for" in done.stdout


@pytest.fixture
def many_rows(tmp_path: Path) -> Path:
    """More rows than are read ahead."""
    path = tmp_path / "in.jsonl"
    path.write_text('"good film"\n' * 20_000)
    return path


def classifying(path: Path, bundles: Path) -> list[str]:
    return [sys.executable, "-m", "app", "classify", str(path), "--bundles", str(bundles)]


def test_full_disk_ends_a_file_of_answers_with_a_message(bundles: Path, many_rows: Path) -> None:
    with Path("/dev/full").open("w") as full:  # every write says that the disk is full
        done = subprocess.run(
            classifying(many_rows, bundles),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 2
    assert "readtrace: output: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_reader_that_left_ends_the_answers(bundles: Path, many_rows: Path) -> None:
    with subprocess.Popen(
        classifying(many_rows, bundles), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert json.loads(running.stdout.readline())["line"] == 1
        running.stdout.close()
        assert running.wait(60) == 2
        told = running.stderr.read()
    assert "readtrace: output: Broken pipe" in told
    assert "Traceback" not in told


def test_input_that_goes_on_keeps_nobody_waiting(bundles: Path) -> None:
    with (
        Path("/dev/full").open("w") as full,
        subprocess.Popen(
            classifying(Path("-"), bundles),
            stdin=subprocess.PIPE,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        ) as running,
    ):
        assert running.stdin is not None
        running.stdin.write('"good film"\n')
        running.stdin.flush()
        assert running.wait(60) == 2  # the next read gives nothing yet


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Where the tests run in a shell's background SIGINT is ignored, and processes begun here would inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_interrupt_ends_the_answers(bundles: Path, many_rows: Path) -> None:
    with subprocess.Popen(
        classifying(many_rows, bundles), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        assert json.loads(running.stdout.readline())["line"] == 1
        running.send_signal(signal.SIGINT)
        _, told = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "Traceback" not in told


def test_place_that_cannot_be_written_is_named(bundles: Path) -> None:
    done = readtrace(
        "bench", "--bundles", bundles, "--model", "reviews", "--json", "/proc/no/b.json", expected_code=2
    )
    assert "readtrace: /proc/no/b.json: No such file or directory" in done.stderr


def test_serve_tells_of_a_taken_port(bundles: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = readtrace("serve", "--bundles", bundles, "--port", port, expected_code=2)
    assert f"127.0.0.1:{port}: Address already in use; choose another" in done.stderr


def test_serving_imports_no_training_code() -> None:
    code = (
        "import sys, app.cli, app.server, app.commands.doctor\n"
        "bad = {'torch', 'models', 'export', 'onnx', 'sklearn'} & set(sys.modules)\n"
        "assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
