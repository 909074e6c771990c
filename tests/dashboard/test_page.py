"""The page as a whole: tabs, accessibility, keyboard, other mounts, a server that goes away."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from inferencegym.registry import all_specs
from tests.agents.llm.fake_chat import fake_chat
from tests.dashboard.conftest import (
    NARROW,
    WIDE,
    build_page,
    choose,
    keep_picture,
    open_tab,
    to_the_end,
    width_of,
)
from tests.live import free_port, live_process, live_server

pytestmark = pytest.mark.browser

TABS = ["Watch", "Play", "Compare", "Market lab", "Connect", "Playground"]
SERIOUS = ("serious", "critical")


def test_all_tabs_are_there_and_open(visitor: Page):
    assert visitor.get_by_role("tab").all_inner_texts() == TABS
    for name in TABS:
        open_tab(visitor, name)
        expect(visitor.get_by_role("tabpanel").filter(visible=True)).to_be_visible()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("viewport", [WIDE, NARROW], ids=["wide", "narrow"])
def test_every_tab_fits_and_has_no_serious_violation(
    visit: Callable[..., Page], viewport: dict[str, int], dark: bool
):
    page = visit(viewport=viewport, dark=dark)
    to_the_end(page)
    found: list[str] = []
    for name in TABS:
        open_tab(page, name)
        page.wait_for_timeout(1500)
        keep_picture(
            page, f"{name}_{viewport['width']}_{'dark' if dark else 'light'}".replace(" ", "_").lower()
        )
        assert width_of(page) <= viewport["width"], name
        for violation in Axe().run(page).response["violations"]:
            if violation["impact"] in SERIOUS:
                places = [node["html"][:160] for node in violation["nodes"][:4]]
                found.append(f"{name}: {violation['id']}: {violation['help']}: {places}")
    assert found == []


def test_the_page_is_as_wide_in_every_tab(visitor: Page):
    header = visitor.locator(".ig-header")
    boxes = []
    for name in TABS:
        open_tab(visitor, name)
        boxes.append(header.bounding_box())
    assert boxes == [boxes[0]] * len(TABS)


def test_the_keyboard_reaches_tabs_and_controls(visitor: Page):
    visitor.get_by_role("tab", name="Watch", exact=True).focus()
    reached: list[str] = []
    for _ in range(24):
        visitor.keyboard.press("Tab")
        reached.append(
            visitor.evaluate(
                "(document.activeElement.ariaLabel || document.activeElement.innerText || '').trim()"
            )
        )
    text = " | ".join(reached)
    for control in ("Environment", "Agent", "Against", "Watch", "Pause", "Speed", "Step shown"):
        assert control in text, text


@pytest.mark.parametrize("spec", [spec for spec in all_specs() if spec.mount], ids=lambda spec: spec.name)
def test_every_mount_has_the_page_with_its_environment_first(visit: Callable[..., Page], site: str, spec):
    build_page(f"{site}{spec.mount}")
    page = visit(f"{spec.mount}/web/")
    expect(page.locator(".ig-title").first).to_contain_text(f"{spec.title} · ")
    open_tab(page, "Playground")
    page.get_by_role("button", name="Reset").click()
    expect(page.locator(".oe-visual table")).to_be_visible()


def test_visitors_of_the_playground_have_episodes_of_their_own(visit: Callable[..., Page]):
    one, other = visit(), visit()
    for page in (one, other):
        open_tab(page, "Playground")
        page.get_by_role("button", name="Reset").click()
        expect(page.locator(".oe-visual table")).to_contain_text("timestep")
    for count in (2, 3):
        one.get_by_role("button", name="Run step").click()
        expect(one.locator(".oe-episode li")).to_have_count(count)
    other.get_by_role("button", name="Run step").click()
    expect(other.locator(".oe-episode li")).to_have_count(2)
    row = "tr:has(th:text-is('timestep')) td >> nth=0"
    expect(one.locator(row)).to_have_text("2")
    expect(other.locator(row)).to_have_text("1")


def test_a_run_goes_on_while_the_server_is_restarted(visit: Callable[..., Page], troubles: list[str]):
    port = free_port()
    with live_process(port=port) as (url, _):
        build_page(url)
        page = visit(f"{url}/web/")
        expect(page.locator(".ig-place").first).to_contain_text("step 1")
    place = page.locator(".ig-place").first.text_content()
    expect(page.locator(".ig-place").first).not_to_have_text(place or "")
    page.get_by_role("button", name="Watch").click()
    expect(page.get_by_text("Connection to the server was lost")).to_be_visible()
    with live_process(port=port) as (url, _):
        build_page(url)
        # Gradio loads the page anew once the server is back; what is typed before that is lost.
        expect(page.get_by_text("Connection to the server was lost")).to_have_count(0)
        expect(page.locator(".ig-place").first).to_contain_text("of 200")
        choose(page, "Seed", "5")
        page.get_by_role("button", name="Watch").click()
        expect(page.locator(".ig-title").first).to_contain_text("seed 5")
    assert all("Failed to load resource" in trouble for trouble in troubles), troubles
    troubles.clear()


def test_a_language_model_is_shown_as_it_plays_and_a_closed_tab_ends_it(visit: Callable[..., Page]):
    with (
        fake_chat() as chat,
        live_server(
            OPENAI_API_KEY="a-key", API_BASE_URL=chat.url, MODEL_NAME="model", INFERENCEGYM_WEB_LLM="true"
        ) as url,
    ):
        chat.delay_s = 0.2
        build_page(url)
        page = visit(f"{url}/web/")
        to_the_end(page)
        choose(page, "Agent", "llm")
        page.get_by_role("button", name="Watch").click()
        expect(page.locator(".ig-place").first).to_contain_text("still playing")
        asked = len(chat.requests)
        page.context.close()
        time.sleep(2)
        asked_after_close = len(chat.requests)
        time.sleep(2)
        assert 0 < asked < 200
        assert len(chat.requests) == asked_after_close
