"""What axe finds wrong on a page, light and dark."""

from pages import ROOT

AXE = ROOT / "book/live/node_modules/axe-core/axe.min.js"
STILL = "* { transition: none !important }"  # else colours are measured half-way
SERIOUS = ("serious", "critical")


def violations(page, *impacts: str, within: str = "html", **options) -> list[str]:
    """What is found inside an element; `runOnly` names the only rules that are tried."""
    source = AXE.read_text("utf-8")  # handed over so, and not as a script: the policy forbids one
    page.evaluate(f"() => {{ if (!window.axe) {{ {source} }} }}")
    page.add_style_tag(content=STILL)
    found = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function(
            "scheme => document.documentElement.dataset.theme === scheme", arg=scheme
        )
        told = [within, {"resultTypes": ["violations"], **options}]
        found += page.evaluate("([within, options]) => axe.run(within, options)", told)[
            "violations"
        ]
    return [
        f"{v['impact']} {v['id']}: {n['html'][:160]} {n['failureSummary'][:300]}"
        for v in found
        if v["impact"] in impacts
        for n in v["nodes"]
    ]
