"""The page's ranking, its pictures and its words are what the planner says."""

import json
import re
import shlex
from dataclasses import asdict
from html import escape, unescape

import pytest
from charts import boxes, said, unreadable, widths
from command_line import answered, args, ended

from mathlib import specs
from mathlib.cli.registry import find_command
from mathlib.explore import plan as explored
from mathlib.plan import planner, step
from mathlib.plan.calibration import find_rates
from mathlib.plan.machine import host_of
from mathlib.plan.room import Room
from mathlib.plan.work import OFFLOAD
from mathlib.show import says
from mathlib.show.experiments import find, run_json
from mathlib.specs import Layout

PLAN = find("plan")
SMALL = {"model": "llama3.2-1b", "devices": 8, "sequences": 64, "tokens": 4096}
RECIPE = "mixed-adam-fp32-gradients"
CONFIG = {
    "model_type": "llama",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": True,
}


HOW = {"recipe": RECIPE, "most": 500, "risk": 0.05}


@pytest.fixture(scope="module")
def asked():
    """The machine and the whole ranking, straight from the planner."""
    nodes = specs.find_cluster("dgx-h100")
    on = step.machine("llama3.2-1b", nodes, find_rates(nodes.device), tokens=4096)
    return on, planner.search(on, devices=8, sequences=64, **HOW)


@pytest.fixture(scope="module")
def mixes(asked):
    """The rows of the table, straight from the planner."""
    found = planner.search(asked[0], devices=8, sequences=64, variants=False, **HOW)
    return found.choices


def rows(html):
    """The cells of the table's rows."""
    found = re.findall(r'<tr data-set="row \d+".*?</tr>', html)
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in found]
    return [[cell.replace("\u00a0", " ") for cell in row] for row in cells]


def test_the_table_is_the_planners_ranking(asked):
    on, found = asked
    cells = rows(PLAN.run(SMALL))
    best = found.choices[0]
    assert cells[0][1] == explored.words(best.layout)
    assert cells[0][2] == says.time(best.seconds)
    assert len(cells) > 3 and [row[0] for row in cells] == [str(i + 1) for i in range(len(cells))]
    every = {explored.words(one.layout): one for one in found.choices}
    times = [every[row[1]].seconds for row in cells]
    assert times == sorted(times)
    for _, layout, time, size, risk, mfu in cells:
        one = every[layout]
        assert risk == f"{one.risk:.0%}"
        assert time == says.time(one.seconds)
        assert size == says.size(one.memory)
        assert mfu == f"{step.utilization(on, one.layout):.0%}"


def test_each_row_is_the_quickest_of_its_mix(asked, mixes):
    _, found = asked
    seen = [(c.layout.tensor, c.layout.pipeline, c.layout.expert, c.layout.zero) for c in mixes]
    assert len(seen) == len(set(seen))
    for one, mix in zip(mixes, seen, strict=True):
        tensor, pipeline, expert, zero = mix
        same = [
            other.seconds
            for other in found.choices
            if (other.layout.tensor, other.layout.pipeline) == (tensor, pipeline)
            and (other.layout.expert, other.layout.zero) == (expert, zero)
        ]
        assert one.seconds == min(same)


def test_other_devices_batches_and_risks_ask_a_machine_that_remembers():
    told = ("dgx-h100", 4096, "fsdp", "half", False)
    model = specs.find_model("llama3.2-1b")
    assert explored.machine(model, *told) is explored.machine(model, *told)


def test_a_chosen_row_is_drawn_with_its_memory_and_its_time(asked, mixes):
    on, chosen = asked[0], mixes[2]
    html = PLAN.run(SMALL | {"row": 3})
    assert html.count('aria-current="true"') == 1
    assert '<tr data-set="row 3" aria-current="true">' in html
    memory, _, time, _ = widths(html)
    held = sum(Room(on.model, on.tokens, RECIPE).parts(chosen.layout))
    assert held == pytest.approx(chosen.memory)
    assert f"{says.size(held)} (" in said(memory) and "H100 80 GB SXM" in said(memory)
    for name, seconds in step.step(on, chosen.layout).items():
        label = f"Row 3: {explored.words(chosen.layout)}, {name}: {says.time(seconds)}"
        assert label in boxes(time), name
    assert "Row 1: " in said(time) and chosen.reason.split(":")[0] in html
    assert not unreadable(html)


