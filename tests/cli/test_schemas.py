"""Every answer has the form that mathlib schema states, and nothing else."""

import jsonschema
import pytest
from command_line import answered

from mathlib.cli import schemas
from mathlib.cli.registry import MODULES, every_command

LINES = [line.removesuffix(" --json") for one in every_command().values() for line in one.examples]
MORE = (
    "memory llama2-7b --memory 8GB",
    "comm broadcast --payload 1GB --ranks 8",
    "fit llama3-70b --device a100-80gb --devices 1",
    "params mixtral-8x7b",
    "plan gpt2 --cluster dgx-a100 --devices 2 --batch 2 --train 1B --price 2",
    "fit gpt2 --cluster dgx-a100 --train 1B --rent lambda-a100-sxm",
    "comm all-reduce --payload 1GB --ranks 8 --megatron '--lr 1 --foo'",
    "cost gpt2 --train 1B --device h100-sxm --devices 8 --megatron '--lr 1'",
)


@pytest.mark.parametrize("line", [*LINES, *MORE])
def test_an_answer_is_as_its_schema_says(line, capsys):
    schema = schemas.schema_of(line.split()[0])
    jsonschema.Draft202012Validator(schema).validate(answered(line, capsys))


def test_every_command_has_a_schema_that_is_one():
    assert list(schemas.SCHEMAS) and set(schemas.SCHEMAS) == set(MODULES)
    for name in MODULES:
        jsonschema.Draft202012Validator.check_schema(schemas.schema_of(name))


def test_a_schema_refuses_what_it_does_not_name(capsys):
    data = answered("params gpt2", capsys)
    schema = jsonschema.Draft202012Validator(schemas.schema_of("params"))
    for wrong in (data | {"more": 1}, {k: v for k, v in data.items() if k != "unit"}):
        with pytest.raises(jsonschema.ValidationError):
            schema.validate(wrong)
