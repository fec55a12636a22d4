from __future__ import annotations

import math
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import cycle

import httpx
import pytest

from app.keys import make_key, write_keys
from app.observability.metrics import Metrics
from tests.app.tiny import WORDS, write_all
from tests.deploy.queries import Query, panel_queries, rules
from tests.deploy.servers import prometheus, query, wait_until
from tests.service import running_server

# Every stage, bucket and status that a panel divides by: short and long texts, an unknown word, a failing
# document, a request that is refused as invalid.
TEXTS = ("good film", "a dull film , not good !", "unheard words " * 6, WORDS * 3)
BODIES: tuple[Mapping[str, object], ...] = (
    *({"input": text, "model": model} for text in TEXTS for model in ("reviews", "topics")),
    {"input": ["good", ""], "model": "reviews"},
    {"input": 7, "model": "reviews"},
)
WINDOW = "5s"
QUOTA = 10**9  # tokens a minute: more than the traffic, whose refusals would set off an alert
_CLIENTS = 4
_LONG_WINDOW = re.compile(r"\[\d+[mhd]\]( offset \d+h)?")


def runnable(expression: str) -> str:
    """The expression with Grafana's variables filled in, and hours cut to the seconds that a test has."""
    for variable, value in {"$__rate_interval": WINDOW, "$model": ".*", "$route": "/classify"}.items():
        expression = expression.replace(variable, value)
    return _LONG_WINDOW.sub(f"[{WINDOW}]", expression)


def send_until(stop: threading.Event, url: str, key: str) -> None:
    with httpx.Client(headers={"authorization": f"Bearer {key}"}) as client:
        for body in cycle(BODIES):
            client.post(url, json=body)
            if stop.wait(0.01):
                return


@contextmanager
def traffic(url: str, key: str) -> Iterator[None]:
    """Requests of a few clients, so that some find others waiting, until the block ends."""
    stop = threading.Event()
    threads = [threading.Thread(target=send_until, args=(stop, url, key)) for _ in range(_CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus that scrapes a service under traffic."""
    folder = tmp_path_factory.mktemp("live")
    bundles = write_all(folder / "bundles")
    text, key = make_key("shop", ("classify",), QUOTA)
    write_keys(folder / "keys.json", [key])
    with (
        running_server(bundles, keys=str(folder / "keys.json")) as server,
        prometheus(server.url.removeprefix("http://"), folder) as url,
        traffic(f"{server.url}/classify", text),
    ):
        yield url


@pytest.mark.parametrize("panel", panel_queries(), ids=lambda panel: panel.owner)
def test_every_panel_shows_data(scraped: str, panel: Query) -> None:
    expression = runnable(panel.expression)

    def shows_a_number() -> bool:
        return any(not math.isnan(float(sample["value"][1])) for sample in query(scraped, expression))

    wait_until(shows_a_number, f"a number from {expression}", seconds=20)


def test_every_rule_is_healthy_and_no_alert_fires_under_plain_traffic(scraped: str) -> None:
    def evaluated() -> list[dict[str, str]]:
        groups = httpx.get(f"{scraped}/api/v1/rules").json()["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]

    wait_until(lambda: all(rule["health"] == "ok" for rule in evaluated()), "rules are evaluated")
    assert len(evaluated()) == len(rules())
    assert [rule["name"] for rule in evaluated() if rule.get("state") == "firing"] == []


def test_every_metric_is_scraped_from_the_first_time(scraped: str) -> None:
    names = {name.removesuffix("_total") for name in Metrics().names()}
    series = query(scraped, '{__name__=~"readtrace_.*", job="readtrace"}')
    found = {sample["metric"]["__name__"] for sample in series}
    assert {name for name in names if not any(one.startswith(name) for one in found)} == set()
