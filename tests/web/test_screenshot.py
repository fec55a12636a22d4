from __future__ import annotations

import struct
from pathlib import Path

from playwright.sync_api import Browser

from tests.web.screenshot import Scene, take


def test_picture_has_the_width_that_was_asked_for(browser: Browser, url: str, tmp_path: Path) -> None:
    take(browser, url, Scene(width_pixels=900, dark=True), tmp_path / "page.png")
    header = (tmp_path / "page.png").read_bytes()[:24]
    assert header.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", header[16:])
    assert width == 900
    assert height >= 860
