"""The page as a whole: accessibility, keyboard, tabs, other mounts, a server that goes away."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from inferencegym.registry import all_specs
from tests.dashboard.conftest import NARROW, WIDE, build_page, open_tab

pytestmark = pytest.mark.browser

SERIOUS = ("serious", "critical")


def tab_names(page: Page) -> list[str]:
    return page.get_by_role("tab").all_inner_texts()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("viewport", [WIDE, NARROW], ids=["wide", "narrow"])
def test_no_tab_has_a_serious_violation(visit: Callable[..., Page], viewport: dict[str, int], dark: bool):
    page = visit(viewport=viewport, dark=dark)
    found: list[str] = []
    for name in tab_names(page):
        open_tab(page, name)
        page.wait_for_timeout(1500)
        for violation in Axe().run(page).response["violations"]:
            if violation["impact"] in SERIOUS:
                places = [node["html"][:160] for node in violation["nodes"][:4]]
                found.append(f"{name}: {violation['id']}: {violation['help']}: {places}")
    assert found == []
