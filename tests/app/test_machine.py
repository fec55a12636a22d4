from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest

from app.machine import cpu_name, give_memory_back, usable_cpus


def test_quota_of_half_a_cpu_counts_as_one(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    assert usable_cpus(tmp_path) == 1


def test_quota_beyond_the_affinity_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("99900000 100000\n")
    assert usable_cpus(tmp_path) == len(os.sched_getaffinity(0))


def test_no_quota_gives_the_affinity(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert usable_cpus(tmp_path) == len(os.sched_getaffinity(0))


def test_older_cgroups_are_understood(tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("100000")
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000")
    assert usable_cpus(tmp_path) == 1


def test_processor_has_a_name_without_cpuinfo(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("model name\t: Fast One\n")
    assert cpu_name(tmp_path / "cpuinfo") == "Fast One"
    assert cpu_name(tmp_path / "absent")


def test_memory_that_was_freed_is_given_back() -> None:
    def resident_bytes() -> int:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGESIZE")

    blocks = [b"x" * 100_000 for _ in range(1000)]  # each below what the C library maps by itself
    kept = blocks[::100]
    held = resident_bytes()
    del blocks
    give_memory_back()
    assert held - resident_bytes() > 50_000_000
    assert len(kept) == 10


def test_c_library_without_trimming_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    give_memory_back()
