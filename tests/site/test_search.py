"""Search finds sections, equations, experiments and words, under every name people have for them.

Sixty questions of `helpers.questions` stand for what people ask: most are right first, and nearly
all in the first three.
"""

import json
import re
import subprocess
from urllib.parse import quote

import contents
import pytest
from ahead import node
from livebook import own_scripts
from pages import ROOT
from questions import HELD, TUNED
from search_index import formula

C, M, K, D, Z = (
    f"chapters/{name}.html"
    for name in ("compute", "memory", "collectives", "data_parallel", "zero")
)
WORD = "book/glossary.html#term-"
FIRST = {  # what is typed: where the first hit leads
    "GQA": f"{C}#flop-of-models-with-gqa-experts-and-windows",
    "grouped-query attention": f"{C}#flop-of-models-with-gqa-experts-and-windows",
    "MFU": f"{C}#from-flop-to-days-and-dollars-mfu",
    "mfu": f"{C}#from-flop-to-days-and-dollars-mfu",
    "bubble": "chapters/pipeline.html#the-bubble-derived-both-ways",
    "bf16": f"{M}#why-mixed-precision-keeps-fp32-master-weights",
    "gradient accumulation": f"{D}#gradient-accumulation",
    "checkpoint": "chapters/mics.html#start-and-restart-in-shards",
    "FSDP": f"{Z}#stage-3-shard-the-weights",
    "6ND": f"{C}#the-6pd-rule-gpt-3-in-flop-days-and-dollars",
    "allreduce": f"{K}#ranks",
    "all-reduce": f"{K}#ranks",
    "all reduce": f"{K}#ranks",
    "out of memory": f"{M}#one-training-step-byte-by-byte",
    "OOM": f"{M}#one-training-step-byte-by-byte",
    "NVLink": f"{WORD}NVLink",
    "flash attention": f"{C}#counting-flop-in-pytorch",
    "FlashAttention": f"{C}#counting-flop-in-pytorch",
    "ZeRO": f"{Z}#data-parallelism-keeps-n-copies",
    "bucket": f"{D}#buckets-send-while-backward-goes-on",
    "ring": f"{K}#the-ring",
    "hierarchical all-reduce": f"{K}#inside-nodes-and-between-them",
    "drop_last": f"{D}#who-gets-which-data",
    "GPT-3": f"{C}#the-6pd-rule-gpt-3-in-flop-days-and-dollars",
    "memory": M,
    "DDP": f"{D}#ddp-in-pytorch",
    "C21": "book/ledger.html#ledger-C21",
    # of these, some words stand together in no section, or in none that is about them
    "activation memory": "chapters/activations.html#activation-memory-of-a-layer",
    "CUDA out of memory": f"{M}#one-training-step-byte-by-byte",
    "gradient checkpointing": "chapters/activations.html#how-recomputation-works",
    "kv cache size": "chapters/inference.html#kv-cache-size-in-bytes",
    "bubble fraction": "chapters/pipeline.html#the-bubble-derived-both-ways",
    "peak memory": f"{M}#peak-memory-where-a-step-is-fullest",
    "sequence parallel": "chapters/tensor.html#sequence-parallelism-the-same-bytes-less-memory",
    "expert parallelism": "chapters/experts.html#expert-parallel-groups",
    "load balancing loss": "chapters/experts.html#the-router",
    "3D parallelism": "chapters/together.html#five-axes-in-one-table",
    "device mesh": "chapters/together.html#which-ranks-are-neighbours",
    # an equation by its number, an experiment by its title, a word that is typed wrong
    "Equation 11.2": "chapters/pipeline.html#equation-eq-bubble",
    "a schedule played by the clock": "chapters/pipeline.html#stages-that-are-not-equal",
    "fragmentaton": f"{M}#does-it-fit",
    "MFUs of an unheardof": f"{C}#from-flop-to-days-and-dollars-mfu",
}

ASKED = {**TUNED, **HELD}
NEAR = {  # in the first three
    "why loss spike": "chapters/precision.html#why-fp16-needs-loss-scaling",
    "offload optimizer states": f"{M}#model-states-what-is-kept-for-each-parameter",
}


