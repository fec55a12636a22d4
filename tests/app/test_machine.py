from __future__ import annotations

import os
from pathlib import Path

from app.machine import cpu_name, usable_cpus


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
