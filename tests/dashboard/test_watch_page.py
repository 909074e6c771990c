"""Watch, in a browser."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from inferencegym.registry import all_specs
from tests.dashboard.conftest import NARROW, WIDE, choose, keep_picture, to_the_end, width_of

pytestmark = pytest.mark.browser


def test_a_visitor_sees_an_episode_to_its_end_without_choosing_anything(visitor: Page):
    to_the_end(visitor)
    scores = [float(text) for text in visitor.locator(".ig-score").all_text_contents()]
    assert len(scores) == 2
    assert scores[0] > scores[1]
    expect(visitor.locator(".ig-place").first).to_have_text("step 200 of 200")
    expect(visitor.locator(".ig-verdict")).to_contain_text("more")
    keep_picture(visitor, "watch_wide")


@pytest.mark.parametrize("spec", all_specs(), ids=lambda spec: spec.name)
def test_every_environment_can_be_watched(visitor: Page, spec):
    choose(visitor, "Environment", spec.title)
    choose(visitor, "Agent", "random")
    visitor.get_by_role("button", name="Watch").click()
    expect(visitor.locator(".ig-title").first).to_contain_text(f"{spec.title} · ")
    expect(visitor.locator(".ig-key")).to_contain_text("random")
    to_the_end(visitor)


def test_play_pause_seek_and_speed(visitor: Page):
    toggle, seek, place = (visitor.locator(f".ig-{part}").first for part in ("toggle", "seek", "place"))
    expect(toggle).to_have_text("Pause")
    toggle.click()
    expect(toggle).to_have_text("Play")
    seek.fill("50")
    expect(place).to_have_text("step 50 of 200")
    expect(visitor.locator(".ig-outcomes").first).to_be_hidden()
    tiles = visitor.locator(".ig-tile-value").all_text_contents()
    visitor.wait_for_timeout(300)
    assert visitor.locator(".ig-tile-value").all_text_contents() == tiles
    seek.press("ArrowRight")
    expect(place).to_have_text("step 51 of 200")
    toggle.press("Enter")
    expect(place).not_to_have_text("step 51 of 200")


@pytest.mark.parametrize(
    ("field", "given", "told"),
    [
        ("Agent", "cleverest", "cleverest"),
        ("Agent", "llm", "INFERENCEGYM_WEB_LLM"),
        ("Task", "task9", "task9"),
        ("Seed", "-1", "seed"),
        ("Seed", "1.5", "seed"),
    ],
)
def test_what_cannot_be_played_is_said_in_a_sentence(visitor: Page, field: str, given: str, told: str):
    to_the_end(visitor)
    shown = visitor.locator(".ig-title").first.text_content()
    choose(visitor, field, given)
    visitor.get_by_role("button", name="Watch").click()
    expect(visitor.get_by_role("alert")).to_contain_text(told)
    assert visitor.locator(".ig-title").first.text_content() == shown


def test_two_visitors_see_their_own_runs(visit: Callable[..., Page]):
    one, other = visit(), visit()
    for page, seed in ((one, "7"), (other, "8")):
        choose(page, "Seed", seed)
    for page in (one, other):
        page.get_by_role("button", name="Watch").click()
    for page, seed in ((one, "7"), (other, "8")):
        expect(page.locator(".ig-title").first).to_contain_text(f"seed {seed}")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("viewport", [WIDE, NARROW], ids=["wide", "narrow"])
def test_it_fits_the_window(visit: Callable[..., Page], viewport: dict[str, int], dark: bool):
    page = visit(viewport=viewport, dark=dark)
    to_the_end(page)
    assert width_of(page) <= viewport["width"]
    keep_picture(page, f"watch_{viewport['width']}_{'dark' if dark else 'light'}")