@pytest.fixture(scope="module")
def records(site) -> list[dict]:
    return json.loads((site / "sections.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def hits(site, tmp_path_factory) -> dict[str, list[dict]]:
    """What the page's own module ranks first, for every query at once."""
    folder = tmp_path_factory.mktemp("search")
    for name, script in own_scripts(ROOT / "book/live").items():
        (folder / name).write_bytes(script)
    (folder / "ask.mjs").write_text(
        "import { prepare, rank } from './search.mjs';\n"
        "import { readFileSync } from 'node:fs';\n"
        "const [index, queries] = process.argv.slice(2);\n"
        "const book = prepare(JSON.parse(readFileSync(index, 'utf8')));\n"
        "const asked = JSON.parse(queries);\n"
        "const found = asked.map((q) => [q, rank(book, q).map((h) => h.record)]);\n"
        "console.log(JSON.stringify(Object.fromEntries(found)));\n",
        "utf-8",
    )
    queries = json.dumps([*FIRST, *ASKED, *NEAR, "snarks and boojums", "(", "  "])
    done = subprocess.run(
        [node(), folder / "ask.mjs", site / "sections.json", queries],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("query", FIRST)
def test_the_first_hit_is_the_place(hits, query):
    assert [hit["url"] for hit in hits[query]][:1] == [FIRST[query]]


@pytest.mark.parametrize("query", NEAR)
def test_the_first_three_hits_have_the_place(hits, query):
    assert NEAR[query] in [hit["url"] for hit in hits[query]][:3]


def test_what_people_ask_is_answered_first_and_nearly_always_in_the_first_three(hits):
    places = {}
    for query, named in ASKED.items():
        right = {"chapters/{}.html#{}".format(*one.split("#")) for one in named}
        found = [hit["url"] in right for hit in hits[query]]
        places[query] = found.index(True) + 1 if True in found else None
    wrong = {query: place for query, place in places.items() if place != 1}
    assert len(wrong) <= 0.1 * len(ASKED), wrong
    assert sum(place not in (2, 3) for place in wrong.values()) <= 0.02 * len(ASKED), wrong


@pytest.mark.parametrize(
    ("short", "long"), [("OOM", "out of memory"), ("allreduce", "all-reduce"), ("MFU", "mfu")]
)
def test_another_name_finds_the_same_places(hits, short, long):
    found = [{hit["url"] for hit in hits[query]} for query in (short, long)]
    assert len(found[0] & found[1]) >= 3 and hits[short][0] == hits[long][0]


def test_what_nobody_wrote_is_not_found(hits):
    assert hits["snarks and boojums"] == hits["("] == hits["  "] == []


def test_chapters_weigh_alike_and_a_place_says_the_number_of_its_own(records):
    for one in records:
        page = one["url"].partition(".html")[0]
        kind = "trial" if page.startswith("chapters/trials/") else "section"
        kinds = {kind, "equation", "experiment"}
        assert (one["kind"] in kinds) == page.startswith("chapters/"), one["url"]
        chapter = contents.number(ROOT, page)
        assert chapter.startswith("T") or one["page"].startswith(f"{chapter}. " * bool(chapter))


def test_hits_lead_to_sections_by_their_titles(records, site):
    for one in records:
        page, _, anchor = one["url"].partition("#")
        text = (site / page).read_text("utf-8")
        assert not anchor or f'id="{anchor}"' in text, one["url"]
        assert one["title"].strip()
    chapters = [one for one in records if one["kind"] == "section"]
    assert sum("#" in one["url"] for one in chapters) > 50


def test_no_stored_code_and_no_tool_bars(records):
    for one in records:
        for word in ("Show code cell", "import torch", "def ", "__name__", "Hide code", ".ipynb"):
            assert word not in one["text"], (one["url"], word)
        assert "<" not in re.sub(r"[<>] ?[\w\d(]| [<>]=? ", "", one["text"]), one["url"]


def test_formulas_appear_once_and_as_text(records):
    assert formula(r"\frac{K}{N} \cdot 2") == "K/N · 2"
    assert formula(r"\frac{\text{a b}}{2^{30}}") == "(a b)/(2^30)"
    whole = next(one["text"] for one in records if one["url"] == f"{K}#ranks")
    assert "starts N ranks" in whole
    assert not any("\\" in one["text"] for one in records if one["kind"] == "section")
    assert not any(" ()" in one["text"] for one in records), "a number that is left out"


def test_a_word_is_found_under_all_its_names(records):
    words = [one for one in records if one["kind"] == "word"]
    names = [name for one in words for name in one["names"]]
    assert len(names) == len(set(names)), "a name of two words"
    assert {"GQA", "OOM", "6ND", "allreduce", "FSDP", "gradient accumulation"} <= set(names)


def test_the_page_answers_below_a_sub_path(visit, origin):
    seen = visit("search")
    assert not any("sections.json" in r.url for r in seen.finished), "loaded before it is needed"
    page = seen.page
    page.locator(".mlx-search input").fill("all-reduce")
    page.keyboard.press("Enter")
    page.wait_for_selector("#mlx-results li")
    first = page.locator("#mlx-results li").first
    marked = first.locator("mark").all_inner_texts()
    assert marked and all(re.fullmatch("all.reduces?", one, re.I) for one in marked)
    number = contents.number(ROOT, "chapters/collectives")
    assert first.locator("small").inner_text().startswith(f"{number}. Collectives")
    paint = "e => getComputedStyle(e).backgroundImage + getComputedStyle(e).boxShadow"
    assert first.locator("mark").first.evaluate(paint) == "nonenone", "one colour"
    first.locator("a").click()
    page.wait_for_url(f"{origin}{K}#ranks")
    assert page.locator("#ranks").is_visible()
    assert seen.foreign == seen.complaints == []


def test_nothing_found_says_so_and_markup_stays_text(visit):
    seen = visit("search")
    seen.page.goto(f"{seen.origin}search.html?q={quote('<i onclick=qqq>zzz')}")
    seen.page.wait_for_selector("#mlx-results p")
    assert "Nothing found for “<i onclick=qqq>zzz”" in seen.page.inner_text("#mlx-results")


def test_a_snippet_ends_with_a_whole_word(visit, records):
    seen = visit("search")
    for query in ("GQA", "bubble"):
        seen.page.goto(f"{seen.origin}search.html?q={query}")
        seen.page.wait_for_selector("#mlx-results li p")
        shown = seen.page.locator("#mlx-results li p").all_inner_texts()
        cut = [one.removeprefix("… ").removesuffix(" …") for one in shown if one.endswith(" …")]
        assert cut
        for one in cut:
            assert any(one + " " in f"{record['text']} " for record in records), one


def test_the_index_is_loaded_by_no_other_page_and_is_the_only_one(visit, site):
    assert not (site / "searchindex.js").exists(), "Sphinx's own, which nobody asks for"
    for name in ("book/index", "book/glossary"):
        assert not any("sections.json" in r.url for r in visit(name).finished)


def test_the_search_button_leads_here(visit):
    page = visit("book/glossary").page
    button = page.locator(".search-button-field:visible, .search-button__button:visible").first
    button.click()
    field = page.locator("input[name=q]:visible").first
    sign = page.locator("#pst-search-dialog .fa-magnifying-glass").bounding_box()
    padding = float(field.evaluate("e => getComputedStyle(e).paddingLeft").removesuffix("px"))
    assert sign["x"] + sign["width"] <= field.bounding_box()["x"] + padding, "on the words"
    field.fill("GQA")
    field.press("Enter")
    page.wait_for_selector("#mlx-results li")
    first = page.locator("#mlx-results li").first
    assert "FLOP of models with GQA" in first.locator("a").first.inner_text()


def test_without_scripts_it_says_what_else_there_is(visit):
    page = visit("search", java_script_enabled=False).page
    assert "needs JavaScript" in page.locator("article").inner_text()
    assert page.locator("article noscript a, article p a").count() >= 2
