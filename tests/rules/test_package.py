"""What is published is the library and nothing else, and installed alone it answers as here."""

import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
import yaml
from command_line import ended
from patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
SIZES = {"hidden_size": 64, "num_attention_heads": 2, "num_hidden_layers": 2}
CONFIG = {"model_type": "llama", "vocab_size": 99, "intermediate_size": 128} | SIZES
QUESTIONS = [
    "--version",
    "memory llama2-7b --zero 3 --data 8 --memory 30GB",
    "memory config.json",
    "time llama3-8b --cluster p5.48xlarge --data 8 --zero 3 --json",
    "plan gpt2 --cluster dgx-a100 --devices 8 --batch 64",
    "fit gpt2 --device h100-sxm --batch 64",
    "kv llama3-70b --tokens 8k",
    "mfu llama3-8b --device h100-sxm --devices 8 --tokens-per-second 72k",
    "cost llama3-70b --train 15T --device h100-sxm --devices 8000 --price 2",
    "compare llama2-7b llama3-8b",
    "where ring",
    "where nosuchword",
    "params nosuch --json",
]


def done(*words, cwd):
    """A program's output, run as somebody else would: without the settings of this environment."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        words, cwd=cwd, env=kept, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def built(kind, source, out):
    """The one file that the pinned builder makes of a folder of sources."""
    made = done(sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", out, cwd=source)
    assert made.returncode == 0, made.stderr
    return next(out.iterdir())


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    return built("sdist", ROOT, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def wheel(archive, tmp_path_factory):
    """Made from the archive, as an index's readers may have to."""
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return built("wheel", next(folder.iterdir()), tmp_path_factory.mktemp("wheel"))


def library():
    """The files of the library, as the repository has them."""
    files = [path for path in (ROOT / "mathlib").rglob("*") if path.is_file()]
    own = [path.relative_to(ROOT) for path in files if path.suffix not in (".pyc", ".pyo")]
    return {path.as_posix() for path in own if ".ipynb_checkpoints" not in path.parts}


def test_the_archive_holds_the_library_and_what_is_said_of_it(archive):
    with tarfile.open(archive) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    about = {"CHANGELOG.md", "LICENSE", "PKG-INFO", "pyproject.toml", ".gitignore"}
    assert names == library() | about


def test_the_wheel_holds_the_library_alone(wheel):
    with zipfile.ZipFile(wheel) as packed:
        names = {name for name in packed.namelist() if ".dist-info/" not in name}
        assert names == library() - {"mathlib/README.md"} and "mathlib/py.typed" in names
        assert any(name.endswith(".dist-info/licenses/LICENSE") for name in packed.namelist())


def test_an_index_is_told_what_it_shows(wheel):
    with zipfile.ZipFile(wheel) as packed:
        (name,) = (name for name in packed.namelist() if name.endswith("/METADATA"))
        told = Parser().parsestr(packed.read(name).decode())
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert told["Author"] == cited["authors"][0]["name"]
    assert told["Version"] == cited["version"] and told["License-Expression"] == cited["license"]
    assert set(told["Keywords"].split(",")) == set(cited["keywords"])
    assert told["Requires-Python"] == ">=3.11" and "Typing :: Typed" in told.get_all("Classifier")
    needed = [line for line in told.get_all("Requires-Dist") if "extra ==" not in line]
    assert not needed, "the formulas need the standard library alone"
    text = told.get_payload()
    assert told["Description-Content-Type"] == "text/markdown" and "pip install" in text
    assert not re.search(r"\]\((?!https?://)|<img", text), "an index has none of our files"


def test_the_builder_is_the_same_wherever_it_is_named():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    (needed,) = project["build-system"]["requires"]
    assert needed in (ROOT / "requirements.txt").read_text("utf-8").splitlines()


def test_installed_alone_it_answers_as_here(wheel, tmp_path, monkeypatch, capsys):
    empty, folder = tmp_path / "venv", tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG), "utf-8")
    done(sys.executable, "-m", "venv", "--without-pip", empty, cwd=tmp_path)
    pip = (sys.executable, "-m", "pip", "--python", empty, "install", "--no-index", "--no-deps")
    put = done(*pip, "--no-compile", "--disable-pip-version-check", wheel, cwd=folder)
    assert put.returncode == 0, put.stderr
    script = next(empty.glob("*/mathlib*"))
    monkeypatch.chdir(folder)
    for line in QUESTIONS:
        code, out, err = ended(line, capsys)
        there = done(script, *line.split(), cwd=folder)
        assert (there.returncode, there.stdout, there.stderr) == (code, out, err), line
        assert out or err
