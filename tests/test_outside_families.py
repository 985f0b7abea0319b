"""Families from outside regard, named as MODULE:CLASS, as a class, or installed.

The family is the one that docs/your-own-family.md builds.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import regard
from regard import cli, testing
from regard.errors import UserError
from regard.models import family_name

PAGE = Path(__file__).parent.parent / "docs" / "your-own-family.md"
SMALL = ("--text", "text.txt", "--tokens", "char", "--steps", "3", "--batch", "2", "--width", "5")
NAME = "my_module:Leaky"


def code_of_page() -> str:
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[0]


@pytest.fixture
def folder(tmp_path, text, monkeypatch) -> Iterator[Path]:
    """A current folder with the page's module and a text; what the test imports from it is forgotten."""
    (tmp_path / "my_module.py").write_text(code_of_page() + 'open("imported", "w").close()\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in ("", str(Path.cwd()))])
    known = {*sys.modules}
    yield tmp_path
    for name in {*sys.modules} - known:
        if name.partition(".")[0] in ("my_module", "leaky_package", "broken"):
            del sys.modules[name]


@pytest.fixture
def run(folder) -> Path:
    """A run of the family, whose module has not been imported since."""
    assert cli.main(["train", NAME, *SMALL, "--out", "run"]) == 0
    del sys.modules["my_module"]
    (folder / "imported").unlink()
    return folder / "run"


def refusal(capsys, *arguments: str) -> str:
    """The one line of a command that ends with exit code 2 and writes nothing to standard output."""
    capsys.readouterr()
    assert cli.main([*arguments]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    (line,) = error.splitlines()
    return line


def output(capsys, *arguments: str) -> str:
    capsys.readouterr()
    assert cli.main([*arguments]) == 0
    return capsys.readouterr().out


def test_a_run_keeps_the_name_and_opens_when_it_is_named_again(run: Path, capsys):
    assert json.loads((run / "config.json").read_text())["family"] == NAME
    line = refusal(capsys, "evaluate", "run")
    assert f"--family {NAME}" in line
    assert not Path("imported").exists(), "a name in a file imported a module"

    measured = json.loads(output(capsys, "evaluate", "run", "--text", "text.txt", "--family", NAME, "--json"))
    assert Path("imported").exists()
    again = json.loads(output(capsys, "evaluate", "run", "--text", "text.txt", f"--family={NAME}", "--json"))
    assert measured["loss"] == again["loss"]
    refusal(
        capsys, "evaluate", "run", "--text", "text.txt"
    )  # the module is imported, but the family is not named


@pytest.mark.parametrize(
    "arguments",
    [
        ("score", "run", "--text", "text.txt", "--json"),
        ("generate", "run", "--length", "3"),
        ("look", "run", "--text", "line"),
        ("export", "run", "--to", "copy"),
        ("evaluate", "run", "--text", "text.txt", "--cache", "--cache-size", "5"),
        ("evaluate", "run", "--text", "text.txt", "--mix", "run", "--valid", "text.txt"),
        ("evaluate", "run", "--text", "text.txt", "--edit", '[{"do": "zero", "site": "average"}]'),
    ],
)
def test_every_verb_that_takes_a_run_takes_its_family(run: Path, capsys, arguments):
    assert "--family" in refusal(capsys, *arguments)
    assert not Path("imported").exists()
    output(capsys, *arguments, "--family", NAME)


def test_from_python_a_class_is_named_by_itself(folder, monkeypatch):
    monkeypatch.syspath_prepend(folder)
    from my_module import Leaky

    options = {"text": "text.txt", "tokens": "char", "steps": 3, "batch": 2, "width": 5}
    trained = regard.train(Leaky, out="run", **options)
    assert trained.to_json()["family"] == trained.run.config.family == family_name(Leaky) == NAME
    with pytest.raises(UserError, match="`family` my_module:Leaky"):
        regard.load("run")
    for family in (Leaky, NAME):
        assert type(regard.load("run", family=family).model) is Leaky
    loss = regard.evaluate(regard.load("run", family=Leaky), text="text.txt").loss
    assert loss == regard.evaluate(trained.run, text="text.txt").loss
    with pytest.raises(UserError, match="no option"):
        regard.train(Leaky, out="other", heads=2, **options)


def test_the_family_of_a_run_of_regard_is_not_replaced(folder, capsys):
    assert cli.main(["train", "ngram", "--text", "text.txt", "--order", "2", "--out", "run"]) == 0
    assert "part of regard" in refusal(capsys, "evaluate", "run", "--family", NAME)
    assert type(regard.load("run", family="ngram").model).__name__ == "Ngram"


def test_a_stopped_training_goes_on_if_the_family_is_named(run: Path, capsys):
    config = json.loads((run / "config.json").read_text())
    began = {"family": NAME, "options": {}, "texts": {}, "tokens": "", "bf16": False, "folder": None}
    (run / "training.json").write_text(json.dumps(began))
    (run / "config.json").unlink()
    assert f"holds a {NAME}, not a lstm" in refusal(capsys, "train", "lstm", "--out", "run", "--resume")
    began |= {
        "texts": config["texts"],
        "options": {"text": ["text.txt"], "tokens": "char", "steps": 3, "width": 5},
    }
    (run / "training.json").write_text(json.dumps(began))
    # the texts and the family are right, the hash of the vocabulary is not
    assert "the vocabulary has changed" in refusal(capsys, "train", NAME, "--out", "run", "--resume")


def test_comparing(folder, capsys):
    families = f"{NAME},{NAME}:byte,ngram:word"
    tokens = ("--text", "text.txt", "--tokens", "char", "--tokens-each", "700", "--out", "compared")
    done = json.loads(output(capsys, "compare", "--families", families, *tokens, "--json"))
    assert {result["name"] for result in done["results"]} == {*families.split(",")}
    protocols = {result["name"]: result["measure"]["protocol"]["tokens"] for result in done["results"]}
    assert protocols == {NAME: "char", f"{NAME}:byte": "byte", "ngram:word": "word"}

    (folder / "compared" / "report.html").unlink()  # as if it had been stopped before the report
    (folder / "imported").unlink()
    del sys.modules["my_module"]
    assert "--families" in refusal(capsys, "compare", "--out", "compared", "--resume")
    assert not Path("imported").exists(), "a name in the plan imported a module"
    assert "began with" in refusal(capsys, "compare", "--out", "compared", "--resume", "--families", NAME)
    output(capsys, "compare", "--out", "compared", "--resume", "--families", families)
    assert "tokens are" in refusal(capsys, "compare", "--families", "ngram:words", "--out", "other")


def test_an_installed_family_is_known_by_its_name(folder, capsys, monkeypatch):
    site = folder / "site"
    metadata = site / "leaky_package-1.0.dist-info"
    metadata.mkdir(parents=True)
    (site / "leaky_package.py").write_text(code_of_page())
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: leaky-package\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[regard.families]\nleaky = leaky_package:Leaky\n")
    monkeypatch.syspath_prepend(site)

    assert regard.list()["families"][-1] == "leaky"
    output(capsys, "train", "leaky", *SMALL, "--out", "run")
    output(capsys, "train", "leaky_package:Leaky", *SMALL, "--out", "other")
    for run in ("run", "other"):
        assert json.loads((folder / run / "config.json").read_text())["family"] == "leaky"
        output(capsys, "evaluate", run, "--text", "text.txt")
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(site)])
    assert "--family MODULE:CLASS" in refusal(capsys, "evaluate", "run")
    output(capsys, "evaluate", "run", "--text", "text.txt", "--family", NAME)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("my_module:Leeky", "did you mean my_module:Leaky?"),
        ("my_modul:Leaky", "there is no module my_modul;"),
        ("my_module:LeakyState", "is not a subclass of LanguageModel"),
        ("my_module:torch", "is not a subclass of LanguageModel"),
        ("regard.models.contract:LanguageModel", "it lacks Config, begin, family, forward"),
        ("broken:Leaky", "broken cannot be imported (ZeroDivisionError: division by zero)"),
        ("lsmt", "did you mean lstm?"),
    ],
)
def test_a_name_that_leads_to_no_family_is_one_line(folder, capsys, name: str, words: str):
    (folder / "broken.py").write_text("1 / 0\n")
    assert words in refusal(capsys, "train", name)
    assert words in refusal(capsys, "train", name, "--help")


def test_the_installed_command_finds_a_module_in_the_current_folder(folder):
    command = [sys.executable, "-P", "-m", "regard"]  # like `regard`, it begins without the current folder
    done = subprocess.run(
        [*command, "train", NAME, *SMALL, "--out", "run", "--json"], capture_output=True, check=True
    )
    assert json.loads(done.stdout)["family"] == NAME


@pytest.mark.parametrize("law", testing.LAWS)
def test_the_family_of_the_page_keeps_the_laws(law: str):
    namespace: dict = {"__name__": "page"}
    exec(code_of_page(), namespace)
    family = namespace["Leaky"]
    testing.LAWS[law](lambda: family(11, family.Config(width=7)))


def test_the_laws_need_neither_pytest_nor_hypothesis():
    block = "import sys; sys.modules['pytest'] = sys.modules['hypothesis'] = None"
    make = "lambda: Lstm(11, Lstm.Config(width=5))"
    check = f"testing.LAWS['probabilities_sum_to_one']({make})"
    imports = "from regard import testing; from regard.models.recurrent import Lstm"
    code = f"{block}; {imports}; {check}; print('holds')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == b"holds\n"
