"""A record is what the standard library's decorator makes of the same class."""

import copy
import dataclasses
import pickle

import pytest

from mathlib import records


def declared(module):
    """The same classes, by one module or the other."""

    @module.dataclass(frozen=True)
    class Pair:
        """Two, and what is said of them."""

        one: int
        two: float = 2.0
        said: str = module.field(default="", compare=False)
        seen: list[int] = module.field(default_factory=list, repr=False, compare=False)
        sum: list[object] = module.field(init=False, compare=False)

        def __post_init__(self):
            object.__setattr__(
                self, "sum", (self.one if isinstance(self.one, int) else 0) + self.two
            )

    @module.dataclass(frozen=True)
    class Triple(Pair):
        """With a third."""

        three: bool = False

    @module.dataclass(frozen=True, eq=False)
    class Alone:
        """Equal to itself."""

        name: str

    @module.dataclass(frozen=True)
    class Single:
        """One field."""

        name: str

    return Pair, Triple, Alone, Single


def told(act):
    """What comes of it, or how it is refused; the frame of the message is Python's."""
    try:
        return act()
    except (TypeError, AttributeError, ValueError) as refused:
        return type(refused), str(refused)


ACTS = {
    "shown": lambda m, P, T, A, S: [repr(P(1, said="x")), repr(T(1, three=True)), repr(S("a"))],
    "equal": lambda m, P, T, A, S: [
        P(1) == P(1, said="x"),
        P(1) == P(2),
        P(1) == T(1),
        P(1) != 1,
        A("a") == A("a"),
        S("a") == S("a"),
    ],
    "hashed": lambda m, P, T, A, S: [len({P(1), P(1, said="x"), P(1, 3.0)}), len({A("a"), A("a")})],
    "defaults": lambda m, P, T, A, S: [P.two, P.said, hasattr(P, "seen"), P(1).seen, P(1, 5.0).sum],
    "own lists": lambda m, P, T, A, S: P(1).seen is P(1).seen,
    "fields": lambda m, P, T, A, S: [(f.name, f.type) for f in m.fields(T)],
    "of one": lambda m, P, T, A, S: [f.name for f in m.fields(P(1))],
    "replaced": lambda m, P, T, A, S: repr(m.replace(T(1, three=True), one=5)),
    "replaced wrongly": lambda m, P, T, A, S: m.replace(P(1), four=4),
    "missing": lambda m, P, T, A, S: P(),
    "too many": lambda m, P, T, A, S: S("a", "b"),
    "set": lambda m, P, T, A, S: setattr(P(1), "one", 2),
    "deleted": lambda m, P, T, A, S: delattr(P(1), "one"),
    "copied": lambda m, P, T, A, S: copy.copy(P(1, seen=[3])).seen + copy.deepcopy(T(1, 4.0)).seen,
    "as a dictionary": lambda m, P, T, A, S: m.asdict(T(S("a"), seen=[2, {"b": (P(1),)}])),
    "by the standard library": lambda m, P, T, A, S: [
        repr(dataclasses.replace(T(1), two=3.0)),
        [f.name for f in dataclasses.fields(T)],
        dataclasses.is_dataclass(P),
        dataclasses.asdict(T(1, seen=[S("a")])),
    ],
}


@pytest.mark.parametrize("act", ACTS)
def test_a_record_is_as_a_dataclass(act):
    ours, theirs = (told(lambda m=m: ACTS[act](m, *declared(m))) for m in (records, dataclasses))
    assert ours == theirs


def test_what_is_not_made_here_is_refused():
    with pytest.raises(TypeError, match="frozen=True"):
        records.dataclass(frozen=False)


def test_a_record_of_a_module_can_be_sent():
    from mathlib.specs import Layout

    assert pickle.loads(pickle.dumps(Layout(data=2))) == Layout(data=2)
