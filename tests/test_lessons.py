"""Lessons: the lectures' numbers come out of the library's code: in the terminal, as JSON, as a notebook."""

import json
import math
import re
from pathlib import Path

import pytest

import regard
from regard.cli import main
from regard.errors import UserError
from regard.lessons.lesson import LESSONS
from regard.lessons.notebook import notebook

QUICK = [name for name in LESSONS if name not in ("translation", "embedding")]


def test_embedding():
    shown = regard.lesson("embedding")
    one_hot, crossed, squared, near = (step.values for step in shown.steps)
    assert (one_hot["same kind"], one_hot["other kind"]) == (0, 0)
    assert crossed["right"] == 1
    # the rank of U E is at most 4, so the columns of 1 - U E have norms of at least 6 - 4 in all
    assert 1 / 3 < squared["loss"] < 0.4
    assert abs(crossed["same kind"] - crossed["other kind"]) < 0.3
    assert near["same kind"] - near["other kind"] > 0.7
    with pytest.raises(UserError, match="narrow"):
        regard.lesson("embedding", set={"width": 6})


def test_counting():
    shown = regard.lesson("counting")
    assert shown.value("after") == pytest.approx({"books": 1 / 3, "exams": 1 / 3, "dog": 1 / 3})
    assert shown.value("unseen") == 0
    assert shown.value("add 1") == pytest.approx(
        1 / (3 + 11)
    )  # "their" three times; ten words and the end of a line
    assert shown.value("sum") == pytest.approx(1)
    assert shown.value("Kneser-Ney") > 0


def test_averaging():
    shown = regard.lesson("averaging")
    assert shown.value("average") == [3 / 4, 1 / 4]
    assert shown.value("averages") == [[3 / 4, 1 / 4]] * 4  # AAAB AABA ABAA BAAA


def test_recurrence():
    shown = regard.lesson("recurrence")
    assert shown.value("loss") == pytest.approx(sum(shown.value("losses")) / 3)
    losses = [loss for row in shown.value("losses of the batch") for loss in row]
    assert shown.value("loss of the batch") == pytest.approx(sum(losses) / 9)
    assert losses[:3] == pytest.approx(shown.value("losses"))
    first, second, third, after = shown.value("gradient")
    assert 0 < first < second < third
    assert after == 0  # the last word is not read before it is predicted
    assert shown.value("eigenvalue 0.9") == pytest.approx([0.9, 0.9**10, 0.9**50])
    assert shown.value("eigenvalue 1.1") == pytest.approx([1.1, 1.1**10, 1.1**50])
    assert shown.value("cell after") == [1, 0, 0, 0.5]


def test_attention():
    shown = regard.lesson("attention")
    assert shown.value("scores") == [0, 0, 1, 0]
    assert shown.value("weights in base 3") == pytest.approx([1 / 6, 1 / 6, 1 / 2, 1 / 6])
    assert shown.value("output in base 3") == pytest.approx([1 / 2, 1 / 2])
    total = 3 + math.e
    assert shown.value("weights in base e") == pytest.approx(
        [1 / total, 1 / total, math.e / total, 1 / total]
    )
    assert shown.value("output of a sharp query") == pytest.approx(
        [3 / (3 + math.exp(10)), math.exp(10) / (3 + math.exp(10))]
    )
    assert shown.value("average") == [3 / 4, 1 / 4]
    sharper = regard.lesson("attention", set={"q": (0.0, 10.0), "sequence": "AAAA"})
    assert sharper.value("output in base e") == [1, 0]
    assert sharper.value("scores") == [0, 0, 0, 0]


def test_attentive():
    shown = regard.lesson("attentive")
    assert shown.value("scores at each word") == [0, 1, 2, 3, 4, 5]  # 4 at "books", 5 at "unwillingly"
    assert [sum(row) for row in shown.value("weights")] == pytest.approx([0, 1, 1, 1, 1, 1])
    assert shown.value("sum of probabilities") == pytest.approx(1)


