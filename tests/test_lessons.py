"""Lessons: the lectures' numbers come out of the library's code: in the terminal, as JSON, as a notebook."""

import io
import json
import math
import re
from pathlib import Path

import pytest

import regard
from regard.cli import main
from regard.errors import UserError
from regard.lessons.exercises import EXERCISES
from regard.lessons.lesson import LESSONS

MEASURED = "forgetting"  # its steps hold measured times


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
    weights = shown.steps[0].values["weights"]
    assert (
        max(abs(weights[i][j] - weights[j][i]) for i in range(5) for j in range(5)) > 0.01
    )  # W_ij is not W_ji
    assert shown.value("causal reader")[0] == [1, 0, 0, 0, 0, 0, 0]  # the first word sees itself
    assert shown.value("P with a mask") == pytest.approx(1 / 3, abs=0.05)  # one of three prizes
    assert shown.value("P without a mask") > 0.95
    first = shown.value("reader")[0]
    assert first.index(max(first)) == 6  # the field, at the end of the sentence


def test_heads():
    shown = regard.lesson("heads")
    assert (shown.value("maps"), shown.value("mixed"), shown.value("projected")) == (
        [2, 9, 9],
        [2, 9, 16],
        [9, 32],
    )
    assert shown.value("whole") > 0.9
    assert shown.value("head")[0] == "layer1.attention"  # an induction head needs what a layer below found
    assert shown.value("induction score") > 0.8 > 0.2 > shown.value("chance")
    induction = next(step for step in shown.steps if step.title == "An induction head")
    assert "it looks most at 'Smith'" in induction.says
    assert "a 'previous token' head" in induction.says
    assert shown.value("labelled") == 3
    other = regard.lesson("heads", set={"story": "Ms. Green knew Mr. Smith . then Ms."})
    assert next(iter(other.value("likeliest"))) == "Green"


def test_masking():
    shown = regard.lesson("masking")
    assert shown.value("visible") == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert shown.value("h_2") == pytest.approx([0.3, 0.7, 0])
    assert shown.value("h_3") == pytest.approx([0.3, 0.5, 0.2])
    assert shown.value("largest difference") < 1e-12
    assert shown.value("future seen") < 1e-6 < 1 < shown.value("future hidden")
    assert shown.value("L") == pytest.approx(sum(shown.value(f"L_{t}") for t in (1, 2, 3)) / 3)
    masked, without, read_with_it = (
        shown.value(f"trained {how}")
        for how in ("with the mask", "without, read without", "without, read with it")
    )
    assert without < 0.1 < masked < read_with_it  # it copied the next word, and knows nothing without it


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


def test_attention_learns_the_ideal():
    shown = regard.lesson("attention")
    outputs = shown.value("outputs")
    assert [row[1] for row in outputs["q = [0, 1]"]] == pytest.approx(
        [0, math.e / (math.e + 3), 2 * math.e / (2 * math.e + 2)]  # AAAA, ABAA, BAAB
    )
    assert shown.value("largest error")["learned W^Q"] < 0.01
    turned = regard.lesson("attention", set={"W_K": ((0.0, 1.0), (1.0, 0.0))})
    assert turned.value("E W^K") == [[0, 1], [0, 1], [1, 0], [0, 1]]
    assert turned.value("learned query")[0] > turned.value("learned query")[1]  # the B's key is now [1, 0]


def test_prose_follows_the_inputs():
    told = " ".join(step.says for step in regard.lesson("attention", set={"sequence": "AAAA"}).steps)
    assert "There is no B" in told
    assert "on the B." not in told
    assert "0.9999 of the weight is on the B." in " ".join(
        step.says for step in regard.lesson("attention").steps
    )
    poor = regard.lesson("attention", set={"W_Q": ((0.1, 0.0), (0.0, 0.1))})
    assert "do not separate the letters" in " ".join(step.says for step in poor.steps)


def test_window():
    shown = regard.lesson("window")
    assert shown.value("window") == [
        n * 32 * 32 + 32 for n in (1, 2, 4, 8, 16)
    ]  # n x d columns, d rows, a bias
    assert shown.value("rnn") == 2 * (32 * 32 + 32)


