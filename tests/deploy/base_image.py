"""A stand-in for ``python:3.11-slim`` where no registry can be reached.

It is made of what the original is made of: a minimal Debian and a CPython below ``/usr/local``, here the one
that runs the tests. A ``python:3.11-slim`` that podman already has is taken as it is.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PYTHON_IMAGE = "python:3.11-slim"
PROMETHEUS_IMAGE = "prom/prometheus:v2.53.4"  # as docker-compose.yml names it
_DEBIAN_SOURCES = Path("/etc/apt/sources.list.d/debian.sources")
_DEBIAN_MIRROR = "http://deb.debian.org/debian"
_PACKAGES = (
    "ca-certificates,netbase,tzdata,libssl3,libffi8,libsqlite3-0,libbz2-1.0,liblzma5,zlib1g,"
    "libreadline8,libncursesw6,libuuid1,libexpat1"
)
_LEFT_OUT = ("site-packages", "test", "idlelib", "config-3.11*", "__pycache__")
_PATH = "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"


def run(*command: str | Path) -> str:
    """Run a command to its end and return what it printed; a failure shows both of its streams."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout.strip()


def has_image(name: str) -> bool:
    """Whether podman finds the image without pulling."""
    return subprocess.run(["podman", "image", "exists", name], check=False).returncode == 0


def ensure_python_image() -> str:
    """Return the name of a Python image, built here if podman has none."""
    if not has_image(PYTHON_IMAGE):
        version = sys.version_info[:2]
        assert version == (3, 11), f"the stand-in is made of Python 3.11, these tests run on {version}"
        with tempfile.TemporaryDirectory(prefix="readtrace-base-") as folder:
            root = Path(folder)
            _install_debian(root)
            _install_python(root)
            environment = ("--env", f"PATH={_PATH}", "--env", "LANG=C.UTF-8")
            _commit(("scratch",), [(root, "/")], PYTHON_IMAGE, *environment, "--cmd", "python3")
    return PYTHON_IMAGE


def ensure_prometheus_image() -> str:
    """Return the name of a Prometheus image, made of this machine's Prometheus if podman has none."""
    if not has_image(PROMETHEUS_IMAGE):
        ensure_python_image()
        with tempfile.TemporaryDirectory(prefix="readtrace-prometheus-") as folder:
            root = Path(folder)
            (root / "prometheus").mkdir()
            (root / "prometheus").chmod(0o777)  # the volume takes the mode; the user is not root
            binaries = [(Path(f"/usr/bin/{name}"), "/bin/") for name in ("prometheus", "promtool")]
            user = ("--user", "65534:65534", "--workingdir", "/prometheus")
            entrypoint = ("--entrypoint", '["/bin/prometheus"]', "--cmd", "")
            _commit((PYTHON_IMAGE,), [(root, "/"), *binaries], PROMETHEUS_IMAGE, *user, *entrypoint)
    return PROMETHEUS_IMAGE


def _mirror() -> str:
    lines = _DEBIAN_SOURCES.read_text(encoding="utf-8").splitlines() if _DEBIAN_SOURCES.exists() else []
    return next((line.split()[1] for line in lines if line.startswith("URIs:")), _DEBIAN_MIRROR)


def _install_debian(root: Path) -> None:
    run("debootstrap", "--variant=minbase", f"--include={_PACKAGES}", "bookworm", root, _mirror())


def _install_python(root: Path) -> None:
    source, target = Path(sys.base_prefix), root / "usr/local"
    library = target / "lib/python3.11"
    shutil.copytree(
        source / "lib/python3.11", library, ignore=shutil.ignore_patterns(*_LEFT_OUT), symlinks=True
    )
    (library / "site-packages").mkdir()
    shutil.copy2(source / "bin/python3.11", target / "bin")
    for shared in (source / "lib").glob("libpython3.11.so.1.0"):
        shutil.copy2(shared, target / "lib")
    for link in ("python", "python3"):
        (target / "bin" / link).symlink_to("python3.11")
    run("chroot", root, "ldconfig")
    run("chroot", root, "python3", "-m", "ensurepip", "--altinstall")
    for link in ("pip", "pip3"):
        (target / "bin" / link).symlink_to("pip3.11")


def _commit(base: tuple[str], additions: list[tuple[Path, str]], name: str, *configuration: str) -> None:
    container = run("buildah", "from", "--pull-never", *base)
    try:
        for source, target in additions:
            run("buildah", "add", "-q", container, source, target)
        run("buildah", "config", *configuration, container)
        run("buildah", "commit", "-q", container, f"localhost/{name}")
    finally:
        run("buildah", "rm", container)