def test_scores():
    shown = regard.lesson("scores")
    assert shown.value("dot") == pytest.approx(1 * 3 + 2 * -1)
    assert shown.value("scaled-dot") == pytest.approx(1 / math.sqrt(2))
    for width, spread in zip(shown.value("width"), shown.value("spread of dot"), strict=True):
        # products of unit normals: spread sqrt(d); 64 x 64 of them that share vectors,
        # so known within about 3 / sqrt(64)
        assert spread == pytest.approx(math.sqrt(width), rel=3 / 8)
    assert (
        shown.value("entropy of softmax of dot")[-1]
        < 0.5
        < 3
        < shown.value("entropy of softmax of scaled dot")[-1]
    )


def test_self_attention():
    shown = regard.lesson("self-attention")
    assert shown.value("row sums") == pytest.approx([1] * 5)
    expected = [
        [3 / 4, 1 / 4, 0, 0, 0],
        [1 / 2, 1 / 2, 0, 0, 0],
        [0, 0, 1, 0, 0],
        [0, 0, 0, 3 / 4, 1 / 4],
        [0, 0, 0, 0, 1],
    ]
    for row, right in zip(shown.value("lecture"), expected, strict=True):
        assert row == pytest.approx(right, abs=1e-15)
    assert (shown.value("maps"), shown.value("mixed"), shown.value("projected")) == (
        [3, 7, 7],
        [3, 7, 4],
        [7, 12],
    )


def test_masking():
    shown = regard.lesson("masking")
    assert shown.value("visible") == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert shown.value("h_2") == pytest.approx([0.3, 0.7, 0])
    assert shown.value("h_3") == pytest.approx([0.3, 0.5, 0.2])
    assert shown.value("largest difference") < 1e-12
    assert shown.value("future seen") < 1e-6 < 1 < shown.value("future hidden")


def test_positions():
    shown = regard.lesson("positions")
    assert shown.value("difference with none") < 1e-12
    for name in ("index", "onehot", "sinusoidal", "learned", "rotary"):
        assert shown.value(f"difference with {name}") > 1e-3


def test_copying():
    shown = regard.lesson("copying")
    pointed = math.exp(4) / (math.exp(4) + 7)
    assert shown.value("softmax") == pytest.approx(
        1 / 10
    )  # eight words, the end of a line, and words never seen
    assert shown.value("average") == pytest.approx(0.5 / 10 + 0.5 * pointed)
    total = math.exp(4) + 7 + math.exp(2)
    assert shown.value("gate") == pytest.approx(math.exp(2) / total)
    assert shown.value("gated") == pytest.approx(math.exp(2) / total / 10 + math.exp(4) / total)
    assert [shown.value("sum"), shown.value("sum of gated")] == pytest.approx([1, 1])


def test_backpack():
    shown = regard.lesson("backpack")
    assert shown.value("alpha") == [[3 / 2, 1 / 2], [1 / 2, 1 / 2], [3 / 2, 1 / 2], [1, 0]]
    assert [share for row in shown.value("query") for share in row] == pytest.approx(
        [2 / 3, 1 / 3, 1 / 2, 1 / 2, 2 / 3, 1 / 3, 1, 0]
    )
    assert shown.value("output") == [1, 0, 1, 0] == shown.value("output by query")
    assert shown.value("sentiment") == [1, 0]
    assert shown.value("sentiment, That surgery was sick") == [0, 1]


def test_translation():
    shown = regard.lesson("translation", set={"steps": 20})
    assert shown.value("amo") == pytest.approx([1 / 4, 3 / 4, 0, 0, 0])
    assert shown.value("Te") == pytest.approx([0, 0, 1, 0, 0])
    assert [row.index(max(row)) for row in shown.value("straight")] == [0, 1, 2, 3, 4]
    assert all(sum(row) == pytest.approx(1, abs=1e-5) for row in shown.value("grid"))