def test_the_sentence_says_the_interval(asked):
    _, found = asked
    low, high = says.time(found.between.low), says.time(found.between.high)
    html = PLAN.run(SMALL)
    assert f"between {low} and {high}" in html
    assert f"{found.tried:,} layouts were tried, and {found.fitting:,} fit: at most 5% of" in html


def test_a_pasted_config_takes_the_place_of_the_menu():
    pasted = PLAN.run(SMALL | {"model": "gpt3-175b", "config": json.dumps(CONFIG)})
    assert "llama of config.json on 8 devices" in pasted
    assert rows(pasted) == rows(PLAN.run(SMALL)) and "No part of this" not in pasted
    more = PLAN.run(SMALL | {"config": json.dumps(CONFIG | {"unsloth_fixed": True})})
    assert "<p>No part of this: unsloth_fixed.</p>" in more and rows(more) == rows(pasted)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("{", "expected a JSON object; line 1, column 2: "),
        ("[" * 20_000, "expected a JSON object"),
        ('{"hidden_size": 1, "hidden_size": 2}', "hidden_size: expected once"),
        ("[1]", "expected a JSON object"),
        ("{}", "model_type"),
        ('{"model_type": "no such"}', "model_type"),
    ],
)
def test_what_is_no_config_is_refused_in_words(config, words):
    html = PLAN.run({"config": config})
    assert "mlx-refused" in html and words in html


def test_what_does_not_fit_says_what_fills_the_device():
    html = PLAN.run({"model": "llama2-70b", "devices": 8, "tokens": 4096, "cluster": "dgx-a100"})
    assert "none of" in html and "What fills the device most" in html and "states" in html
    none = {"model": "gpt2-xl", "devices": 16384, "sequences": 1, "tokens": 512}
    assert "no layout divides" in PLAN.run(none)
    assert "Not possible: tokens" in PLAN.run({"model": "gpt2-xl", "tokens": 8192})


BASE = {"model": "llama3-8b", "cluster": "dgx-h100", "devices": 8, "sequences": 64, "tokens": 8192}
SAME = [
    {},
    {"model": "mixtral-8x7b", "devices": 16, "tokens": 4096},
    {"precision": "fp8", "risk": 0.2},
    {"program": "fsdp", "only": "zero=3, recompute=none"},
    {"program": "megatron-flash", "recipe": "mixed-adam-8bit"},
    {"program": "megatron-flash-norms", "most": "tensor=2"},
    {"cluster": "rtx-4090", "risk": 1.0},
    {"cluster": "dgx-a100", "host": "yes"},
    {"program": "lora", "rank": 64},
    {"program": "qlora", "model": "llama3-70b", "devices": 4, "sequences": 8, "tokens": 2048},
    {"program": "qlora-sharded", "cluster": "dgx-a100", "recipe": "mixed-adam-8bit"},
]
KINDS = {"lora": "", "qlora": "--qlora", "qlora-sharded": "--qlora sharded"}


def typed(settings):
    """The same question on the command line."""
    asked = BASE | settings
    where = "cluster" if asked["cluster"] in specs.table("clusters") else "device"
    words = [f"plan {asked.pop('model')} --{where} {asked.pop('cluster')}"]
    words += ["--offload"] if asked.pop("host", "no") == "yes" else []
    words.append(f"--batch {asked.pop('sequences')}")
    if asked.get("program") in KINDS:
        words.append(f"--lora {asked.pop('rank', 16)} {KINDS[asked.pop('program')]}")
    return " ".join([*words, *(f"--{name} '{value}'" for name, value in asked.items())])


