"""Take the picture of the page that the README shows: ``python -m tests.web.screenshot``."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from playwright.sync_api import Browser

from tests.web.serving import running_browser, running_service

WIDTH_PIXELS = 1280
HEIGHT_PIXELS = 860


def main() -> None:
    """Serve the bundles, read an example, and write the picture."""
    options = _parse_options()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "service.log"
        with running_service(options.bundles, log) as url, running_browser() as browser:
            take(browser, url, options)


def take(browser: Browser, url: str, options: argparse.Namespace) -> None:
    """Choose the model, read its example, point at a word, and write the whole page as PNG."""
    page = browser.new_page(
        viewport={"width": options.width, "height": HEIGHT_PIXELS},
        color_scheme="dark" if options.dark else "light",
        device_scale_factor=options.scale,
    )
    page.goto(url)
    page.wait_for_selector(".chip")
    names = page.locator("#model option").all_inner_texts()
    page.get_by_label("Model").select_option(
        next(name for name in names if name.startswith(f"{options.model}@"))
    )
    page.get_by_role("button", name=options.example).click()
    page.locator("#document .word").nth(options.word).hover()
    page.screenshot(path=options.out, full_page=True)


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bundles", type=Path, default=Path("bundles"))
    parser.add_argument("--out", type=Path, default=Path("docs/page.png"))
    parser.add_argument("--model", default="sst2")
    parser.add_argument("--example", default="A turn at the end", help="title of one of the model's examples")
    parser.add_argument("--word", type=int, default=15, help="the word to point at, from 0")
    parser.add_argument("--width", type=int, default=WIDTH_PIXELS, help="pixels of the page")
    parser.add_argument("--scale", type=float, default=1, help="pixels of the picture per pixel of the page")
    parser.add_argument("--dark", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