@pytest.mark.parametrize("name", QUICK)
def test_a_lesson_is_shown_is_json_and_is_a_notebook(name: str, capsys, tmp_path: Path):
    assert main(["lesson", name, "--notebook", str(tmp_path / "lesson.ipynb")]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert main(["lesson", name, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    for step in data["steps"]:
        assert step["title"] in shown.out
        assert not [value for value in step["values"].values() if isinstance(value, str)]
    cells = json.loads((tmp_path / "lesson.ipynb").read_text())["cells"]
    space: dict[str, object] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec(cell["source"], space)  # the same numbers, from the notebook's own code
    assert json.loads(json.dumps(space["shown"].to_json())) == data
    assert notebook(regard.lesson(name)) == notebook(regard.lesson(name))


def test_the_notebook_of_a_training_runs():
    space: dict[str, object] = {}
    for cell in json.loads(notebook(regard.lesson("translation", set={"steps": 5})))["cells"]:
        if cell["cell_type"] == "code":
            exec(cell["source"], space)
    assert space["shown"].inputs["steps"] == 5  # the notebook keeps what was set
    assert space["shown"].value("amo") == pytest.approx([1 / 4, 3 / 4, 0, 0, 0])


def test_inputs_can_be_set(capsys):
    assert main(["lesson", "attention", "--set", "q=0,10", "sequence=ABBB", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["steps"][0]["values"]["scores"] == [0, 10, 10, 10]
    assert (
        main(["lesson", "counting", "--set", "sentences=a b / a c", "context=a", "unseen=d", "--json"]) == 0
    )
    assert json.loads(capsys.readouterr().out)["steps"][0]["values"]["after"] == pytest.approx(
        {"b": 0.5, "c": 0.5}
    )
    assert main(["lesson"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(LESSONS)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["atention"], "did you mean attention?"),
        (["attention", "--set", "k=1"], "its inputs are: sequence=AABA, q=0,1, base=3"),
        (["attention", "--set", "q=1"], "q needs 2 numbers, one for A and one for B; it has 1"),
        (["attention", "--set", "q=a,b"], "q is written like 0,1"),
        (["attention", "--set", "sequence=ABC"], "made of A and B, not 'ABC'"),
        (["self-attention", "--set", "sentence=I love"], "the sentence has 2 words and the weights 5 rows"),
        (["backpack", "--set", "sentence=That bird was sick"], "no senses for bird; the words are: that"),
        (["copying", "--set", "word=Bernanke"], "is not in the text"),
        (["positions", "--set", "second=Jill gave milk"], "two sentences of the same words"),
        (["attention", "--set", "base=0"], "the base of a softmax is above 0"),
        (["attention", "--set", "q=nan,1"], "q must be made of finite numbers"),
        (["counting", "--set", "sentences="], "sentences is empty"),
        (["counting", "--set", "unseen=books"], "'their' is followed by 'books'"),
        (["counting", "--set", "context=zzz"], "'zzz' stands in none of the sentences"),
        (["recurrence", "--set", "sentence=hi"], "at least two words"),
        (["recurrence", "--set", "width=2.5"], "width is written like 3"),
        (["recurrence", "--set", "width=0"], "width must be 1 or more"),
        (["positions", "--set", "first=a b", "second=a b"], "in another order"),
        (["masking", "--set", "weights=1,0;0.5"], "weights is written like"),
        (["attention", "--notebook", "x.txt"], "the name of a notebook ends with .ipynb"),
    ],
)
def test_wrong_settings_are_told(arguments: list[str], words: str, capsys):
    assert main(["lesson", *arguments]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert re.search(re.escape(words), told.err), told.err


def test_other_sizes_can_be_set():
    two = regard.lesson("self-attention", set={"sentence": "a b", "weights": ((1.0, 0.0), (0.5, 0.5))})
    assert two.value("lecture") == [[1, 0], [0.5, 0.5]]
    three = regard.lesson("scores", set={"q": (1.0, 2.0, 3.0), "k": (1.0, 1.0, 1.0), "widths": (2.0, 4.0)})
    assert three.value("dot") == pytest.approx(6)


def test_an_unknown_input_from_python():
    with pytest.raises(UserError, match="averaging has no 'q' to set"):
        regard.lesson("averaging", set={"q": 1})