def test_forgetting():
    shown = regard.lesson("forgetting")
    at_1, at_10, at_50, at_500 = shown.value("rnn")
    assert 1 == at_1 > at_10 > at_50 > at_500
    assert (
        shown.value("rnn")[2]
        < shown.value("lstm")[2]
        < min(shown.value(name)[2] for name in ("attentive", "transformer"))
    )
    powers, largest = shown.value("V^k"), shown.value("largest eigenvalue")
    # For large k, |V^500| / |V^50| is about the 450th power of the largest eigenvalue.
    assert math.log(powers[3] / powers[2]) / 450 == pytest.approx(math.log(largest), rel=0.05)
    steps = shown.steps[-1].values
    assert (steps["steps of lstm"], steps["steps of transformer"]) == ([16, 64, 256, 512], [1, 1, 1, 1])


def test_bottleneck():
    shown = regard.lesson("bottleneck")
    assert shown.value("sentences") == pytest.approx(1e20)
    _, one_vector, attention, transformer = shown.value("BLEU")
    assert one_vector[0] > one_vector[-1] + 10  # falls with the length
    assert min(attention + transformer) > 90
    told = shown.steps[1].says
    assert "'The dog ran really fast' becomes 'El perro corrió muy rápido' (right)" in told
    assert "(right: Te amo mucho)" in told  # word for word fails
    assert "attention: 'Te amo mucho'" in shown.steps[2].says


def test_translation():
    shown = regard.lesson("translation")
    assert shown.value("amo") == pytest.approx([1 / 4, 3 / 4, 0, 0, 0])
    assert shown.value("Te") == pytest.approx([0, 0, 1, 0, 0])
    assert [row.index(max(row)) for row in shown.value("straight")] == [0, 1, 2, 3, 4]
    grid = shown.value("grid")
    assert all(sum(row) == pytest.approx(1, abs=1e-5) for row in grid)
    assert [row.index(max(row)) for row in grid[:2]] == [2, 1]  # Te at you, amo at love


def test_regions():
    lesson = regard.lesson("regions")
    assert lesson.value("average") == lesson.value("average of the other scene") == [0.5, 0.5, 0.5, 0.5]
    assert lesson.value("right") == pytest.approx(math.exp(3) / (math.exp(3) + 1))
    assert lesson.value("said") == ["red", "circle", "blue", "square"]
    assert lesson.value("moved") == ["blue", "circle", "blue", "square"]
    flat = regard.lesson("regions", set={"sharpness": 0.0})
    assert flat.value("right") == pytest.approx(0.5)
    assert "too flat" in " ".join(step.says for step in flat.steps)


@pytest.mark.parametrize("model", ["transformer", "lstm", "attentive", "backpack"])
def test_walk(model: str):
    """The numbers of the steps, computed from the weights, end at the model's own probabilities."""
    shown = regard.lesson("walk", set={"model": model})
    assert shown.value("largest difference") < 1e-12
    assert next(iter(shown.value("likeliest"))) == "David"
    assert re.search(r"she sang . that was': Olga \((0.99|1.0)", shown.steps[-1].says)
    if model == "transformer":
        he, was = shown.value("weights of he"), shown.value("weights of the last word")
        assert he[3] > 0.9  # layer 0: "he" looks at David
        assert was[8] > 0.9  # layer 1: "was" looks at "he"


def test_a_sense_is_edited_everywhere():
    shown = regard.lesson("backpack")
    assert min(row["David"] for row in shown.value("before")) > 0.99
    assert min(row["Felix"] for row in shown.value("after")) > 0.99
    own = regard.lesson("backpack", set={"other": "That gig was sick", "senses": ("gig 0,0,1,0 0,0,0,0",)})
    assert own.value("sentiment, That gig was sick") == [1, 0]


@pytest.mark.parametrize("name", LESSONS)
def test_questions_have_one_right_choice_and_reasons(name: str):
    shown = regard.lesson(name)
    questions = [step.question for step in shown.steps if step.question is not None]
    assert questions
    for question in questions:
        assert [choice.right for choice in question.choices].count(True) == 1
        assert len({choice.text for choice in question.choices}) == len(question.choices) > 1
        assert all(choice.reason.endswith((".", ")")) for choice in question.choices)
    assert all(LESSONS[before] for before in shown.builds_on)
    assert [*LESSONS].index(name) > max([-1, *([*LESSONS].index(before) for before in shown.builds_on)])


