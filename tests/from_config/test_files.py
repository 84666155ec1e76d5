"""A file is read as far as it can be a config.json, and what it is instead is told."""

import json
import re

import pytest

from mathlib.checks import InputError
from mathlib.from_config import files

CONFIG = {"model_type": "llama", "vocab_size": 99}


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (7, "config = 7: expected a dictionary or a path"),
        ("no/such/file.json", "config = 'no/such/file.json': cannot be read"),
        (__file__, "expected a JSON object; line 1, column 3: Extra data"),
        ("/dev/zero", "expected a JSON file of at most 10,000,000 bytes"),
        ("config\0.json", "cannot be read (embedded null byte)"),
    ],
)
def test_what_is_no_file_of_json_is_refused(path, said):
    with pytest.raises(InputError, match=re.escape(said)):
        files.loaded(path)


def test_a_file_is_read_as_far_as_it_can_be_one(tmp_path):
    file = tmp_path / "config.json"
    text = json.dumps(CONFIG)
    file.write_text(f"\ufeff{text}", "utf-8")
    assert files.loaded(file) == files.loaded(tmp_path) == CONFIG
    for broken, said in (
        ("[" * 100_000, "expected a JSON object that Python can read"),
        ('{"a": ' * 100_000, "expected a JSON object that Python can read"),
        (text[:-1] + ', "vocab_size": 3}', "vocab_size: expected once, is there several times"),
        ("[]", "expected a JSON object, as in { ... }"),
    ):
        file.write_text(broken, "utf-8")
        with pytest.raises(InputError, match=re.escape(said)):
            files.loaded(file)
    file.write_bytes(text.encode("utf-16"))
    with pytest.raises(InputError, match="expected a JSON file in UTF-8"):
        files.loaded(file)


def test_many_keys_are_read_at_once():
    """A key is not looked for among all others: of 100,000 that would take minutes."""
    many = ", ".join(f'"k{i}": {i}' for i in range(100_000))
    with pytest.raises(InputError, match="config: k7: expected once"):
        files.parsed(f'{{{many}, "k7": 0}}', "config")
