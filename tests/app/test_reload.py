from __future__ import annotations

import asyncio
import gc
import json
import os
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

import app.reload
from app.bundle import MANIFEST
from app.engine.loading import load_registry
from app.engine.registry import Catalogue, Registry
from app.errors import ReloadFailed, UnknownModel
from app.manifest import TOKENIZER
from app.observability.metrics import Metrics
from app.reading.answer import Answer
from app.scheduler.document import Array
from app.scheduler.segments import Lane
from app.scheduler.watch import RunControl
from app.service import Service
from app.settings import read_settings
from tests.app.tiny import make_endless, rewrite_manifest, write_all, write_reviews

NOBODY = 65_534
ODD = os.fsdecode(b"caf\xe9")


class HeldRegistry(Registry):
    """Its runs wait until they are let go."""

    def __init__(self, catalogue: Catalogue) -> None:
        super().__init__(catalogue)
        self.let_go = threading.Event()

    def run(self, lane: Lane, arrays: Mapping[str, Array], control: RunControl) -> Mapping[str, Array]:
        assert self.let_go.wait(20)
        return super().run(lane, arrays, control)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_all(tmp_path)


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """Nobody may enter pytest's own folders."""
    with tempfile.TemporaryDirectory() as root:
        Path(root).chmod(0o755)
        yield write_all(Path(root))


@asynccontextmanager
async def running(root: Path, hold: bool = False, **overrides: object) -> AsyncIterator[Service]:
    settings = read_settings(bundles=root, **overrides)
    registry = load_registry(settings)
    if hold:
        registry = HeldRegistry(registry.catalogue)
    service = Service(settings, registry, Metrics())
    service.start()
    try:
        yield service
    finally:
        await service.stop()


def sample(service: Service, name: str, **labels: str) -> float | None:
    return service.metrics.registry.get_sample_value(f"readtrace_{name}", labels)


async def ask(service: Service, name: str, text: str = "good film") -> str:
    (answer,) = await service.classify(service.registry.find(name), [text])
    assert isinstance(answer, Answer)
    return answer.model.id