@pytest.mark.parametrize("name", LESSONS)
def test_solutions_run(name: str, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(EXERCISES[name].solution, name, "exec"), {})


@pytest.mark.parametrize("name", ["attention", "counting", "walk"])
def test_a_quiz_is_asked_and_explained(name: str, monkeypatch, capsys):
    shown = regard.lesson(name)
    questions = [step.question for step in shown.steps if step.question is not None]
    right = [question.letters[question.choices.index(question.right)] for question in questions]
    wrong = [
        question.letters[[choice.right for choice in question.choices].index(False)] for question in questions
    ]
    for letters, count in ((right, len(questions)), (["z", "", *wrong], 0)):
        monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(letters) + "\n"))
        assert main(["lesson", name, "--quiz"]) == 0
        told = capsys.readouterr().out
        assert told.endswith(f"{count} of {len(questions)} right.\n")
    for question in questions:
        assert next(choice.reason for choice in question.choices if not choice.right) in told
    monkeypatch.setattr("sys.stdin", io.StringIO(right[0]))  # the input ends after one answer
    assert main(["lesson", name, "--quiz", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["quiz"] == {"asked": 1, "right": 1}


def test_a_lesson_is_a_page(tmp_path: Path, open_page):
    regard.lesson("attention", out=tmp_path / "lesson.html")
    page = open_page(tmp_path / "lesson.html")
    result = page.query_selector(".asked")
    assert not result.is_visible()  # predict first
    page.query_selector_all(".choices button")[0].click()
    assert result.is_visible()
    assert "Right. k_A . q" in page.inner_text(".reason")
    assert "1 of 1 right" in page.inner_text("#score")
    assert page.query_selector("math msub") is not None


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_a_lesson_is_a_picture(ending: str, tmp_path: Path):
    regard.lesson("masking", out=tmp_path / f"lesson.{ending}")
    data = (tmp_path / f"lesson.{ending}").read_bytes()
    assert data.startswith(b"\x89PNG" if ending == "png" else b"<svg")
    if ending == "svg":
        from xml.etree import ElementTree

        ElementTree.fromstring(data)


def test_a_notebook_runs_in_jupyter(tmp_path: Path):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    regard.lesson("attention", set={"sequence": "ABAA"}, out=tmp_path / "lesson.ipynb")
    read = nbformat.read(tmp_path / "lesson.ipynb", as_version=4)
    nbformat.validate(read)
    done = nbclient.NotebookClient(read, timeout=120, kernel_name="python3").execute()
    outputs = [output for cell in done.cells for output in cell.get("outputs", [])]
    assert not [output for output in outputs if output.output_type == "error"]
    assert [1 for output in outputs if "<svg" in output.get("data", {}).get("text/html", "")]
    assert [1 for cell in done.cells if "$$s_i = k_i" in cell.source]


@pytest.mark.parametrize("name", LESSONS)
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
    if name != MEASURED:
        assert json.loads(json.dumps(space["shown"].to_json())) == data


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
        (["attention", "--set", "k=1"], "its inputs are: sequence=AABA, q=0,1, base=3, W_K=1,0;0,1"),
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
        (["attention", "--out", "x.txt"], "--out writes .svg, .png, .html or .ipynb"),
        (["walk", "--set", "model=gpt"], "there are: transformer, lstm, attentive, backpack"),
        (["walk", "--set", "text=Bob called Olga"], "the run does not know Bob; its words are: "),
        (["backpack", "--set", "senses=cool 1,0"], "senses are written like"),
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


def test_two_directions_see_every_word_and_the_blank_does_not_see_its_own():
    shown = regard.lesson("directions")
    ahead, back, both = (step.values["moved"] for step in shown.steps[:3])
    for row in range(5):
        for column in range(5):
            assert (ahead[row][column] > 0) == (column <= row)
            assert (back[row][column] > 0) == (column >= row)
            assert both[row][column] == pytest.approx(
                (ahead[row][column] ** 2 + back[row][column] ** 2) ** 0.5
            )
    assert shown.value("moved by the next word") > shown.value("forward state alone") == 0
    blank = shown.steps[4].values["moved"]
    assert [place for place, value in enumerate(blank) if value == 0] == [2]
