"""Take the picture of the page that the README shows: ``python -m tests.web.screenshot``."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser

from tests.service import running_server
from tests.web.actions import model_id, open_page
from tests.web.browser import running_browser

WIDTH_PIXELS = 1280
HEIGHT_PIXELS = 860  # at least; the picture holds the whole page


@dataclass(frozen=True)
class Scene:
    """What the picture shows: an example of a model, with one of its words pointed at."""

    model: str = "sst2"
    example: str = "A turn at the end"
    word: int = 21
    width_pixels: int = WIDTH_PIXELS
    dark: bool = False


def take(browser: Browser, url: str, scene: Scene, path: Path) -> None:
    """Write the scene as PNG.

    Raises:
        playwright.sync_api.Error: the model has no such example, or its text no such word.
    """
    page = browser.new_page(
        viewport={"width": scene.width_pixels, "height": HEIGHT_PIXELS},
        color_scheme="dark" if scene.dark else "light",
    )
    open_page(page, url)
    page.get_by_label("Model").select_option(model_id(page, scene.model))
    page.get_by_role("button", name=scene.example).click()
    page.locator("#document .word").nth(scene.word).hover()
    page.screenshot(path=path, full_page=True)
    page.close()


def main() -> None:
    """Serve the bundles and take the picture."""
    options = _parse_options()
    scene = Scene(options.model, options.example, options.word, options.width, options.dark)
    with running_server(options.bundles) as server, running_browser() as browser:
        take(browser, server.url, scene, options.out)


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bundles", type=Path, default=Path("bundles"))
    parser.add_argument("--out", type=Path, default=Path("docs/page.png"))
    parser.add_argument("--model", default=Scene.model)
    parser.add_argument("--example", default=Scene.example, help="title of one of the model's examples")
    parser.add_argument("--word", type=int, default=Scene.word, help="the word to point at, from 0")
    parser.add_argument("--width", type=int, default=Scene.width_pixels, help="pixels")
    parser.add_argument("--dark", action="store_true", help="as on a device set to dark")
    return parser.parse_args()


if __name__ == "__main__":
    main()
