"""The site under the strict policy that book/how-to-publish.md recommends, word for word."""

import re

import pytest
from pages import ROOT, SITE, broken, toc_pages
from serve import served

PREFIX = "/strict/"
EVENTS = re.compile(r"<[a-zA-Z][^<>]*\son[a-z]+=")
COLLECT = """
window.violations = [];
document.addEventListener('securitypolicyviolation', (e) => window.violations.push(
    `${e.violatedDirective}: ${e.blockedURI} ${e.sourceFile}:${e.lineNumber} ${e.sample}`));
"""


def policy() -> str:
    text = (ROOT / "book/how-to-publish.md").read_text("utf-8")
    lines = re.search(r"^Content-Security-Policy:((?:\n  .+)+)$", text, re.MULTILINE)[1]
    return " ".join(lines.split())


def test_the_policy_is_strict():
    rules = dict(rule.strip().split(" ", 1) for rule in policy().split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == "'self' 'wasm-unsafe-eval'"
    for kind, sources in rules.items():
        assert not re.search(r"https?:|\*", sources), f"{kind} lets somebody else in"


def test_no_page_holds_a_script_or_a_handler():
    for path in SITE.rglob("*.html"):
        if "_static" in path.parts:
            continue
        text = path.read_text("utf-8")
        for script in re.findall(r"<script[^>]*>", text):
            assert " src=" in script, f"{path.name}: {script}"
        assert not EVENTS.search(text), f"{path.name}: {EVENTS.search(text)[0][-80:]}"
        assert "javascript:" not in text, path


@pytest.fixture(scope="module")
def strict(chromium):
    """A profile that sees the site under the policy, and hears every complaint."""
    with served(SITE, PREFIX, policy=policy()) as origin:
        context = chromium.new_context()
        context.add_init_script(COLLECT)
        heard = []
        context.on("console", lambda m: heard.append(m.text) if m.type == "error" else None)
        context.on("weberror", lambda e: heard.append(str(e.error)))
        context.on("requestfailed", lambda r: broken(r) and heard.append(f"failed: {r.url}"))
        page = context.new_page()
        yield origin, page, heard
        context.close()


def settle(page, heard: list[str]) -> None:
    assert page.evaluate("window.violations") == []
    assert heard == []


@pytest.mark.parametrize("name", [*toc_pages(), "search", "genindex", "404"])
def test_a_page_and_its_tools_work_under_the_policy(strict, name):
    origin, page, heard = strict
    heard.clear()
    page.goto(f"{origin}{name}.html", wait_until="networkidle")
    if name == "404":
        return settle(page, heard)
    pagename = page.evaluate("DOCUMENTATION_OPTIONS.pagename")
    assert pagename == name
    before = page.evaluate("document.documentElement.dataset.mode")
    page.locator(".theme-switch-button:visible").first.click()
    assert page.evaluate("document.documentElement.dataset.mode") != before
    for folded in page.locator("article details:not([open]) > summary").all():
        if folded.is_visible():
            folded.click()
    for folded in page.locator(".toggle-button:visible").all():
        folded.click()
    settle(page, heard)


@pytest.mark.parametrize("name", toc_pages())
def test_every_experiment_and_question_works_under_the_policy(strict, name):
    origin, page, heard = strict
    heard.clear()
    page.goto(f"{origin}{name}.html", wait_until="networkidle")
    for root in page.locator(".mlx").all():
        root.locator("input[type=range], select").first.focus()
        page.keyboard.press("ArrowRight")
        page.wait_for_function(
            "root => ['live', 'failed'].includes(root.dataset.state)",
            arg=root.element_handle(),
            timeout=60_000,
        )
        assert root.get_attribute("data-state") == "live", root.locator(
            ".mlx-status"
        ).text_content()
    for question in page.locator(".mlx-predict").all():
        question.locator("input").fill("12")
        question.locator("button").click()
        assert question.locator("dd").first.is_visible()
    settle(page, heard)


def test_search_finds_under_the_policy(strict):
    origin, page, heard = strict
    heard.clear()
    page.goto(f"{origin}search.html?q=memory", wait_until="networkidle")
    assert page.locator("#mlx-results li").count() > 3
    page.locator("#mlx-results li a").first.click()
    page.wait_for_load_state("networkidle")
    settle(page, heard)


def test_without_webassembly_an_experiment_says_so_at_once(chromium):
    """The same policy without 'wasm-unsafe-eval': the stored result stays, in words that help."""
    less = policy().replace(" 'wasm-unsafe-eval'", "")
    with served(SITE, PREFIX, policy=less) as origin:
        page = chromium.new_page()
        page.goto(f"{origin}chapters/04_collectives.html", wait_until="networkidle")
        root = page.locator(".mlx").first
        root.locator("input[type=range]").first.focus()
        page.keyboard.press("ArrowRight")
        page.wait_for_selector(".mlx[data-state=failed]", timeout=15_000)
        assert "WebAssembly" in root.locator(".mlx-status").text_content()
        page.close()
