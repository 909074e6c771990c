"""Play, in a browser."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, expect

from tests.dashboard.conftest import NARROW, WIDE, build_page, keep_picture, open_tab, width_of
from tests.live import free_port, live_server

pytestmark = pytest.mark.browser

GRAVE = ("serious", "critical")
SEED = "Seed"


def tab(page: Page) -> Locator:
    """What the open tab shows."""
    return page.get_by_role("tabpanel").filter(visible=True)


def choose(page: Page, label: str, text: str) -> None:
    tab(page).get_by_label(label, exact=True).click()
    page.get_by_role("option", name=text, exact=True).click()


def press(page: Page, name: str) -> None:
    tab(page).get_by_role("button", name=name, exact=True).click()


def start(page: Page, environment: str = "", task: str = "", seed: str = "") -> None:
    """Open the tab and start an episode."""
    open_tab(page, "Play")
    if environment:
        tasks = tab(page).get_by_label("Task", exact=True)
        before = tasks.input_value()
        choose(page, "Environment", environment)
        expect(tasks).not_to_have_value(before)
    if task:
        choose(page, "Task", task)
    if seed:
        tab(page).get_by_label(SEED).fill(seed)
    press(page, "Start")
    expect(page.locator(".ig-play-said")).to_contain_text("Step 0 of")


def set_number(page: Page, label: str, value: str) -> None:
    tab(page).get_by_label(f"number input for {label}").fill(value)


def expect_step(page: Page, step: int, length: int) -> None:
    expect(page.locator(".ig-play-said")).to_contain_text(f"Step {step} of {length}")


def test_an_episode_is_played_with_changed_knobs_and_graded_against_the_agent(visitor: Page):
    start(visitor)
    grade = visitor.locator(".ig-play-grade")
    set_number(visitor, "Batch size (1 to 512)", "200")
    press(visitor, "Next step")
    expect_step(visitor, 1, 200)
    said = visitor.locator(".ig-play-said")
    expect(said).to_contain_text("Batch size 200")
    expect(said).to_contain_text("Throughput")
    set_number(visitor, "KV budget (0.1 to 1)", "0.95")
    press(visitor, "Next 10 steps")
    expect_step(visitor, 11, 200)
    expect(said).to_contain_text("KV budget 0.95, Batch size 200")
    expect(tab(visitor).locator(".ig-place")).to_have_text("step 11")
    press(visitor, "Grade so far")
    expect(grade).to_contain_text("after 11 of 200 steps")
    press(visitor, "To the end")
    expect_step(visitor, 200, 200)
    expect(grade).to_contain_text("The episode is finished")
    expect(grade.locator(".ig-verdict")).to_contain_text("“reactive” on the same task and seed by 0.")
    scores = [float(text) for text in grade.locator(".ig-score").all_text_contents()]
    assert len(scores) == 2
    # The default of 32 sequences scores 0.32.
    assert scores[0] > 0.5
    expect(tab(visitor).locator(".ig-key")).to_contain_text("reactive")
    for name in ("Next step", "Next 10 steps", "To the end"):
        expect(tab(visitor).get_by_role("button", name=name, exact=True)).to_be_disabled()
    keep_picture(visitor, "play_graded")


def test_the_knobs_are_those_of_environment_and_task(visitor: Page):
    start(visitor)
    expect(tab(visitor).get_by_label("Quant tier")).to_have_count(0)
    start(visitor, task="Adversarial Multi-Tenant (hard)")
    expect(tab(visitor).get_by_label("INT4")).to_be_visible()
    expect(tab(visitor).get_by_label("Prefill disagg")).to_be_visible()
    start(visitor, "Carbon-aware routing", "Large-model overuse (medium)")
    expect(tab(visitor).get_by_label("Prefill disagg")).to_have_count(0)
    tab(visitor).get_by_label("SMALL", exact=True).check()
    for step in (1, 2, 3):
        press(visitor, "Next step")
        expect_step(visitor, step, 3)
    expect(visitor.locator(".ig-play-said")).to_contain_text("Model choice SMALL")
    expect(visitor.locator(".ig-play-grade")).to_contain_text("“heuristic”")


def test_fields_that_exclude_each_other_are_chosen_between(visitor: Page):
    start(visitor, "Market")
    set_number(visitor, "Price (1 to 7)", "3.5")
    press(visitor, "Next step")
    expect(visitor.locator(".ig-play-said")).to_contain_text("In force: Price 3.5.")
    tab(visitor).get_by_label("Change", exact=True).check()
    expect(tab(visitor).get_by_label("number input for Price (1 to 7)")).to_have_count(0)
    set_number(visitor, "Change (−0.5 to 0.5)", "0.1")
    press(visitor, "Next step")
    expect(visitor.locator(".ig-play-said")).to_contain_text("In force: Price 3.85.")
    # What is not set follows the market, so that it does not jump when it is set.
    tab(visitor).get_by_label("Price", exact=True).check()
    expect(tab(visitor).get_by_label("number input for Price (1 to 7)")).to_have_value("3.85")
    tab(visitor).get_by_label("Nothing", exact=True).check()
    press(visitor, "Next 10 steps")
    expect_step(visitor, 12, 200)
    expect(visitor.locator(".ig-play-said")).to_contain_text("In force: Price 3.85.")


def test_two_visitors_play_their_own_episodes(visit: Callable[..., Page]):
    one, other = visit(), visit()
    start(one, seed="7")
    start(other, "Autoscaling", seed="8")
    press(one, "Next 10 steps")
    press(other, "Next step")
    expect_step(one, 10, 200)
    expect_step(other, 1, 240)
    press(one, "Next step")
    press(other, "Next 10 steps")
    expect_step(one, 11, 200)
    expect_step(other, 11, 240)
    expect(tab(one).locator(".ig-title")).to_contain_text("Serving control · task1 · seed 7")
    expect(tab(other).locator(".ig-title")).to_contain_text("Autoscaling · balanced · seed 8")


def test_a_refused_seed_is_said_and_the_episode_stays(visitor: Page):
    start(visitor)
    press(visitor, "Next step")
    expect_step(visitor, 1, 200)
    for seed, shown in (("-1", "-1"), ("1.5", "1.5"), ("many", "many"), ("", "no number")):
        tab(visitor).get_by_label(SEED).fill(seed)
        press(visitor, "Start")
        expect(visitor.get_by_role("alert")).to_contain_text(shown)
        expect(visitor.get_by_role("alert")).to_contain_text("allowed: a whole number from 0 to")
    press(visitor, "Next step")
    expect_step(visitor, 2, 200)


def test_a_task_of_another_environment_is_refused_in_a_sentence(visitor: Page):
    open_tab(visitor, "Play")
    box = tab(visitor).get_by_label("Task", exact=True)
    box.fill("steady")
    box.press("Enter")
    press(visitor, "Start")
    expect(visitor.get_by_role("alert")).to_contain_text("steady")


def test_a_refused_value_is_said_and_costs_no_step(visitor: Page):
    start(visitor)
    press(visitor, "Grade so far")
    expect(visitor.get_by_role("alert")).to_contain_text("Press Next step first.")
    press(visitor, "Next step")
    expect_step(visitor, 1, 200)
    set_number(visitor, "Batch size (1 to 512)", "32.5")
    press(visitor, "Next step")
    alert = visitor.get_by_role("alert")
    expect(alert).to_have_text(
        "action.batch_size: 32.5 is not allowed; allowed: a whole number from 1 to 512."
    )
    expect_step(visitor, 1, 200)
    set_number(visitor, "Batch size (1 to 512)", "33")
    press(visitor, "Next step")
    expect_step(visitor, 2, 200)
    expect(alert).to_have_count(0)


def test_the_keyboard_alone_starts_and_steps(visitor: Page):
    open_tab(visitor, "Play")
    tab_to(visitor, "Start")
    visitor.keyboard.press("Enter")
    expect_step(visitor, 0, 200)
    tab_to(visitor, "range slider for Batch size (1 to 512)")
    visitor.keyboard.press("ArrowRight")
    tab_to(visitor, "Next step")
    visitor.keyboard.press("Enter")
    expect_step(visitor, 1, 200)
    expect(visitor.locator(".ig-play-said")).to_contain_text("Batch size 33")
    visitor.keyboard.press("Space")
    expect_step(visitor, 2, 200)


def tab_to(page: Page, name: str) -> None:
    """Press Tab until something of this name or label has the focus."""
    for _ in range(40):
        page.keyboard.press("Tab")
        active = (
            "(document.activeElement.getAttribute('aria-label') || document.activeElement.textContent).trim()"
        )
        if page.evaluate(active) == name:
            return
    raise AssertionError(f"Tab never reaches {name}")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("viewport", [WIDE, NARROW], ids=["wide", "narrow"])
def test_it_fits_the_window_and_can_be_read(visit: Callable[..., Page], viewport: dict[str, int], dark: bool):
    page = visit(viewport=viewport, dark=dark)
    start(page)
    press(page, "Next 10 steps")
    expect_step(page, 10, 200)
    press(page, "Grade so far")
    expect(page.locator(".ig-play-grade")).to_be_visible()
    assert width_of(page) <= viewport["width"]
    grave = [each for each in Axe().run(page).response["violations"] if each["impact"] in GRAVE]
    assert [(each["id"], [node["html"][:200] for node in each["nodes"]]) for each in grave] == []
    keep_picture(page, f"play_{viewport['width']}_{'dark' if dark else 'light'}")


def test_after_a_restart_of_the_server_a_sentence_says_what_became_of_the_episode(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
):
    port = free_port()
    monkeypatch.setattr("tests.live.free_port", lambda: port)
    context = browser.new_context(viewport=WIDE)
    page = context.new_page()
    with live_server(INFERENCEGYM_SHUTDOWN_GRACE_S="0") as url:
        build_page(url)
        page.goto(f"{url}/web/")
        start(page)
        press(page, "Next step")
        expect_step(page, 1, 200)
    with live_server() as url:
        build_page(url)
        press(page, "Next step")
        expect(page.get_by_role("alert")).to_contain_text("no longer kept", timeout=30_000)
        press(page, "Start")
        expect_step(page, 0, 200)
        press(page, "Next step")
        expect_step(page, 1, 200)
    context.close()


def test_the_server_keeps_only_so_many_visitors(visit: Callable[..., Page]):
    with live_server(INFERENCEGYM_MAX_SESSIONS="2") as url:
        build_page(url)
        first = visit(f"{url}/web/")
        start(first)
        press(first, "Next step")
        expect_step(first, 1, 200)
        for _ in range(2):
            expect(visit(f"{url}/web/").locator(".ig-place").first).to_contain_text("of 200")
        press(first, "Next step")
        expect(tab(first).get_by_role("alert")).to_contain_text("no longer kept")
