"""Compare and Connect, in a browser."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Route, expect

from agents.compare.report import row_of, rows_of
from agents.compare.results import scores_of
from inferencegym.registry import all_specs, get_spec
from tests.dashboard.conftest import NARROW, WAIT_MS, keep_picture, open_tab, width_of

pytestmark = pytest.mark.browser


def choose(page: Page, label: str, text: str) -> None:
    page.get_by_label(label, exact=True).locator("visible=true").click()
    page.get_by_role("option", name=text).click()


def shown_cells(page: Page) -> list[list[str]]:
    return [row.locator("th, td").all_inner_texts() for row in page.locator(".ig-scroll tbody tr").all()]


def committed_cells(env: str, task: str) -> list[list[str]]:
    scores = scores_of(env)
    assert scores
    comparison = scores.comparison()
    rows = rows_of(comparison, task)
    return [row_of(comparison, rows, row) for row in rows]


def drawn(page: Page, name: str) -> None:
    expect(page.locator(f'[data-figure="{name}"] .main-svg').first).to_be_visible()


def serious(page: Page, part: str) -> list[str]:
    """Violations of a part of the page that axe calls serious or worse."""
    found = Axe().run(page, context=part).response["violations"]
    return [
        f"{one['id']}: {one['nodes'][0]['html']}" for one in found if one["impact"] in ("serious", "critical")
    ]


# --- compare -----------------------------------------------------------------------------------------------


def test_the_table_is_the_committed_one_and_follows_the_choice(visitor: Page) -> None:
    open_tab(visitor, "Compare")
    expect(visitor.locator(".ig-scroll table")).to_be_visible()
    assert shown_cells(visitor) == committed_cells("serving", "task3")
    drawn(visitor, "scores")
    drawn(visitor, "curve")
    assert visitor.locator('[data-figure="front"]').count() == 0
    keep_picture(visitor, "compare_serving")
    choose(visitor, "Task", "task1")
    expect(visitor.locator(".ig-scroll tbody tr").first).to_contain_text("0.437")
    assert shown_cells(visitor) == committed_cells("serving", "task1")
    choose(visitor, "Environment", get_spec("routing").title)
    expect(visitor.locator(".ig-scroll thead")).to_contain_text("CO₂ (g)")
    choose(visitor, "Task", "stream_2")
    expect(visitor.locator(".ig-scroll tbody tr").first).to_contain_text("0.528")
    drawn(visitor, "front")
    assert shown_cells(visitor) == committed_cells("routing", "stream_2")
    keep_picture(visitor, "compare_routing")
    assert serious(visitor, ".ig-compare") == []


@pytest.mark.parametrize("spec", all_specs(), ids=lambda spec: spec.name)
def test_each_mount_shows_its_own_results_on_a_narrow_dark_page(visit: Callable[..., Page], spec) -> None:
    page = visit(f"{spec.mount}/web/?__theme=dark", NARROW, True)
    open_tab(page, "Compare")
    drawn(page, "scores")
    assert width_of(page) <= NARROW["width"]
    scores = scores_of(spec.id)
    assert scores
    assert shown_cells(page) == committed_cells(spec.id, scores.comparison().tasks[-1])
    keep_picture(page, f"compare_{spec.name}_narrow_dark")
    assert serious(page, ".ig-compare") == []


def test_charts_have_axis_titles_and_words(visitor: Page) -> None:
    open_tab(visitor, "Compare")
    drawn(visitor, "curve")
    assert visitor.locator('[data-figure="curve"] .xtitle').text_content() == "environment steps"
    assert visitor.locator('[data-figure="curve"] .ytitle').text_content() == "score (0 to 1)"
    assert visitor.locator('[data-figure="scores"] .xtitle').text_content() == "score (0 to 1)"
    words = visitor.get_by_role("img", name="Scores from 0 to 1").get_attribute("aria-label")
    assert words
    assert "ppo 0.743 ± 0.004" in words


# --- connect -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mount", ["", "/market"])
def test_snippets_hold_the_address_of_the_browser(visit: Callable[..., Page], site: str, mount: str) -> None:
    page = visit(f"{mount}/web/")
    open_tab(page, "Connect")
    code = page.locator(".ig-snippets:visible pre code")
    expect(code.filter(has_text="curl -s")).to_contain_text(f"U={site}{mount}\n")
    assert "{server}" not in page.locator(".ig-snippets >> nth=0").inner_html()
    choose(page, "Environment", get_spec("routing").title)
    expect(code.filter(has_text="curl -s")).to_contain_text(f"U={site}/routing\n")
    assert f'InferenceGymClient("{site}", env="routing")' in " ".join(code.all_inner_texts())
    link = page.locator(".ig-address:visible a").get_attribute("href")
    assert httpx.get(str(link), trust_env=False).status_code == 200
    keep_picture(page, f"connect{mount.replace('/', '_')}")
    assert serious(page, ".ig-snippets:not([hidden])") == []
    assert serious(page, ".ig-health") == []


@pytest.mark.parametrize(
    ("outside", "prefix"), [("https://team-gym.hf.example", ""), ("https://x.example", "/gym")]
)
def test_behind_a_proxy_the_address_is_the_one_outside(
    browser: Browser, site: str, outside: str, prefix: str
) -> None:
    """The browser is given the server's answers under another name, as a Space does."""

    def pass_on(route: Route) -> None:
        url = urlsplit(route.request.url)
        if "/heartbeat/" in url.path or url.path.endswith("/queue/data"):
            route.abort()  # endless answers; nothing here needs them
            return
        forwarded = {"x-forwarded-proto": "https", "x-forwarded-host": url.netloc}
        path = url.path.removeprefix(prefix) + (f"?{url.query}" if url.query else "")
        route.fulfill(response=route.fetch(url=site + path, headers={**route.request.headers, **forwarded}))

    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    context.route(f"{outside}/**", pass_on)
    page.goto(f"{outside}{prefix}/market/web/")
    open_tab(page, "Connect")
    code = page.locator(".ig-snippets:visible pre code")
    expect(code.filter(has_text="curl -s")).to_contain_text(f"U={outside}{prefix}/market\n")
    assert f'InferenceGymEnv("{outside}{prefix}", env="market")' in " ".join(code.all_inner_texts())
    expect(page.locator(".ig-health-words")).to_have_text("The server answers.")
    context.unroute_all(behavior="ignoreErrors")
    context.close()


