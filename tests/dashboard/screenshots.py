"""``make screenshots``: the README's pictures of the page, from a server and a browser started for it."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tests.dashboard.conftest import CHROMIUM, WAIT_MS, build_page, open_tab
from tests.live import ROOT, live_server

DOCS = ROOT / "docs"
WINDOW = {"width": 1280, "height": 1200}


def watch(page: Page) -> None:
    """Two agents on the same traffic, two thirds through."""
    page.wait_for_selector(".ig-chart .main-svg")
    page.locator(".ig-seek").first.fill("130")


def market_lab(page: Page) -> None:
    """Two pricing policies, a surge pressed."""
    open_tab(page, "Market lab")
    lab = page.get_by_role("tabpanel").filter(visible=True)
    lab.get_by_role("button", name="Run", exact=True).click()
    lab.locator(".ig-chart .main-svg").first.wait_for()
    lab.locator(".ig-seek").fill("75")
    lab.get_by_role("button", name="Surge", exact=True).click()
    lab.locator(".ig-pressed").wait_for()
    lab.locator(".ig-toggle").click()
    lab.locator(".ig-seek").fill("130")


PICTURES = {"page_watch": watch, "page_market_lab": market_lab}


def take(folder: Path) -> None:
    """Write a picture for each of ``PICTURES``."""
    with live_server() as url, sync_playwright() as playwright:
        build_page(url)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for name, prepare in PICTURES.items():
            page = browser.new_page(viewport=WINDOW)
            page.set_default_timeout(WAIT_MS)
            page.goto(f"{url}/web/")
            prepare(page)
            page.evaluate("document.activeElement.blur()")
            page.wait_for_timeout(500)
            page.screenshot(path=folder / f"{name}.png")
            print(folder / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    take(DOCS)
