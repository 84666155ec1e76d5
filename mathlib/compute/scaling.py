"""How large a model, and on how many tokens: the scaling laws, as their authors print them.

P parameters · D tokens of a whole run · C FLOP of a job, 6 P D
E entropy of the text, nats a token · A, B weights of what too small a model and too little data add

Every fit knows its own text, tokenizer and way of training, at up to about 1e22 FLOP; beyond, it is
a guess.  `errors` holds each against its own paper's table.
"""

import math
from functools import cache

from mathlib.checks import InputError, non_negative, one_of, positive
from mathlib.compute.flops import six_nd
from mathlib.parts import Parts
from mathlib.records import dataclass
from mathlib.specs import table

HALVINGS = 100  # of a range, until its ends are the same number
FIT = "besiroglu"
REPEATED = "muennighoff"


@dataclass(frozen=True)
class Law:
    """Loss in nats a token: E + A / P^alpha + B / D^beta."""

    E: float  # entropy of the text, which no model gets below
    A: float
    B: float
    alpha: float
    beta: float
    repeats: float = 0.0  # R*_D: repeats of the data until they are worth little; 0: not fitted
    excess: float = 0.0  # R*_N: the same of parameters beyond what the data need


@dataclass(frozen=True)
class Size:
    """A model's parameters, and the tokens that it is trained on."""

    parameters: float
    tokens: float

    @property
    def flop(self) -> float:
        """Of the training, 6 P D."""
        return six_nd(parameters=self.parameters, tokens=self.tokens)

    @property
    def tokens_per_parameter(self) -> float:
        return self.tokens / self.parameters


@dataclass(frozen=True)
class Row:
    """A row of a paper's table, and what the paper's own constants give for it."""

    parameters: float
    printed: float  # FLOP at which this size is optimal
    computed: float

    @property
    def ratio(self) -> float:
        return self.computed / self.printed


def fits() -> list[str]:
    """All fits, in the order of the data file.

    Chapter: planning
    """
    return list(table("scaling"))


def find_law(fit: str = FIT) -> Law:
    """A fit's constants, for the fits that give a loss.

    Chapter: planning
    """
    rows = table("scaling")
    row = rows[one_of("fit", fit, [name for name in rows if "E" in rows[name]])]
    return Law(**{name: row[name] for name in Law.__dataclass_fields__ if name in row})


def loss(*, parameters: float, tokens: float, fit: str = FIT) -> Parts:
    """Nats a token: E + A / P^alpha + B / D^beta (Hoffmann et al. 2022, equation 2; Besiroglu et
    al. 2024 for its corrected constants).

    Chapter: planning (eq-scaling-loss)
    """
    P, D, law = positive("parameters", parameters), positive("tokens", tokens), find_law(fit)
    parts = {
        "entropy": law.E,
        "too few parameters": law.A / P**law.alpha,
        "too few tokens": law.B / D**law.beta,
    }
    return Parts("Predicted loss", "nat/token", parts)


@cache
def _line(rows: tuple[tuple[float, float], ...]) -> tuple[float, float]:
    """Coefficient and exponent of P = k C^a through (C, P), by least squares of the logarithms."""
    points = [(math.log(C), math.log(P)) for C, P in rows]
    x, y = (math.fsum(axis) / len(points) for axis in zip(*points, strict=True))
    a = math.fsum((c - x) * (p - y) for c, p in points)
    a /= math.fsum((c - x) ** 2 for c, _ in points)
    return math.exp(y - a * x), a


def frontier(fit: str = FIT) -> tuple[float, float]:
    """k and a of the best size for a budget, P = k C^a.

    Of a loss: a = beta / (alpha + beta), k = (alpha A / (beta B))^(1/(alpha+beta)) / 6^a (Hoffmann
    et al. 2022, equation 4). Kaplan's are printed; those of approaches 1 and 2 are the line through
    the rows that they print.

    Chapter: planning
    """
    row = table("scaling")[one_of("fit", fit, fits())]
    if "E" in row:
        law = find_law(fit)
        both = law.alpha + law.beta
        a = law.beta / both
        return (law.alpha * law.A / (law.beta * law.B)) ** (1 / both) / 6**a, a
    if "coefficient" in row:
        return row["coefficient"] / row["unit"] ** row["exponent"], row["exponent"]
    return _line(tuple((C, P) for P, C, _ in row["printed"]))


