"""What axe finds wrong on a page, light and dark."""

from pages import ROOT

AXE = ROOT / "book/live/node_modules/axe-core/axe.min.js"
STILL = "* { transition: none !important }"  # else colours are measured half-way
SERIOUS = ("serious", "critical")
# Most of a page looks alike: formulas and words of code that look like another before them, on the
# same ground, go before axe runs, and of all other text it measures three of each look.
ALIKE = """() => {
    const names = new Map(), grounds = new Map(), counts = new Map();
    const short = (words) => names.get(words) ?? names.set(words, names.size).size - 1;
    const ground = (e) => {
        if (!e) return '';
        if (grounds.has(e)) return grounds.get(e);
        const { backgroundColor, backgroundImage, opacity, position } = getComputedStyle(e);
        const over = /absolute|fixed|sticky/.test(position) ? e.outerHTML : '';
        const own = [backgroundColor, backgroundImage, opacity, over].join();
        grounds.set(e, short(own + ground(e.parentElement)));
        return grounds.get(e);
    };
    const before = (e) => {  // how many looked like it
        const { color, fontSize, fontWeight, textShadow } = getComputedStyle(e);
        const looks = [color, fontSize, fontWeight, textShadow, ground(e)].join();
        counts.set(looks, (counts.get(looks) ?? -1) + 1);
        return counts.get(looks);
    };
    const told = (e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())
        || e.matches('input, select, textarea');
    for (const [stub, e] of window.alike ?? []) stub.replaceWith(e);
    const alike = [...document.querySelectorAll('.katex-html, pre span')].filter(before);
    window.alike = alike.map((e) => [document.createComment(''), e]);
    for (const [stub, e] of window.alike) e.replaceWith(stub);
    counts.clear();
    for (const e of document.querySelectorAll('body *'))
        e.toggleAttribute('data-measured', told(e) && e.checkVisibility() && before(e) < 3);
    axe.configure({ rules: [{ id: 'color-contrast', selector: '[data-measured]' }] });
}"""
COLOURS = {"runOnly": ["color-contrast", "link-in-text-block"]}  # all that a scheme changes


def violations(page, *impacts: str, within: str = "html", **options) -> list[str]:
    """What is found inside an element, in dark of colours; `runOnly` names the only rules that are
    tried, which ask for no colours, and without `preload` no style sheets are looked through.
    """
    source = AXE.read_text("utf-8")  # handed over so, and not as a script: the policy forbids one
    page.evaluate(f"() => {{ if (!window.axe) {{ {source} }} }}")
    page.add_style_tag(content=STILL)
    found = []
    dark = [] if "runOnly" in options else [("dark", COLOURS)]
    for scheme, rules in (("light", options), *dark):
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
