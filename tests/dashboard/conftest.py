"""A live server and a headless Chromium for the tests of the page."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.live import live_server

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
PICTURES = Path(os.environ.get("PICTURES", "build/pictures"))
"""Where tests leave what they saw."""
WAIT_MS = 60_000
expect.set_options(timeout=WAIT_MS)
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


def build_page(url: str) -> None:
    """Ask for the page until it is built."""
    deadline = time.monotonic() + WAIT_MS / 1000
    while "gradio" not in httpx.get(f"{url}/web/", trust_env=False, timeout=60).text:
        assert time.monotonic() < deadline, "the page is not built"
        time.sleep(0.2)


@pytest.fixture(scope="session")
def site() -> Iterator[str]:
    """Address of a live server whose page is built."""
    with live_server() as url:
        build_page(url)
        yield url


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def troubles() -> list[str]:
    """Console errors, page errors and requests to other hosts that visitors of a test saw. A test that makes
    trouble on purpose clears it."""
    return []


@pytest.fixture
def visit(browser: Browser, site: str, troubles: list[str]) -> Iterator[Callable[..., Page]]:
    """Opens a page for a new visitor: ``visit(path="/web/", viewport=WIDE, dark=False)``; ``path`` may be a
    whole address."""
    contexts: list[BrowserContext] = []

    def open_page(path: str = "/web/", viewport: dict[str, int] = WIDE, dark: bool = False) -> Page:
        context = browser.new_context(
            viewport=viewport, color_scheme="dark" if dark else "light", accept_downloads=True
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        page.on("console", lambda said: troubles.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("response", lambda reply: troubles.append(reply.url) if reply.status >= 400 else None)
        page.on("request", lambda request: troubles.append(request.url) if is_outside(request.url) else None)
        page.goto(path if path.startswith("http") else site + path)
        page.wait_for_selector("button[role=tab]")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert troubles == []


@pytest.fixture
def visitor(visit: Callable[..., Page]) -> Page:
    """A new visitor on the page, at 1280 pixels, light."""
    return visit()


def is_outside(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme in ("http", "https", "ws", "wss") and parts.hostname not in ("127.0.0.1", "localhost")


def open_tab(page: Page, name: str) -> None:
    """Open a tab of the page by its name; a narrow page keeps those that do not fit in a menu."""
    page.wait_for_function("document.querySelectorAll('.ig-player').length > 0")
    tab = page.get_by_role("tab", name=name, exact=True)
    if not (tab.count() and tab.is_visible()):
        page.get_by_label("More tabs").click()
        tab = page.locator(".overflow-dropdown button", has_text=name)
    tab.click()


def choose(page: Page, label: str, text: str) -> None:
    """Type into a field of Watch and press Enter."""
    box = page.get_by_role("tabpanel").first.get_by_label(label, exact=True)
    box.click()
    box.fill(text)
    box.press("Enter")


def to_the_end(page: Page) -> None:
    """Let the run of Watch play to its end."""
    page.locator(".ig-speed").first.select_option("100")
    expect(page.locator(".ig-outcomes").first).to_be_visible()


def keep_picture(page: Page, name: str) -> None:
    """Leave a picture of the whole page."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"{name}.png", full_page=True)


def width_of(page: Page) -> int:
    """Pixels that the page wants to be wide; more than the window means that it scrolls sideways."""
    return page.evaluate("document.documentElement.scrollWidth")
