"""Matrices modulo a prime: the laws of any ring."""

from random import Random

from mathlib.prover import modular

RANDOM = Random(1)


def drawn(rows, columns):
    return [[RANDOM.randrange(modular.PRIME) for _ in range(columns)] for _ in range(rows)]


def test_products_and_sums_obey_the_laws_of_a_ring():
    a, b, c, d = drawn(3, 4), drawn(4, 2), drawn(4, 2), drawn(2, 5)
    whole, apart = modular.matmul(a, modular.plus(b, c)), [modular.matmul(a, x) for x in (b, c)]
    assert whole == modular.plus(*apart)
    assert modular.matmul(modular.matmul(a, b), d) == modular.matmul(a, modular.matmul(b, d))
    assert modular.matmul_rows(a, modular.transposed(b)) == modular.matmul(a, b)
    assert modular.times(modular.times(b, 7), modular.inverse(7)) == b
    ones = modular.plus(modular.product(b, c), modular.times(b, -1))
    less = modular.plus(c, [[-1] * 2 for _ in c])
    assert ones == modular.product(b, less)


def test_a_shared_scale_begins_again_and_its_sums_fold():
    a = drawn(3, 6)
    assert modular.scaled(a, [1, 2]) == modular.scaled(a, [1, 2, 1, 2, 1, 2])
    sums = modular.column_sums(a, 6)
    folded = [sum(sums[j::2]) % modular.PRIME for j in range(2)]
    assert modular.column_sums(a, 2) == folded


def test_a_split_has_everything_once_and_is_even():
    for n in range(12):
        for ranks in range(1, 6):
            parts = [modular.split(n, ranks, r) for r in range(ranks)]
            assert [i for part in parts for i in part] == list(range(n))
            assert max(map(len, parts)) - min(map(len, parts)) <= 1