def optimal(*, flop: float, fit: str = FIT) -> Size:
    """The size with the least loss for C FLOP: P = k C^a and D = C / (6 P).

    Chapter: planning (eq-scaling-best)
    """
    C, (k, a) = positive("flop", flop), frontier(fit)
    P = k * C**a
    return Size(P, C / (6 * P))


def flop_for(*, parameters: float, fit: str = FIT) -> float:
    """FLOP at which a model of P parameters is the best: (P / k)^(1/a), the columns of Hoffmann et
    al.'s Tables 3 and A3.

    Chapter: planning
    """
    k, a = frontier(fit)
    return (positive("parameters", parameters) / k) ** (1 / a)


def errors(fit: str) -> list[Row]:
    """Each row of a fit's own table beside what the fit gives for it.

    Hoffmann et al.'s two digits of the exponents miss their Table A3 by 1.6 to 2.2 times.

    Chapter: planning
    """
    rows = table("scaling")
    own = rows[one_of("fit", fit, [f for f in fits() if {"printed", "table"} & set(rows[f])])]
    printed = own.get("printed") or rows[own["table"]]["printed"]
    return [Row(P, C, flop_for(parameters=P, fit=fit)) for P, C, _ in printed]


def tokens_for(*, parameters: float, target_loss: float, fit: str = FIT) -> float:
    """Tokens until a model of P parameters has this loss: (B / (loss - E - A/P^alpha))^(1/beta).

    Chapter: planning
    """
    P, wanted = positive("parameters", parameters), positive("target_loss", target_loss)
    law = find_law(fit)
    least = law.E + law.A / P**law.alpha
    if wanted <= least:
        raise InputError(
            f"target_loss = {wanted:g}: expected more than {least:.4g}, which parameters = {P:g} "
            "reach with endless data"
        )
    return (law.B / (wanted - least)) ** (1 / law.beta)


def lifetime(*, parameters: float, tokens: float, inference_tokens: float) -> Parts:
    """FLOP of a model's life: 6 P D to train it, 2 P for each token that it reads or writes then
    (Sardana et al. 2023, section 2).

    Chapter: planning
    """
    P, D = positive("parameters", parameters), positive("tokens", tokens)
    served = non_negative("inference_tokens", inference_tokens)
    trained = six_nd(parameters=P, tokens=D)
    return Parts("A model's life", "FLOP", {"training": trained, "inference": 2 * P * served})


def serving(*, target_loss: float, inference_tokens: float, fit: str = FIT) -> Size:
    """The size with this loss and the least FLOP in its life, trained and used (Sardana et al.
    2023).

    There, alpha A/P^alpha = beta B/D^beta (1 + inference tokens / (3 D)): smaller and trained for
    longer than what training alone would choose.

    Chapter: planning
    """
    wanted, law = positive("target_loss", target_loss), find_law(fit)
    served = non_negative("inference_tokens", inference_tokens)
    room = wanted - law.E
    if room <= 0:
        raise InputError(f"target_loss = {wanted:g}: expected more than the entropy, {law.E:g}")
    low = (law.A / room) ** (1 / law.alpha)  # all of the room, with endless data
    high = low * ((law.alpha + law.beta) / law.beta) ** (1 / law.alpha)  # best for training alone
    for _ in range(HALVINGS):
        P = math.sqrt(low * high)
        small, short = law.A / P**law.alpha, room - law.A / P**law.alpha
        D = (law.B / short) ** (1 / law.beta) if short > 0 else math.inf
        too_small = law.alpha * small > law.beta * short * (1 + served / (3 * D))
        low, high = (P, high) if too_small else (low, P)
    return Size(high, tokens_for(parameters=high, target_loss=wanted, fit=fit))


def _repeated(fit: str) -> Law:
    return find_law(one_of("fit", fit, [f for f in fits() if "repeats" in table("scaling")[f]]))


def _worth(once: float, all_of_it: float, most: float) -> float:
    """U + U R* (1 - e^(-R/R*)) with R = all / U - 1 repeats."""
    repeats = max(all_of_it / once - 1, 0.0)
    return once * (1 + most * -math.expm1(-repeats / most))


def effective_tokens(*, tokens: float, unique_tokens: float, fit: str = REPEATED) -> float:
    """Fresh tokens that D tokens are worth, U of which are different: U + U R* (1 - e^(-R/R*)).

    R = D/U - 1 repeats (Muennighoff et al. 2023, their appendix derives it).

    Chapter: planning
    """
    D, once = positive("tokens", tokens), positive("unique_tokens", unique_tokens)
    return _worth(min(once, D), D, _repeated(fit).repeats)
