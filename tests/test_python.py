"""The Python side of the verbs: completion, types, results that show themselves, and the docs' examples."""

import doctest
import importlib
import inspect
import json
import math
import pkgutil
import re
from pathlib import Path

import pytest

import regard
from regard import cli
from regard.errors import UserError
from regard.tables import MOST_ROWS, html_table

DOCS = Path(__file__).parent.parent / "docs"
TEXT = "".join(f"It was the best of times {number} and the worst\n" for number in range(120))


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A folder with two texts, in which the code of a page runs."""
    (tmp_path / "book.txt").write_text(TEXT)
    (tmp_path / "other.txt").write_text("So it was\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_dir_completes_every_verb():
    verbs = set(cli.VERBS) - {"bench", "lab", "serve", "shards"}
    assert verbs <= set(dir(regard))
    assert set(dir(regard)) == set(regard.__all__)
    for verb in verbs:
        function = getattr(regard, verb)
        assert inspect.isfunction(function), verb
        assert ">>> " in (inspect.getdoc(function) or ""), f"{verb} has no example"
        signature = inspect.signature(function)
        assert signature.return_annotation is not signature.empty, verb
        assert all(one.annotation is not one.empty for one in signature.parameters.values()), verb


def test_the_package_is_marked_as_typed():
    assert (Path(regard.__file__).parent / "py.typed").is_file()


def test_results_have_rows_and_show_themselves(folder):
    trained = regard.train("ngram", text="book.txt", order=2, out="run")
    results = {
        "train": trained,
        "evaluate": regard.evaluate(trained.run, "other.txt"),
        "score": regard.score(trained.run, "other.txt"),
        "look": regard.look(trained.run, "It was"),
        "trace": regard.trace(trained.run, "It was", word="the"),
        "lesson": regard.lesson("attention"),
        "lessons": regard.lesson(),
        "puzzles": regard.puzzle(),
        "list": regard.list(),
        "align": regard.align(by="model-1", pairs=_two_pairs()),
    }
    for name, result in results.items():
        rows = result.rows()
        assert rows, name
        assert all(isinstance(row, dict) for row in rows), name
        json.dumps(rows)
        shown = result._repr_html_()
        assert re.search("<table|<svg|<iframe|<pre", shown), name
    evaluated = results["evaluate"].rows()[0]
    assert evaluated["perplexity"] == pytest.approx(math.exp(evaluated["loss"]))
    scored = results["score"].rows()
    assert sum(row["log_prob"] for row in scored) == pytest.approx(-evaluated["loss"] * evaluated["tokens"])
    assert scored == results["score"].rows()  # the text is scored again


def _two_pairs():
    from regard.text.parallel import built_in

    return built_in().part([0, 1])


def test_a_notebook_never_shows_a_wall_of_numbers():
    rows = [{"number": number, "word": " <b>"} for number in range(MOST_ROWS + 7)]
    shown = html_table(rows)
    assert shown.count("<tr>") == 1 + MOST_ROWS
    assert "␣&lt;b&gt;" in shown  # spaces are visible, and a token is no HTML
    assert "rows() has all" in shown


def test_unknown_words_make_a_figure_incomparable_and_the_result_says_so(folder):
    trained = regard.train("ngram", text="book.txt", order=2, out="run", hold=0)
    measure = regard.evaluate(trained.run, "other.txt")
    assert measure.unknown_tokens == 2  # "So" and "it"
    assert "2 of 4 tokens are words outside the vocabulary" in measure.not_comparable()  # "was" and the end
    assert "not comparable" in measure._repr_html_()
    assert "not comparable" not in regard.evaluate(trained.run, "book.txt")._repr_html_()


def test_neural_families_read_subwords_and_counted_ones_words(folder):
    from regard.models import FAMILIES, family_class
    from regard.training.options import option_classes

    for family in FAMILIES:
        kind = family_class(family)
        tokens = next(options for options in option_classes(kind) if hasattr(options, "bpe_size"))().tokens
        assert tokens == ("bpe" if kind.learns == "descent" and kind.reads == "text" else "word"), family


def test_errors_name_the_field(folder):
    with pytest.raises(UserError, match="`width`") as caught:
        regard.train("transformer", text="book.txt", width=10, heads=3)
    assert "--" not in str(caught.value)


def test_the_code_of_the_page_runs(folder, capsys):
    space: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", (DOCS / "python.md").read_text(), re.DOTALL):
        exec(block, space)
    losses = space["losses"]
    assert isinstance(losses, list)
    assert losses[-1] < losses[0] - 0.5
    assert "`width`" in capsys.readouterr().out


@pytest.mark.parametrize(
    "name", sorted(module.name for module in pkgutil.walk_packages(regard.__path__, "regard."))
)
def test_examples_in_docstrings(name: str, folder):
    if name.endswith("__main__"):
        return
    if ".kernels" in name:
        pytest.importorskip("triton")
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module, extraglobs={"regard": regard})
    assert failed == 0