@pytest.mark.parametrize("settings", SAME, ids=str)
def test_the_page_says_what_the_command_line_says(settings, capsys):
    data = answered(typed(settings), capsys)
    html = PLAN.run(BASE | settings)
    assert f"{data['tried']:,} layouts were tried, and {data['fitting']:,} fit" in html
    assert escape(data["keeps"], quote=False) in html
    assert len(rows(html)) == len(data["layouts"]) > 1
    for (_, layout, time, size, risk, mfu), one in zip(rows(html), data["layouts"], strict=True):
        assert layout == explored.words(Layout(**one["layout"]), one["offload"])
        assert time == says.time(one["step"]["value"]) and size == says.size(one["memory"]["value"])
        assert (risk, mfu) == (f"{one['risk']:.0%}", f"{one['mfu']:.0%}")
    low, high = (says.time(data["between"][end]) for end in ("low", "high"))
    assert f"between {low} and {high}" in html
    if 'data-file="plan.sh"' in html and data["layouts"][0]["offload"] == "none":
        nodes = typed(settings).split(" ")[2:4]
        line = f"time {' '.join(nodes)} --torchrun {shlex.quote(pre(html, 'plan.sh'))}"
        assert answered(line, capsys)["total"] == pytest.approx(data["layouts"][0]["step"]["value"])
    last = json.loads(pre(PLAN.run(BASE | settings | {"row": 10}), "plan.json"))
    same = {"step": one["step"]["value"], "memory": one["memory"]["value"], "mfu": one["mfu"]}
    for name, value in (same | {"out of memory": one["risk"]}).items():
        assert last[name] == pytest.approx(value, rel=1e-5), name
    assert sum(last["bytes"].values()) == pytest.approx(last["memory"], rel=1e-4)
    of_peak = settings.get("precision") == "fp8"
    assert ("MFU of fp8 peak" in html) == of_peak
    find_command("plan").answer(args(typed(settings)))
    printed = capsys.readouterr().out
    assert ("MFU of fp8 peak" in printed) == of_peak
    risk = f"at most {settings.get('risk', 0.05):.0%} of runs predicted like it are too much"
    assert risk in " ".join(printed.split()) and risk in html


@pytest.mark.parametrize(
    "settings",
    [
        {"model": "llama3-405b", "devices": 64},
        {"model": "llama3-70b", "cluster": "mi325x", "devices": 2},
        {"model": "gpt2-xl", "sequences": 1, "devices": 16384, "tokens": 512},
        {"only": "tensor=3"},
    ],
)
def test_where_nothing_fits_the_page_says_how_many_would_do_as_the_command_line_does(
    settings, capsys
):
    code, out, _ = ended(typed(settings), capsys)
    html = PLAN.run(BASE | settings)
    (said,) = re.findall(r"<p>([^<]* devices would do.*?)\.</p>", html)
    assert code == 1 and "mlx-refused" in html
    assert unescape(said) in " ".join(out.split())


@pytest.mark.parametrize(
    "settings",
    [
        {"precision": "fp4"},
        {"cluster": "dgx-a100", "precision": "fp8"},
        {"only": "colour=3"},
        {"most": "recompute=none"},
        {"only": "tensor"},
        {"model": "gpt2-xl"},
        {"program": "lora", "precision": "fp8"},
        {"program": "qlora", "only": "tensor=2"},
    ],
    ids=str,
)
def test_what_is_refused_is_refused_by_the_same_line(settings, capsys):
    code, _, err = ended(typed(settings), capsys)
    (said,) = re.findall(r"Not possible: (.*?)\.</p>", PLAN.run(BASE | settings))
    reason = unescape(said).partition(": ")[2]
    assert code and reason and reason in err


def test_all_that_the_library_knows_can_be_asked_for():
    model, cluster, program = (
        next(c for c in PLAN.controls if c.name == name) for name in ("model", "cluster", "program")
    )
    assert set(model.offers()) == set(specs.table("models"))
    programs = {*specs.table("calibrations")["programs"], *explored.TUNED}
    assert set(program.offers()) == programs
    nodes = [explored.nodes_of(name) for name in cluster.offers()]
    assert {n.device for n in nodes} == set(specs.table("devices"))
    assert set(cluster.offers()) >= set(specs.table("clusters"))
    for control in (model, cluster, program):
        labels = [re.sub(r"[^a-z0-9.]", "", label.lower()) for label, _ in control.options]
        assert len(set(labels)) == len(labels), "who types a label means one"
    for control in (model, cluster):
        assert set(control.touches()) < set(control.offers()), "not all of them are answered ahead"