def test_copying_works_without_any_permission(visitor: Page) -> None:
    open_tab(visitor, "Connect")
    code = visitor.locator(".ig-snippets:visible pre code").first
    expect(code).to_contain_text("U=http")
    button = visitor.locator(".ig-snippets:visible .ig-copy").first
    button.click()
    expect(button).to_have_text("Copied")
    text = code.inner_text()
    visitor.evaluate("document.body.append(Object.assign(document.createElement('textarea'), {id: 'paste'}))")
    visitor.locator("#paste").focus()
    visitor.keyboard.press("Control+V")
    assert visitor.locator("#paste").input_value().strip() == text.strip()


def test_copying_that_is_forbidden_selects_the_text(visitor: Page) -> None:
    open_tab(visitor, "Connect")
    expect(visitor.locator(".ig-snippets:visible pre code").first).to_contain_text("U=http")
    visitor.evaluate(
        "document.execCommand = () => false;"
        "const refuse = () => Promise.reject(new Error());"
        "Object.defineProperty(navigator, 'clipboard', {value: {writeText: refuse}});"
    )
    button = visitor.locator(".ig-snippets:visible .ig-copy").first
    button.click()
    expect(button).to_have_text("Selected: press Ctrl+C")
    assert "curl -s" in visitor.evaluate("getSelection().toString()")


def test_health_is_the_servers_own_and_says_when_it_is_gone_and_back(
    visitor: Page, site: str, troubles: list[str]
) -> None:
    open_tab(visitor, "Connect")
    words = visitor.locator(".ig-health-words")
    expect(words).to_have_text("The server answers.")
    reply = httpx.get(f"{site}/health", trust_env=False).json()
    field = visitor.locator("[data-field]")
    assert [field.nth(at).inner_text() for at in (0, 1)] == [reply["status"], reply["version"]]
    assert int(field.nth(3).inner_text()) >= 0
    visitor.route("**/health", lambda route: route.abort())
    expect(words).to_contain_text(f"The server does not answer at {site}/health. Unreachable since")
    expect(field.first).to_have_text("unreachable")
    visitor.unroute("**/health")
    visitor.route("**/health", lambda route: route.fulfill(status=503, body="busy"))
    expect(words).to_contain_text("The server answers with HTTP 503")
    visitor.unroute("**/health")
    expect(words).to_contain_text("The server answers again, after ")
    expect(field.first).to_have_text("healthy")
    troubles.clear()  # the browser tells of each request that failed


def test_health_is_asked_only_while_it_is_in_sight(visitor: Page) -> None:
    asked: list[str] = []
    visitor.on("request", lambda request: asked.append(request.url) if "/health" in request.url else None)
    visitor.clock.install()
    open_tab(visitor, "Connect")
    expect(visitor.locator(".ig-health-words")).to_have_text("The server answers.")
    before = len(asked)
    visitor.clock.run_for(10_500)
    assert before + 1 <= len(asked) <= before + 3
    open_tab(visitor, "Compare")
    before = len(asked)
    visitor.clock.run_for(20_000)
    assert len(asked) == before


def test_connect_on_a_narrow_dark_page(visit: Callable[..., Page]) -> None:
    page = visit("/web/?__theme=dark", NARROW, True)
    open_tab(page, "Connect")
    expect(page.locator(".ig-snippets:visible pre code").first).to_contain_text("curl -s")
    assert width_of(page) <= NARROW["width"]
    keep_picture(page, "connect_narrow_dark")
    assert serious(page, ".ig-snippets:not([hidden])") == []
    assert serious(page, ".ig-health") == []
