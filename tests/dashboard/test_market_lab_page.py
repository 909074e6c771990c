"""Market lab, in a browser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

from server.dashboard.market_lab.run import Run, checked_setup
from tests.dashboard.conftest import NARROW, build_page, keep_picture, width_of
from tests.live import free_port, live_process

pytestmark = pytest.mark.browser

LINES = """charts => charts.map(chart => chart.data.map(line => Array.from(line.y)))"""
SHADED = """charts => charts.map(chart => chart.layout.shapes.filter(one => one.type === "rect")
    .map(one => [one.x0, one.x1]))"""


def lab_of(page: Page) -> Locator:
    tab = page.get_by_role("tab", name="Market lab", exact=True)
    menu = page.locator(".overflow-menu > button").filter(visible=True)
    if page.viewport_size == NARROW:  # the menu of what the window has no room for
        menu.first.click()
        tab = page.locator(".overflow-dropdown button", has_text="Market lab").first
    tab.click()
    return page.get_by_role("tabpanel").filter(visible=True)


def field(lab: Locator, label: str) -> Locator:
    """An input by the beginning of its label."""
    return lab.locator("input").and_(lab.get_by_label(label))


def fill(lab: Locator, label: str, value: Any) -> None:
    box = field(lab, label)
    box.fill(str(value))
    box.press("Tab")


def run(lab: Locator, **fields: Any) -> None:
    for label, value in fields.items():
        fill(lab, label.replace("_", " "), value)
    lab.get_by_role("button", name="Run", exact=True).click()
    expect(lab.locator(".ig-title")).to_contain_text(" · seed ")


def press(lab: Locator, name: str, hour: int) -> None:
    """Press a button of the player at an hour."""
    if lab.locator(".ig-toggle").inner_text() == "Pause":
        lab.locator(".ig-toggle").click()
    lab.locator(".ig-seek").fill(str(hour))
    lab.get_by_role("button", name=name, exact=True).click()
    expect(lab.locator(".ig-lab-status")).to_contain_text(f"{name} in hours {hour + 1} to")


def lines(lab: Locator) -> list[list[list[float]]]:
    return lab.locator(".ig-plot").evaluate_all(LINES)


def test_a_surge_pressed_mid_run_changes_what_comes_and_is_shaded(visitor: Page):
    lab = lab_of(visitor)
    run(lab)
    expect(lab.locator(".ig-toggle")).to_have_text("Pause")
    expect(lab.locator(".ig-plot .main-svg").first).to_be_visible()
    calm = lines(lab)
    assert len(calm) == 7
    assert all(len(line) == 200 for chart in calm for line in chart)
    press(lab, "Surge", 60)
    expect(lab.locator(".ig-key")).to_contain_text("surge (pressed)")
    surged = lines(lab)
    assert [[line[:60] for line in chart] for chart in surged] == [
        [line[:60] for line in chart] for chart in calm
    ]
    # The last chart is the cumulative reward.
    assert all(one[60:] != other[60:] for one, other in zip(surged[-1], calm[-1], strict=True))
    assert all([60.5, 72.5] in spans for spans in lab.locator(".ig-plot").evaluate_all(SHADED))
    # It goes on from there, and the keyboard is where it was.
    expect(lab.get_by_role("button", name="Surge", exact=True)).to_be_focused()
    expect(lab.locator(".ig-toggle")).to_have_text("Pause")
    assert int(lab.locator(".ig-place").inner_text().split()[1]) >= 60
    press(lab, "Shock", 100)
    expect(lab.locator(".ig-lab-note").first).to_contain_text(
        "surge in hours 61 to 72; shock in hours 101 to"
    )
    keep_picture(visitor, "market_lab_wide")
    run(lab)
    expect(lab.locator(".ig-lab-note").first).to_contain_text("No surge and no shock was pressed")
    expect(lab.locator(".ig-key")).not_to_contain_text("pressed")
    assert lines(lab) == calm


def test_the_file_holds_the_duel(visitor: Page, tmp_path: Path):
    lab = lab_of(visitor)
    run(lab, Length=60, Seed_of_the_customers=5)
    press(lab, "Shock", 20)
    with visitor.expect_download() as download:
        lab.get_by_role("button", name="Save all hours as CSV").click()
    download.value.save_as(tmp_path / "saved.csv")
    assert download.value.suggested_filename == "market_surge_seed5_rule_evolved.csv"
    duel = Run.checked(checked_setup("surge", 64, 11), 60, 5, ("rule", "evolved"), None).pressed("shock", 20)
    assert (tmp_path / "saved.csv").read_bytes().decode() == duel.play().csv()


def test_a_policy_is_trained_and_played_against_the_evolved_one(visitor: Page):
    lab = lab_of(visitor)
    for label, value in {"GPUs": 32, "Length": 40, "Generations": 3, "Population": 4}.items():
        fill(lab, label, value)
    lab.get_by_role("button", name="Apply scenario and retrain").click()
    expect(lab.get_by_role("progressbar", name="Generations trained")).to_be_visible()
    expect(lab.get_by_role("button", name="Cancel training")).to_be_enabled()
    expect(lab.get_by_text("Your retrained policy")).to_be_visible()
    expect(field(lab, "Left policy")).to_have_value("evolved")
    expect(field(lab, "Right policy")).to_have_value("retrained here")
    expect(lab.locator(".ig-title")).to_contain_text("surge · 32 GPUs · 11 jobs/h · 40 h")
    expect(lab.locator(".ig-key")).to_contain_text("retrained here")
    table = lab.get_by_role("table").filter(has_text="held-out seeds")
    assert [cell.split("\t")[0] for cell in table.locator("tbody tr").all_inner_texts()] == [
        "retrained here",
        "evolved",
        "rule",
    ]
    assert "±" in table.inner_text()
    expect(lab.get_by_role("button", name="Apply scenario and retrain")).to_be_enabled()
    expect(lab.get_by_role("button", name="Cancel training")).to_be_disabled()
    # It stays the visitor's for other runs.
    run(lab, GPUs=64)
    expect(lab.locator(".ig-title")).to_contain_text("64 GPUs")
    expect(lab.locator(".ig-key")).to_contain_text("retrained here")
    keep_picture(visitor, "market_lab_retrained")


def test_visitors_do_not_see_each_other(visit: Callable[..., Page]):
    one, other = lab_of(visit()), lab_of(visit())
    for lab in (one, other):
        run(lab, Length=80)
    press(one, "Surge", 10)
    press(other, "Shock", 20)
    expect(one.locator(".ig-lab-note").first).to_contain_text("Pressed: surge in hours 11 to 22.")
    expect(other.locator(".ig-lab-note").first).to_contain_text("Pressed: shock in hours 21 to 32.")
    fill(other, "Right policy", "retrained here")
    other.get_by_role("button", name="Run", exact=True).click()
    expect(other.get_by_role("alert")).to_contain_text("no retrained policy of yours")


def test_trainings_wait_for_each_other_and_end_with_their_tab(visit: Callable[..., Page]):
    first_page, second_page = visit(), visit()
    first, second = lab_of(first_page), lab_of(second_page)
    fill(first, "Length", 400)
    for lab in (first, second):
        fill(lab, "Generations", 50)
        fill(lab, "Population", 6)
        lab.get_by_role("button", name="Apply scenario and retrain").click()
        if lab is first:
            expect(lab.get_by_role("progressbar", name="Generations trained")).to_be_visible()
    expect(second.get_by_text("Another visitor is training; yours is next.")).to_be_visible()
    first_page.context.close()
    expect(second.get_by_role("progressbar", name="Generations trained")).to_be_visible()
    second.get_by_role("button", name="Cancel training").click()
    expect(second.get_by_text("The training was cancelled; nothing was changed.")).to_be_visible()
    expect(second.get_by_role("button", name="Apply scenario and retrain")).to_be_enabled()
    # The cancelled one does not stand in its own way.
    fill(second, "Generations", 2)
    second.get_by_role("button", name="Apply scenario and retrain").click()
    expect(second.get_by_text("Your retrained policy")).to_be_visible()


def test_a_value_out_of_range_is_refused_in_a_sentence(visitor: Page):
    lab = lab_of(visitor)
    run(lab)
    fill(lab, "GPUs", 1000)
    lab.get_by_role("button", name="Run", exact=True).click()
    alert = lab.get_by_role("alert")
    expect(alert).to_have_text("GPUs: 1000 is not allowed; allowed: a whole number from 8 to 256.")
    expect(lab.locator(".ig-title")).to_contain_text("64 GPUs")
    fill(lab, "GPUs", 64)
    fill(lab, "Generations", 51)
    lab.get_by_role("button", name="Apply scenario and retrain").click()
    expect(
        lab.get_by_text("Generations: 51 is not allowed; allowed: a whole number from 1 to 50.")
    ).to_be_visible()
    lab.get_by_role("button", name="Run", exact=True).click()
    expect(lab.get_by_text("GPUs: 1000")).to_have_count(0)


def test_another_scenario_brings_its_own_numbers(visitor: Page):
    lab = lab_of(visitor)
    box = field(lab, "Scenario")
    box.click()
    box.fill("research")
    box.press("Enter")
    expect(field(lab, "GPUs")).to_have_value("128")
    expect(field(lab, "Arrival rate")).to_have_value("6")
    run(lab)
    expect(lab.locator(".ig-title")).to_contain_text("research · 128 GPUs · 6 jobs/h")


def test_after_a_restart_a_press_is_answered_in_a_sentence(visit: Callable[..., Page], troubles: list[str]):
    port = free_port()
    with live_process(port=port) as (url, _):
        build_page(url)
        lab = lab_of(visit(f"{url}/web/"))
        run(lab)
    with live_process(port=port) as (url, _):
        build_page(url)
        lab.get_by_role("button", name="Surge", exact=True).click()
        expect(lab.get_by_role("alert")).to_contain_text("the server was restarted since")
        run(lab)
        expect(lab.get_by_role("alert")).to_have_count(0)
        press(lab, "Surge", 20)
    assert all("Failed to load resource" in trouble for trouble in troubles), troubles
    troubles.clear()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_fits_a_telephone(visit: Callable[..., Page], dark: bool):
    page = visit(path="/web/?__theme=dark" if dark else "/web/", viewport=NARROW, dark=dark)
    lab = lab_of(page)
    assert width_of(page) <= NARROW["width"]
    run(lab)
    lab.locator(".ig-speed").select_option("100")
    expect(lab.locator(".ig-place")).to_have_text("step 200 of 200")
    assert width_of(page) <= NARROW["width"]
    worst = [
        one for one in Axe().run(page).response["violations"] if one["impact"] in ("serious", "critical")
    ]
    assert worst == []
    for label, value in {"Length": 24, "Generations": 1, "Population": 4}.items():
        fill(lab, label, value)
    lab.get_by_role("button", name="Apply scenario and retrain").click()
    expect(lab.get_by_text("Your retrained policy")).to_be_visible()
    assert width_of(page) <= NARROW["width"]
    keep_picture(page, f"market_lab_narrow_{'dark' if dark else 'light'}")
