"""mathlib --completion SHELL: a script by which a shell completes commands, options and names.

Everything is in the script, so that no key press waits for Python.
"""

from argparse import Action

from mathlib.architecture import NORMS, POSITIONS
from mathlib.checks import one_of
from mathlib.cli.registry import MODULES
from mathlib.cli.usage import parser_of
from mathlib.layout import RECOMPUTE
from mathlib.prover.case import FLUSHED, ORDERS
from mathlib.prover.faults import every
from mathlib.specs import table
from mathlib.workshop.grade import names as puzzles

LISTED = {  # what an option or an argument takes: the data file that names it
    **{"model": "models", "one": "models", "other": "models", "device": "devices"},
    **{"cluster": "clusters", "recipe": "recipes", "config": "models"},
}
KINDS = {"recompute": RECOMPUTE, "positions": POSITIONS, "norm": NORMS, "zero": "0123"}
KINDS |= {
    "puzzle": tuple(puzzles()),
    "context_order": ORDERS,
    "schedule": tuple(FLUSHED),
    "fault": tuple(every()),
}
FILES = ("all", "config", "cluster", "bridge", "deepspeed", "accelerate", "torchtitan")  # or files
NAMED = ("models", "devices", "clusters", "recipes")  # commands that take one of their own names
BASH = """_mathlib() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} list
    [[ $cur == = ]] && cur=
    [[ $before == = ]] && before=${{COMP_WORDS[COMP_CWORD - 2]}}
    _mathlib_words "$before" "$cur" "${{COMP_WORDS[@]:1:COMP_CWORD - 1}}"
    COMPREPLY=($(compgen -W "$list" -- "$cur"))
}}
{words}
complete -o default -F _mathlib mathlib
"""
ZSH = """#compdef mathlib
_mathlib() {{
    local cur=$words[CURRENT] before=$words[CURRENT-1] list
    if [[ $cur == --*=* ]]; then
        before=${{cur%%=*}} cur=${{cur#*=}}
        compset -P '*='
    fi
    _mathlib_words "$before" "$cur" "${{(@)words[2,CURRENT-1]}}"
    compadd -- ${{=list}} || _files
}}
{words}
if [[ $funcstack[1] == _mathlib ]]; then _mathlib "$@"; else compdef _mathlib mathlib; fi
"""
WORDS = """_mathlib_words() {{  # what comes before, what is begun, the words until then: into list
    case $1 in
{options}
        *) case $3:$2 in
            :*) list="{commands}" ;;
{of_commands}
        esac ;;
    esac
}}"""


def script(shell: str) -> str:
    """The script, to be sourced or put where the shell looks for such."""
    if one_of("--completion", shell, ("bash", "zsh", "fish")) == "fish":
        return _fish()
    return (BASH if shell == "bash" else ZSH).format(words=_words())


def _taken(action: Action, command: str = "") -> list[str] | None:
    """The names or words that can follow; None where there is no list of them."""
    if action.dest == "name" and command in NAMED:
        return list(table(command))
    if action.dest == "name" and command == "schema":
        return list(MODULES)
    if action.dest == "program":
        return list(table("calibrations")["programs"])
    if action.dest in KINDS:
        return list(KINDS[action.dest])
    return list(table(LISTED[action.dest])) if action.dest in LISTED else None


def _actions() -> dict[str, list[Action]]:
    """What each command takes."""
    return {name: parser_of(name)._actions for name in MODULES}


def _words() -> str:
    """The function that bash and zsh share: a list for what follows an option, and one for what a
    command takes.
    """
    by_values: dict[str, list[str]] = {}
    of_commands = []
    for name, actions in _actions().items():
        options, names = list[str](), list[str]()
        for action in actions:
            options += action.option_strings
            taken = _taken(action, name) or []
            if not action.option_strings:
                names += [one for one in taken if one not in names]
            elif action.nargs != 0:
                follows = by_values.setdefault(" ".join(taken), [])
                follows += [one for one in action.option_strings if one not in follows]
        long = " ".join(option for option in options if option.startswith("--"))
        of_commands.append(f'            {name}:-*) list="{long}" ;;')
        of_commands.append(f'            {name}:*) list="{" ".join(names)}" ;;')
    follow = [f'        {"|".join(to)}) list="{taken}" ;;' for taken, to in by_values.items()]
    commands = " ".join([*MODULES, "--help", "--version", "--completion"])
    return WORDS.format(
        options="\n".join(follow), commands=commands, of_commands="\n".join(of_commands)
    )


def _fish() -> str:
    """One line for each command, and for each of what several take alike."""
    lines = ["complete -c mathlib -n __fish_use_subcommand -f"]
    alike: dict[str, list[str]] = {}
    for name, actions in _actions().items():
        says = _quoted(parser_of(name).description or "")
        lines.append(f"complete -c mathlib -n __fish_use_subcommand -a {name} -d {says}")
        for action in actions:
            of = alike.setdefault(_line(action, name), [])
            of += [] if name in of else [name]
    for line, names in alike.items():
        if line:
            seen = _quoted(f"__fish_seen_subcommand_from {' '.join(names)}")
            lines.append(f"complete -c mathlib -n {seen} {line}")
    return "\n".join(lines) + "\n"


def _line(action: Action, command: str) -> str:
    """What fish is told of an option or an argument."""
    taken = _taken(action, command)
    values = f" -a {_quoted(' '.join(taken))}" if taken else ""
    if not action.option_strings:
        return values.strip()
    long = [f"-l {option[2:]}" for option in action.option_strings if option.startswith("--")]
    needs = "" if action.nargs == 0 else " -r" if action.dest in FILES else " -x"
    return f"{' '.join(long)}{needs}{values} -d {_quoted(action.help or '')}"


def _quoted(text: str) -> str:
    """A word of fish's."""
    text = text.replace("%%", "%").replace("\\", "\\\\").replace("'", "\\'")
    return f"'{text}'"
