"""What is added up inside a matmul keeps 32 bits."""

import torch

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}


def side_by_side(products):
    """Sums in 16 bits, 32 of them at a time."""
    lanes = products[:32].clone()
    for more in products[32:].split(32):
        lanes += more
    while len(lanes) > 1:
        lanes = lanes[::2] + lanes[1::2]
    return lanes[0]


def test_matmuls_are_added_up_in_32_bits():
    """Ones would not tell: side by side their sums come out right in 16 bits, too."""
    draw = torch.Generator().manual_seed(0)
    for dtype in DTYPES.values():
        a, b = (torch.randn(64, 8192, generator=draw).to(dtype) for _ in range(2))
        once = (a.double() @ b.double().T).to(dtype)
        assert (a @ b.T == once).double().mean() > 0.98
        assert (side_by_side(a.T * b.T) == once.diagonal()).double().mean() < 0.3
        assert side_by_side(torch.ones(8192, 1, dtype=dtype)).item() == 8192