def test_adapters_are_taken_apart_without_formulas_and_nothing_of_theirs_waits_on_the_host():
    asked = {"program": "qlora", "devices": 8, "sequences": 8, "tokens": 2048, "rank": 64}
    html = PLAN.run(asked)
    laws = re.findall(r'<p class="mlx-law"><b>([^<]*)</b>', html)
    assert {"matmuls", "matrices in 4 bits", "scales", "adapters"} <= set(laws)
    assert "<math" not in html and "formula" not in html and "ten published pretraining" in html
    plan = json.loads(pre(html, "plan.json"))
    assert plan["adapters"]["rank"] == 64 and plan["adapters"]["bits"] == "4"
    assert "with adapters expected 'no'" in unescape(PLAN.run(asked | {"host": "yes"}))


def test_where_states_may_wait_on_the_host_more_fits():
    asked = {"model": "llama3-70b", "cluster": "dgx-a100", "devices": 8, "sequences": 16}
    assert "none of" in PLAN.run(asked)
    html = PLAN.run(asked | {"host": "yes"})
    nodes = specs.find_cluster("dgx-a100")
    told = {"tokens": 8192, "host": host_of(nodes)}
    on = step.machine("llama3-70b", nodes, find_rates(nodes.device), **told)
    best = planner.search(on, devices=8, sequences=16, recipe=RECIPE, risk=0.05).choices[0]
    assert best.offload != "none"
    assert rows(html)[0][1:3] == [
        explored.words(best.layout, best.offload),
        says.time(best.seconds),
    ]
    assert "on the host" in rows(html)[0][1] and "kept anything on the host" in html
    shard = (best.layout.zero, best.layout.shard)
    waits = Room(on.model, 8192, RECIPE).on_host(best.layout, shard, OFFLOAD[best.offload])
    assert f"{says.size(waits)} of a device wait on the host" in html
    assert html.count('class="mlx-equation"') == html.count('<p class="mlx-law">') > 6
    plan = json.loads(pre(html, "plan.json"))
    assert plan["offload"] == best.offload
    assert sum(plan["seconds"].values()) == pytest.approx(best.seconds, rel=1e-4)
    assert sum(plan["bytes"].values()) == pytest.approx(best.memory, rel=1e-4)
    assert ("--optimizer-cpu-offload" in pre(html, "plan.sh")) == (best.offload != "activations")
    assert "nobody told" in PLAN.run(asked | {"host": "yes", "cluster": "p4d.24xlarge"})


def test_a_row_that_is_not_there_is_the_last():
    html = PLAN.run({"model": "gpt2-xl", "devices": 1, "sequences": 8, "tokens": 1024, "row": 10})
    last = len(rows(html))
    assert last < 10 and f'<tr data-set="row {last}" aria-current="true">' in html


def pre(html, file):
    """What would be saved as a file."""
    found = re.search(rf'<pre data-file="{file}".*?><code>(.*?)</code>', html, re.DOTALL)
    assert found
    return unescape(found[1])


def test_the_files_are_those_of_the_chosen_row(asked, mixes):
    on, _ = asked
    chosen = mixes[1]
    html = PLAN.run(SMALL | {"row": 2})
    told = json.loads(pre(html, "plan.json"))
    assert told["layout"] == asdict(chosen.layout) | {"devices": 8}
    assert told["step"] == pytest.approx(chosen.seconds, rel=1e-5)
    assert sum(told["seconds"].values()) == pytest.approx(chosen.seconds, rel=1e-4)
    assert sum(told["bytes"].values()) == pytest.approx(chosen.memory, rel=1e-4)
    line = pre(html, "plan.sh")
    assert f"--tensor-model-parallel-size {chosen.layout.tensor} " in line
    assert "--seq-length 4096 " in line and "--standalone" in line


def test_every_part_of_a_row_stands_with_its_formula(asked):
    on, found = asked
    html = PLAN.run(SMALL)
    for name in step.step(on, found.choices[0].layout):
        assert f'<p class="mlx-law"><b>{name}</b>' in html
    assert html.count("<math") == html.count('<p class="mlx-law">') > 6


def test_a_search_says_how_far_it_is():
    heard = []
    explored.ranked.cache_clear()
    asked = {"model": "llama3-8b", "tokens": 4096, "sequences": 256}
    run_json("plan", json.dumps(asked), "", lambda share, words: heard.append((share, words)))
    assert heard and all(0 <= share <= 1 and "layouts" in words for share, words in heard)
