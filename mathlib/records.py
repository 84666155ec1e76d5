"""Frozen dataclasses that load at once: what is used here of the standard library's module.

To load that module takes as long as Python itself takes to start, and each class half as long as
an answer; the formulas of one command have twenty.  These have an __init__ that is compiled, and
share all the rest.  `dataclasses.replace`, `fields` and `asdict` take them, too.
"""

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

T = TypeVar("T")
NONE = object()  # stands for no default


class Field:
    """What is said of one field; `init`, `repr`, `compare`: whether it has a part there."""

    def __init__(self, **said: Any):
        self.name, self.type = "", object
        self.default, self.default_factory = said.get("default", NONE), said.get("default_factory")
        self.init, self.repr = said.get("init", True), said.get("repr", True)
        self.compare, self.said = said.get("compare", True), said


def _dataclass(*, frozen: bool, eq: bool = True) -> Callable[[type[T]], type[T]]:
    """A class of fields, as its annotations name them; `eq` False: each equals itself alone."""
    if not frozen:
        raise TypeError("expected frozen=True; dataclasses has the others")

    def made(kind: Any) -> Any:
        own = dict(getattr(kind, "__own_fields__", {}))  # of the class that it extends
        own |= {name: _own(kind, name) for name in kind.__annotations__}
        kind.__own_fields__, kind.__dataclass_fields__ = own, _Standard()
        shared = {"__init__": _init(kind, own), "__repr__": _repr}
        shared |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_set}
        if eq:
            kind.__key__ = _key([name for name, one in own.items() if one.compare])
            shared |= {"__eq__": _equal, "__hash__": _hash}
        for name, function in shared.items():
            if name not in kind.__dict__:
                setattr(kind, name, function)
        return kind

    return made


def _own(kind: Any, name: str) -> Field:
    """A field; its plain default stays an attribute of the class, as a value's does."""
    said = kind.__dict__.get(name, NONE)
    one = said if isinstance(said, Field) else Field(**{} if said is NONE else {"default": said})
    one.name, one.type = name, kind.__annotations__[name]
    if one.default is not NONE:
        setattr(kind, name, one.default)
    elif said is one:
        delattr(kind, name)
    return one


def _init(kind: Any, own: Mapping[str, Field]) -> Any:
    """An __init__ that takes the fields in their order and by their names."""
    names: dict[str, Any] = {"_put": object.__setattr__, "_NONE": NONE}
    head, body = ["self"], []
    for name, one in own.items():
        if not one.init:
            continue
        value = name
        names |= {f"_default_{name}": one.default, f"_made_{name}": one.default_factory}
        if one.default_factory:
            head.append(f"{name}=_NONE")
            value = f"_made_{name}() if {name} is _NONE else {name}"
        else:
            head.append(name if one.default is NONE else f"{name}=_default_{name}")
        body.append(f"_put(self, {name!r}, {value})")
    body += ["self.__post_init__()"] if hasattr(kind, "__post_init__") else []
    code = f"def __init__({', '.join(head)}):\n " + "\n ".join(body or ["pass"])
    exec(code, names)
    made: Any = names["__init__"]
    made.__qualname__ = f"{kind.__qualname__}.__init__"
    return made


def _key(names: list[str]) -> Any:
    """What two that are equal have in common."""
    if len(names) > 1:
        return staticmethod(attrgetter(*names))
    return staticmethod(lambda one: tuple(getattr(one, name) for name in names))


def _equal(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return self.__key__(self) == self.__key__(other)


def _hash(self: Any) -> int:
    return hash(self.__key__(self))


def _repr(self: Any) -> str:
    told = [f"{n}={getattr(self, n)!r}" for n, one in self.__own_fields__.items() if one.repr]
    return f"{self.__class__.__qualname__}({', '.join(told)})"


def _refuse_to_set(self: Any, name: str, *value: Any) -> NoReturn:
    from dataclasses import FrozenInstanceError  # only who breaks in needs it

    raise FrozenInstanceError(f"cannot {'assign to' if value else 'delete'} field {name!r}")


class _Standard:
    """The fields as the standard library's functions ask for them, made once they do."""

    def __get__(self, one: Any, kind: Any) -> dict[str, Any]:
        import dataclasses

        own = kind.__own_fields__.values()
        same = [(one.name, one.type, dataclasses.field(**one.said)) for one in own]
        standard: Any = dataclasses.make_dataclass(kind.__name__, same)
        kind.__dataclass_fields__ = standard.__dataclass_fields__
        return standard.__dataclass_fields__  # type: ignore[no-any-return]


def _fields(kind: Any) -> tuple[Field, ...]:
    return tuple(kind.__own_fields__.values())


def _replace(one: Any, /, **changes: Any) -> Any:
    given = [name for name, own in one.__own_fields__.items() if own.init]
    return type(one)(**{name: getattr(one, name) for name in given} | changes)


def _asdict(one: Any) -> dict[str, Any]:
    return {name: _plain(getattr(one, name)) for name in one.__own_fields__}


def _plain(value: Any) -> Any:
    """A copy without records in it."""
    if hasattr(value, "__own_fields__"):
        return _asdict(value)
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    return type(value)(map(_plain, value)) if type(value) in (list, tuple) else value


if TYPE_CHECKING:
    from dataclasses import asdict, dataclass, field, fields, replace
else:
    asdict, dataclass, field = _asdict, _dataclass, Field
    fields, replace = _fields, _replace

__all__ = ["asdict", "dataclass", "field", "fields", "replace"]
