"""What axe finds wrong on a page, light and dark."""

from pages import ROOT

AXE = ROOT / "book/live/node_modules/axe-core/axe.min.js"
STILL = "* { transition: none !important }"  # else colours are measured half-way
SERIOUS = ("serious", "critical")
# Formulas and code are thousands of elements in a few colours: one that looks like another before
# it, on the same ground, goes before axe measures its contrast.
ALIKE = """() => {
    const seen = new Set();
    const ground = (e) => {
        const { backgroundColor, backgroundImage, opacity, position } = getComputedStyle(e);
        const over = /absolute|fixed|sticky/.test(position) ? e.outerHTML : '';
        const own = [backgroundColor, backgroundImage, opacity, over].join();
        return own + (e.parentElement ? ground(e.parentElement) : '');
    };
    for (const [stub, e] of window.alike ?? []) stub.replaceWith(e);
    const places = document.querySelectorAll('.katex-html, pre span');
    const alike = [...places].filter((e) => {
        const { color, fontSize, fontWeight } = getComputedStyle(e);
        const looks = [color, fontSize, fontWeight, ground(e)].join();
        return seen.has(looks) || !seen.add(looks);
    });
    window.alike = alike.map((e) => [document.createComment(''), e]);
    for (const [stub, e] of window.alike) e.replaceWith(stub);
}"""
COLOURS = {"runOnly": ["color-contrast", "link-in-text-block"]}  # all that a scheme changes


def violations(page, *impacts: str, within: str = "html", **options) -> list[str]:
    """What is found inside an element, in dark of colours; `runOnly` names the only rules that are
    tried, which ask for no colours.
    """
    source = AXE.read_text("utf-8")  # handed over so, and not as a script: the policy forbids one
    page.evaluate(f"() => {{ if (!window.axe) {{ {source} }} }}")
    page.add_style_tag(content=STILL)
    found = []
    for scheme, rules in (("light", options), *([] if options else [("dark", COLOURS)])):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function(
            "scheme => document.documentElement.dataset.theme === scheme", arg=scheme
        )
        if "runOnly" not in options:
            page.evaluate(ALIKE)
        told = [within, {"resultTypes": ["violations"], **rules}]
        ran = "([within, options]) => axe.run(within, options).then((all) => all.violations)"
        found += page.evaluate(ran, told)
    return [
        f"{v['impact']} {v['id']}: {n['html'][:160]} {n['failureSummary'][:300]}"
        for v in found
        if v["impact"] in impacts
        for n in v["nodes"]
    ]
