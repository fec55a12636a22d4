"""Podman for the image tests: the image as the Dockerfile makes it, and containers as production runs them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.deploy.base_image import ensure_python_image, run
from tests.deploy.queries import ROOT
from tests.deploy.servers import wait_until

PACKAGES = "buildah podman runc netavark aardvark-dns iptables debootstrap catatonit"
STOP_SECONDS = 10
LEAST_RIGHTS = (
    *("--read-only", "--tmpfs", "/tmp", "--cap-drop", "all"),
    *("--security-opt", "no-new-privileges", "--memory", "512m"),
)
# Podman's defaults want systemd; without it: plain cgroups, runc, events in a file.
_WITHOUT_SYSTEMD = """
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[network]
network_backend = "netavark"
"""
# What pip on this machine needs to reach its packages, the build needs too.
_PIP_FILES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pip.conf")


def configure(folder: Path) -> Mapping[str, str]:
    """The environment variables with which podman works here."""
    missing = [tool for tool in ("podman", "buildah", "debootstrap") if not shutil.which(tool)]
    assert not missing, f"{missing} missing: `apt-get install --no-install-recommends {PACKAGES}` brings them"
    if Path("/run/systemd/system").exists():
        return {}
    path = folder / "containers.conf"
    path.write_text(_WITHOUT_SYSTEMD, encoding="utf-8")
    return {"CONTAINERS_CONF": str(path)}


def build(name: str) -> None:
    """Build the CPU image from the checkout."""
    ensure_python_image()
    mounts = [f"--volume={path}:{path}:ro" for path in _PIP_FILES if Path(path).exists()]
    run(
        "podman",
        "build",
        "--format",
        "docker",
        "--pull=never",
        "--network",
        "host",
        *mounts,
        "-t",
        name,
        ROOT,
    )


@contextmanager
def container(image: str, *arguments: str) -> Iterator[str]:
    """Run a container with the least rights until the block ends; yield its id."""
    identity = run("podman", "run", "-d", "--network", "host", *LEAST_RIGHTS, *arguments, image)
    try:
        yield identity
    finally:
        run("podman", "rm", "--force", "--time", "0", identity)


def logs(identity: str) -> str:
    """What the container printed to both of its streams."""
    command = ["podman", "logs", identity]
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True
    ).stdout


def run_once(image: str, *command: str) -> str:
    """Run another command than the image's own, without a network, and return what it printed."""
    program, *arguments = command
    return run("podman", "run", "--rm", "--network", "none", "--entrypoint", program, image, *arguments)


def wait_until_healthy(identity: str) -> None:
    """Run the image's own health check until it passes."""

    def healthy() -> bool:
        running = run("podman", "inspect", "--format", "{{.State.Running}}", identity)
        assert running == "true", logs(identity)
        check = ["podman", "healthcheck", "run", identity]
        return subprocess.run(check, capture_output=True, check=False).returncode == 0

    wait_until(healthy, "the container is healthy")


def compose(project: str, *arguments: str, **environment: str) -> None:
    """Run podman-compose on the shipped file."""
    program = Path(sys.executable).with_name("podman-compose")
    found = str(program) if program.exists() else shutil.which("podman-compose")
    assert found, "podman-compose is missing: `pip install podman-compose` brings it"
    command = [found, "-p", project, "-f", str(ROOT / "docker-compose.yml"), *arguments]
    done = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout + done.stderr