@contextmanager
def without_privileges() -> Iterator[None]:
    """Root may read everything; nobody else may."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not happened():
            await asyncio.sleep(0.01)


def test_new_version_takes_the_name_and_removed_ones_leave(folder: Path) -> None:
    async def scenario() -> None:
        async with running(folder) as service:
            write_reviews(folder, version="2", seed=9)
            shutil.rmtree(folder / "topics")
            done = await service.reloader.reload()
            assert (done.loaded, done.removed, done.replaced) == (["reviews@2"], ["topics@1"], [])
            assert await ask(service, "reviews") == "reviews@2"
            assert await ask(service, "reviews@1") == "reviews@1"
            with pytest.raises(UnknownModel):
                service.registry.find("topics")
            assert sample(service, "model_loaded", model="reviews", version="2") == 1
            assert sample(service, "model_bytes", model="reviews", version="2")
            assert sample(service, "model_loaded", model="topics", version="1") is None
            assert sample(service, "model_changes_total", outcome="loaded") == 1
            assert sample(service, "model_changes_total", outcome="removed") == 1
            assert sample(service, "reloads_total", outcome="done") == 1
            await service.check_ready()

    asyncio.run(scenario())


def test_unchanged_bundles_are_not_loaded_again(folder: Path) -> None:
    async def scenario() -> None:
        async with running(folder) as service:
            before = dict(service.registry.loaded)
            done = await service.reloader.reload()
            assert (done.loaded, done.replaced, done.removed, done.refused) == ([], [], [], {})
            assert all(service.registry.loaded[id_] is model for id_, model in before.items())

    asyncio.run(scenario())


def test_version_that_was_written_anew_replaces_the_old_one(folder: Path) -> None:
    async def scenario() -> None:
        async with running(folder) as service:
            rewrite_manifest(folder / "reviews" / "1", architecture="other")
            assert (await service.reloader.reload()).replaced == ["reviews@1"]
            assert service.registry.find("reviews").manifest.architecture == "other"
            assert sample(service, "model_changes_total", outcome="replaced") == 1

    asyncio.run(scenario())


@pytest.mark.parametrize("damage", ["tokenizer", "manifest", "golden"])
def test_damaged_bundle_leaves_the_version_loaded_before(folder: Path, damage: str) -> None:
    bundle = folder / "reviews" / "1"

    async def scenario() -> None:
        async with running(folder) as service:
            if damage == "tokenizer":
                (bundle / TOKENIZER).write_bytes((bundle / TOKENIZER).read_bytes()[:-9])
            elif damage == "manifest":
                (bundle / MANIFEST).write_text("{}")
            else:
                rewrite_manifest(bundle, golden=[{"text": "good", "probabilities": [0.0, 1.0]}])
            done = await service.reloader.reload()
            assert list(done.refused) == ["reviews@1"]
            assert await ask(service, "reviews") == "reviews@1"
            assert sample(service, "model_loaded", model="reviews", version="1") == 1
            assert sample(service, "bundle_refused", model="reviews", version="1") == 1
            assert sample(service, "model_changes_total", outcome="refused") == 1
            await service.check_ready()
            shutil.rmtree(folder / "reviews")
            write_reviews(folder)
            assert not (await service.reloader.reload()).refused
            assert sample(service, "bundle_refused", model="reviews", version="1") == 0

    asyncio.run(scenario())


def test_graph_that_does_not_end_is_refused_and_holds_up_no_later_reload(folder: Path) -> None:
    async def scenario() -> None:
        async with running(folder, run_limit_seconds=0.5) as service:
            make_endless(write_reviews(folder, version="2"))
            write_reviews(folder, version="3")
            done = await service.reloader.reload()
            assert done.refused == {
                "reviews@2": "reviews/2: a run took more than 0.5 seconds (setting run_limit_seconds)"
            }
            assert await ask(service, "reviews") == "reviews@3"
            shutil.rmtree(folder / "reviews" / "2")
            assert (await service.reloader.reload()).refused == {}

    asyncio.run(scenario())


def lose_manifest(bundle: Path) -> None:
    (bundle / MANIFEST).unlink()


def lose_permission(bundle: Path) -> None:
    bundle.chmod(0)


def become_a_file(bundle: Path) -> None:
    shutil.rmtree(bundle)
    bundle.write_text("")


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lose_manifest, "reviews/1/manifest.json: cannot be read: No such file or directory"),
        (lose_permission, "reviews/1/manifest.json: cannot be read: Permission denied"),
        (become_a_file, "reviews/1/manifest.json: cannot be read: Not a directory"),
    ],
)
def test_version_serves_until_its_folder_is_gone(
    public_folder: Path, damage: Callable[[Path], None], reason: str
) -> None:
    folder, bundle = public_folder, public_folder / "reviews" / "1"

    async def scenario() -> None:
        async with running(folder) as service:
            damage(bundle)
            with without_privileges():
                done = await service.reloader.reload()
            assert (done.removed, done.refused) == ([], {"reviews@1": reason})
            assert await ask(service, "reviews") == "reviews@1"
            assert sample(service, "bundle_refused", model="reviews", version="1") == 1
            assert sample(service, "model_loaded", model="reviews", version="1") == 1
            shutil.rmtree(folder / "reviews")
            assert (await service.reloader.reload()).removed == ["reviews@1"]

    asyncio.run(scenario())


def test_odd_names_are_refused_in_words_that_can_be_printed(folder: Path) -> None:
    """Bytes that are no UTF-8: in a file of what serves, and in the name of a folder."""

    async def scenario() -> None:
        async with running(folder) as service:
            (folder / "reviews" / "1" / ODD).write_text("")
            shutil.copytree(folder / "topics", folder / ODD)
            done = await service.reloader.reload()
            assert done.refused == {
                "reviews@1": r"reviews/1: files that the manifest does not list: caf\udce9",
                r"caf\udce9@1": r"caf\udce9/1: the manifest is of topics/1",
            }
            assert await ask(service, "reviews") == "reviews@1"
            assert sample(service, "bundle_refused", model=r"caf\udce9", version="1") == 1
            assert service.metrics.exposition()
            json.dumps(service.reloader.last, ensure_ascii=False).encode()
            (folder / "reviews" / "1" / ODD).unlink()
            shutil.rmtree(folder / ODD)
            assert (await service.reloader.reload()).refused == {}

    asyncio.run(scenario())


def test_folders_that_cannot_be_read_change_nothing_and_are_told(public_folder: Path) -> None:
    root, name = public_folder, public_folder / "reviews"

    async def scenario() -> None:
        write_reviews(root, version="2")
        (name / "stable").write_text("1")
        async with running(root) as service:
            before = service.registry.loaded
            name.chmod(0)
            with without_privileges():
                done = await service.reloader.reload()
            assert set(done.refused) == {"reviews@*", "reviews@1", "reviews@2", "reviews@stable"}
            assert all("cannot be read: Permission denied" in reason for reason in done.refused.values())
            assert service.registry.loaded == before
            assert await ask(service, "reviews") == "reviews@1"
            assert sample(service, "bundle_refused", model="reviews", version="*") == 1
            name.chmod(0o755)
            root.chmod(0)
            with without_privileges(), pytest.raises(ReloadFailed, match="cannot be read: Permission denied"):
                await service.reloader.reload()
            root.chmod(0o755)
            assert service.registry.loaded == before
            assert sample(service, "reloads_total", outcome="failed") == 1

    asyncio.run(scenario())


def test_disks_own_folder_is_no_bundle(public_folder: Path) -> None:
    (public_folder / "lost+found").mkdir(mode=0o700)
    with without_privileges():
        registry = load_registry(read_settings(bundles=public_folder))
    assert not registry.refused


def test_bug_while_loading_is_told_and_the_next_reload_works(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> Catalogue:
        raise ZeroDivisionError

    async def scenario() -> None:
        async with running(folder) as service:
            with monkeypatch.context() as broken:
                broken.setattr(app.reload, "load_catalogue", fail)
                with pytest.raises(ReloadFailed, match="A bug: ZeroDivisionError"):
                    await service.reloader.reload()
            assert sample(service, "reloads_total", outcome="failed") == 1
            assert service.reloader.last is not None
            assert "ZeroDivisionError" in str(service.reloader.last["failed"])
            assert (await service.reloader.reload()).failed is None

    asyncio.run(scenario())


def test_folder_that_cannot_be_served_changes_nothing(folder: Path) -> None:
    async def scenario() -> None:
        async with running(folder, default_model="topics") as service:
            catalogue = service.registry.catalogue
            shutil.rmtree(folder / "topics")
            with pytest.raises(ReloadFailed, match="default_model: Expected one of reviews"):
                await service.reloader.reload()
            shutil.rmtree(folder)
            with pytest.raises(ReloadFailed, match="expected a folder of bundles"):
                await service.reloader.reload()
            assert service.registry.catalogue is catalogue
            assert await ask(service, "topics") == "topics@1"
            assert sample(service, "reloads_total", outcome="failed") == 2

    asyncio.run(scenario())


def test_bad_choice_of_stable_leaves_the_one_before(folder: Path) -> None:
    async def scenario() -> None:
        (folder / "reviews" / "stable").write_text("1")
        write_reviews(folder, version="2")
        async with running(folder) as service:
            (folder / "reviews" / "stable").write_text("3")
            assert list((await service.reloader.reload()).refused) == ["reviews@stable"]
            assert await ask(service, "reviews") == "reviews@1"
            (folder / "reviews" / "stable").write_text("2")
            await service.reloader.reload()
            assert await ask(service, "reviews@stable") == "reviews@2"

    asyncio.run(scenario())


def test_replaced_version_ends_its_work_then_goes(folder: Path) -> None:
    async def scenario() -> None:
        async with running(folder, hold=True) as service:
            old = weakref.ref(service.registry.find("reviews"))
            asked = asyncio.create_task(ask(service, "reviews", "good film " * 50))
            await until(lambda: bool(sample(service, "queue_documents")))
            write_reviews(folder, version="2")
            shutil.rmtree(folder / "reviews" / "1")
            await service.reloader.reload()
            assert service.registry.find("reviews").id == "reviews@2"
            assert [model.id for model in service.registry.retiring] == ["reviews@1"]
            assert sample(service, "retiring_models") == 1
            assert isinstance(service.registry, HeldRegistry)
            service.registry.let_go.set()
            assert await asked == "reviews@1"
            del asked
            await until(lambda: gc.collect() >= 0 and old() is None)
            assert sample(service, "retiring_models") == 0

    asyncio.run(scenario())


def test_memory_limit_counts_what_still_ends_its_work(folder: Path) -> None:
    async def scenario() -> None:
        async with running(folder) as service:
            taken = sum(model.file_bytes for model in service.registry.loaded.values())
        async with running(folder, max_models_bytes=taken + 100) as service:
            write_reviews(folder, version="2")
            reason = (await service.reloader.reload()).refused["reviews@2"]
            assert f"beside {taken} of the models that are loaded" in reason
            assert await ask(service, "reviews") == "reviews@1"

    asyncio.run(scenario())


def test_reloads_never_overlap_and_those_that_wait_are_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running_now, calls = 0, 0
    catalogue = load_registry(read_settings(bundles=folder)).catalogue

    def slow(*arguments: object) -> Catalogue:
        nonlocal running_now, calls
        running_now, calls = running_now + 1, calls + 1
        assert running_now == 1
        time.sleep(0.05)
        running_now -= 1
        return catalogue

    async def scenario() -> None:
        async with running(folder) as service:
            monkeypatch.setattr(app.reload, "load_catalogue", slow)
            first = asyncio.create_task(service.reloader.reload())
            await asyncio.sleep(0.02)
            later = [asyncio.create_task(service.reloader.reload()) for _ in range(5)]
            await asyncio.sleep(0)
            later[0].cancel()
            await asyncio.gather(first, *later[1:])
            assert calls == 2

    asyncio.run(scenario())
