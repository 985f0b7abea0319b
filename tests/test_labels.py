"""Labelled texts: files, splits, classifiers and their figures."""

import gzip
import json
import math
import re
from pathlib import Path

import pytest
import torch
from torch import nn

import regard
from regard import cli
from regard.errors import MachineError, Notice
from regard.inside.edit_model import edited
from regard.models.classifier import Classifier
from regard.parts.bidirectional import Bidirectional
from regard.parts.edits import Scale, Set
from regard.parts.look import Look
from regard.parts.pooling import Words, make_pooling
from regard.parts.recurrence import Packed
from regard.probabilities.labels import calibration_error, measure_labels
from regard.runs.labelled import own_labelled
from regard.text.labelled import Labelled, hold_out, read_labelled
from regard.tokens.contract import Encoded
from regard.tokens.rows import EncodedRows, encode_rows
from regard.training import loop

TINY = ("--steps", "24", "--evaluate-every", "6", "--batch", "8", "--width", "12", "--patience", "0")
GOOD, BAD = ("fine", "lovely", "great"), ("dull", "awful", "poor")


def lines(count: int = 60) -> list[tuple[str, str]]:
    """Label and text: the label is that of the only judging word."""
    rows = []
    for number in range(count):
        label = ("up", "down")[number % 2]
        word = (GOOD, BAD)[number % 2][number // 2 % 3]
        rows.append((label, f"thing {number % 7} of {number} was {word} there"))
    return rows


@pytest.fixture
def labelled(tmp_path) -> Path:
    path = tmp_path / "labelled.tsv"
    path.write_text("".join(f"{label}\t{text}\n" for label, text in lines()))
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A small classifier that has learned the words of `lines`."""
    folder = tmp_path_factory.mktemp("labels")
    (folder / "labelled.tsv").write_text("".join(f"{label}\t{text}\n" for label, text in lines()))
    options = {"steps": 60, "evaluate_every": 20, "batch": 16, "width": 16, "learning_rate": 0.02}
    regard.train("classifier", labelled=str(folder / "labelled.tsv"), out=str(folder / "run"), **options)
    return folder / "run"


def refusal(capsys, *arguments: object) -> str:
    """The one line of a command that ends with exit code 2 and writes nothing to standard output."""
    assert cli.main([str(argument) for argument in arguments]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    (line,) = told.err.strip().splitlines()
    return line


# files


def test_every_form_of_file_gives_the_same_texts(tmp_path):
    rows = lines(7)
    plain, table, objects, zipped = (tmp_path / name for name in ("a.tsv", "b.tsv", "c.jsonl", "d.jsonl.gz"))
    plain.write_text("".join(f"{label}\t{text}\r\n" for label, text in rows))
    table.write_text("id\ttext\tlabel\n" + "".join(f"7\t{text}\t{label}\n" for label, text in rows) + "\n")
    objects.write_text("".join(json.dumps({"text": text, "label": label}) + "\n" for label, text in rows))
    zipped.write_bytes(
        gzip.compress("\n".join(json.dumps({"y": label, "x": text}) for label, text in rows).encode())
    )
    expected = read_labelled([str(plain)])
    assert list(zip(expected.labels, expected.texts, strict=True)) == rows
    for path, columns in ((table, ("label", "text")), (objects, ()), (zipped, ("y", "x"))):
        read = read_labelled([str(path)], columns)
        assert (read.labels, read.texts) == (expected.labels, expected.texts)
        assert read.record()["sha256"] == expected.record()["sha256"]
    assert len(read_labelled([str(plain), str(plain)])) == 2 * len(rows)


def test_labels_that_are_numbers_are_sorted_as_numbers(tmp_path):
    (tmp_path / "a.jsonl").write_text(
        "".join(json.dumps({"label": label, "text": "a"}) + "\n" for label in (10, 9, True, "9"))
    )
    assert read_labelled([str(tmp_path / "a.jsonl")]).names() == ["9", "10", "true"]


@pytest.mark.parametrize(
    ("name", "content", "more", "words"),
    [
        ("a.tsv", "up\ta\nno tab here\n", (), "line 2 has no tabulator; write: label TAB text"),
        ("a.tsv", "up\ta\n\ndown\tb\n", (), "line 2 has no tabulator"),
        ("a.tsv", "up\ta\ndown\t \n", (), "line 2 has an empty text"),
        ("a.tsv", "up\ta\n\tb\n", (), "line 2 has an empty label"),
        ("a.tsv", "up\ta\nup\tb\n", (), "every text has the label 'up'; a classifier needs two labels"),
        ("a.tsv", "up\ta\ndown\tb\n", (), "too few texts to hold some out"),
        ("a.tsv", "", (), "the file is empty"),
        (
            "a.tsv",
            "y\tx\nup\ta\n",
            ("--columns", "label,x"),
            "names no column 'label'; there are: y, x",
        ),
        ("a.tsv", "y\ty\tx\n", ("--columns", "y,x"), "line 1 names two columns 'y'"),
        ("a.tsv", "y\tx\nup\ta\tb\n", ("--columns", "y,x"), "line 2 has 3 columns, and line 1 names 2"),
        ("a.tsv", "y\tx\n", ("--columns", "y"), "--columns names two columns"),
        ("a.tsv", "y\tx\n", ("--columns", "y,y"), "--columns names 'y' twice"),
        ("a.tsv", "y\tx\n", ("--columns", "y,x"), "there is no text"),
        ("a.jsonl", '{"label": "up", "text": "a"}\n{"label"\n', (), "line 2 is not JSON"),
        ("a.jsonl", "[1]\n", (), "line 1 is no JSON object"),
        (
            "a.jsonl",
            '{"label": "up", "words": "a"}\n',
            (),
            "has no field 'text'; there are: label, words",
        ),
        ("a.jsonl", '{"label": 1, "text": ["a"]}\n', (), "the field 'text' is neither a text nor a number"),
        ("a.jsonl", '{"label": 1, "label": 2, "text": "a"}\n', (), "line 1 has two fields 'label'"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(
    tmp_path, capsys, monkeypatch, name, content, more, words
):
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(content)
    assert words in refusal(capsys, "train", "classifier", "--labelled", name, *more, "--out", "run")
    assert not Path("run").exists()


def test_a_label_that_only_other_files_have_is_refused(tmp_path, capsys, labelled, run):
    other = tmp_path / "other.tsv"
    other.write_text("up\ta fine thing\nsideways\tanother thing\n")
    words = "text 2 of .* has the label 'sideways', which no training text has; there are: down, up"
    for part in ("--valid", "--test"):
        line = refusal(
            capsys, "train", "classifier", "--labelled", labelled, part, other, "--out", tmp_path / "r"
        )
        assert re.search(words, line)
    assert re.search(words, refusal(capsys, "evaluate", run, "--labelled", other))


# the split


def test_every_label_is_held_out_in_its_share_and_equal_texts_stay_together():
    labels = ["a"] * 200 + ["b"] * 50 + ["c"] * 6 + ["d"]
    texts = [f"text {number // 2 if number < 200 else number}" for number in range(257)]
    whole = Labelled((), labels, texts)
    train, valid = hold_out(whole, 0.1)
    assert len(train) + len(valid) == 257
    assert not set(train.texts) & set(valid.texts)
    counts = {label: valid.labels.count(label) for label in "abcd"}
    # 100 distinct texts twice: 10 of them; 50: 5; 6: 2, the fewest; 1: none
    assert counts == {"a": 20, "b": 5, "c": 2, "d": 0}
    assert hold_out(whole, 0.1)[1].texts == valid.texts


def test_labels_too_rare_to_be_measured_are_named(tmp_path, capsys):
    """20 texts with 3 labels and 40 with two rare ones: both train, and the figures say what they cover."""
    tiny, rare = tmp_path / "tiny.tsv", tmp_path / "rare.tsv"
    tiny.write_text(
        "".join(f"{'abc'[n % 3]}\tthe {('fine', 'dull', 'odd')[n % 3]} one {n}\n" for n in range(20))
    )
    rare.write_text(
        "".join(f"often\tgood {n}\n" for n in range(37)) + "rare\tbad\nrarer\tawful\nrarer\tpoor\n"
    )
    options = {"width": 8, "steps": 3, "evaluate_every": 1}
    small = regard.train("classifier", labelled=str(tiny), out=str(tmp_path / "small"), **options)
    assert small.run.config.notes == (
        "10% of the texts of each label, 6 in all, are held out for validation; `hold` 0 holds nothing out",
    )
    assert set(small.figures) == {"accuracy", "macro_f1"}
    run = regard.train("classifier", labelled=str(rare), out=str(tmp_path / "run"), **options).run
    assert run.config.notes[1] == (
        "rare, rarer have too few texts to hold any out: no figure says how well such texts are labelled"
    )
    tiny.write_text("".join(tiny.read_text().splitlines(keepends=True)[:9]))
    words = (
        "too few texts to hold some out for validation and others for the measure: give 4 or more of a label"
    )
    assert words in refusal(capsys, "compare", "--labelled", tiny, "--out", tmp_path / "comparison")
    assert not (tmp_path / "comparison").exists()


# parts


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_two_directions_equal_the_library(double, cell):
    """Two layers of our Bidirectional and of PyTorch's kernel with the same weights, on rows with padding."""
    width, layers, rows, length = 10, 2, 3, 7
    torch.manual_seed(3)
    ours = Bidirectional(cell, layers, width, 0.0)
    library = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}[cell](
        width, width // 2, layers, batch_first=True, bidirectional=True
    )
    for layer in range(layers):
        for ways, suffix in ((ours.ahead, ""), (ours.back, "_reverse")):
            kernel = ways[layer].kernels[0]
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                getattr(kernel, f"{name}_l0").data.copy_(getattr(library, f"{name}_l{layer}{suffix}").data)
    x_BTD, length_B = torch.randn(rows, length, width), torch.tensor([7, 4, 1])
    packed = nn.utils.rnn.pack_padded_sequence(x_BTD, length_B, batch_first=True, enforce_sorted=False)
    expected, _ = nn.utils.rnn.pad_packed_sequence(library(packed)[0], batch_first=True)
    out_BTD = ours(x_BTD, Packed(torch.zeros(rows, length), length_B, None), None)
    for row, real in enumerate(length_B):
        torch.testing.assert_close(out_BTD[row, :real], expected[row, :real], rtol=1e-12, atol=1e-12)


def test_a_watched_direction_is_in_the_order_of_the_text(double):
    """The last backward state is that of the last word alone, and edits count positions from the left."""
    torch.manual_seed(3)
    model = Classifier(11, Classifier.Config(encoder="bilstm", width=6, dropout=0.0), 3).eval()
    look, alone = Look(["backward.*"]), Look(["backward.*"])
    model(torch.tensor([[3, 1, 4, 11 + 1]]), look)
    model(torch.tensor([[4]]), alone)
    for name in ("backward.layer0.hidden", "backward.layer0.cell"):
        torch.testing.assert_close(look.values[name][:, 2], alone.values[name][:, 0])
    edit = Set(site="backward.layer0.hidden", rows=(0,), value=0.5)
    changed = Look(["backward.layer0.hidden"])
    model.with_changes({edit.site: edit})(torch.tensor([[3, 1, 4]]), changed)
    after = changed.values["backward.layer0.hidden"]
    assert torch.equal(after[:, 0], torch.full((1, 3), 0.5))
    torch.testing.assert_close(after[:, 1:], look.values["backward.layer0.hidden"][:, 1:3])


def test_poolings_are_their_definitions(double):
    torch.manual_seed(5)
    states_BTD = torch.randn(2, 5, 6)
    real_BT = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    words = Words(states_BTD, real_BT)
    short = states_BTD[1, :3]
    expected = {
        "mean": short.mean(0),
        "max": short.amax(0),
        "last": torch.cat([short[2, :3], short[0, 3:]]),
    }
    for name, value in expected.items():
        pooling = make_pooling(name, 6, "dot", directions=2)  # type: ignore[arg-type]
        torch.testing.assert_close(pooling(words)[1], value)
    attention = make_pooling("attention", 6, "dot", directions=1)
    weights_T = (short @ attention.query).softmax(0)
    torch.testing.assert_close(attention(words)[1], weights_T @ short)


@pytest.mark.parametrize("name", ["last", "mean", "max", "attention"])
def test_a_changed_weight_changes_the_sum(double, name):
    """All weight on one word: the pooled state is this word's value."""
    torch.manual_seed(5)
    states_BTD = torch.randn(1, 5, 6)
    words = Words(states_BTD, torch.ones(1, 5, dtype=torch.bool))
    pooling = make_pooling(name, 6, "additive", directions=1)  # type: ignore[arg-type]
    watch = Look(["pooling"])
    watch.begin(torch.zeros(1, 5))
    pooled = pooling(words, watch)
    (weights_BH1T,) = (watch.maps["pooling"](),)
    torch.testing.assert_close(weights_BH1T.sum(3), torch.ones(1, 1, 1))
    if name in ("mean", "last", "attention"):
        torch.testing.assert_close((weights_BH1T[:, 0] @ states_BTD)[:, 0], pooled)
    look = Look(changes={"pooling": Set(site="pooling", columns=(4,), value=1.0)})
    look.begin(torch.zeros(1, 5))
    changed = pooling(words, look)
    if name == "max":
        chosen_TD = torch.nn.functional.one_hot(states_BTD[0].argmax(0), 5).T
        expected = states_BTD[0, 4] * chosen_TD[4] * 6 / max(1, int(chosen_TD[4].sum()))
        torch.testing.assert_close(changed[0], expected)
    else:
        torch.testing.assert_close(changed[0], states_BTD[0, 4])


# figures


def test_figures_are_their_definitions():
    """Chosen: 0 0 1 1 2, true: 0 1 1 1 0, of four labels; the last is neither true nor chosen."""
    probs = torch.full((5, 4), 0.1)
    probs[torch.arange(5), torch.tensor([0, 0, 1, 1, 2])] = 0.7
    log_probs = probs.log()

    class Told(Classifier):  # type: ignore[misc]
        def forward(self, tokens_BT, look=None):
            return log_probs[tokens_BT[:, 0]]

    model = Told(5, Classifier.Config(encoder="dan", width=3, pool="mean"), 4)
    text = Encoded(torch.tensor([0, 9, 1, 9, 2, 9, 3, 9, 4, 9]), torch.arange(2, 11, 2), bytes=10, unknown=0)
    rows = EncodedRows(text, torch.ones(5, dtype=torch.long), 0)
    measure = measure_labels(model, rows, torch.tensor([0, 1, 1, 1, 0]), ["a", "b", "c", "d"])
    assert measure.accuracy == 3 / 5
    assert measure.confusion == ((1, 0, 1, 0), (1, 2, 0, 0), (0, 0, 0, 0), (0, 0, 0, 0))
    by_label = {one.label: one for one in measure.labels}
    assert (by_label["a"].precision, by_label["a"].recall, by_label["a"].f1) == (1 / 2, 1 / 2, 1 / 2)
    assert (by_label["b"].precision, by_label["b"].recall, by_label["b"].f1) == (1.0, 2 / 3, 4 / 5)
    assert (by_label["c"].precision, by_label["c"].recall, by_label["c"].f1) == (0.0, None, 0.0)
    assert (by_label["d"].precision, by_label["d"].recall) == (None, None)
    assert measure.macro_f1 == pytest.approx((1 / 2 + 4 / 5 + 0) / 3)
    assert measure.most_frequent == 3 / 5
    assert measure.loss == pytest.approx(-(3 * math.log(0.7) + 2 * math.log(0.1)) / 5)
    # one bin holds all five: mean probability 0.7, accuracy 0.6
    assert measure.calibration_error == pytest.approx(0.1)


def test_calibration_error_counts_each_bin():
    probs = torch.tensor([[0.95, 0.05], [0.95, 0.05], [0.55, 0.45], [0.55, 0.45]])
    labels = torch.tensor([0, 1, 0, 0])
    # bin 9: 2 texts, |0.95 - 0.5|; bin 5: 2 texts, |0.55 - 1|
    assert calibration_error(probs.log(), labels) == pytest.approx((2 * 0.45 + 2 * 0.45) / 4)


# training and verbs


def test_it_learns_and_evaluates_what_it_held_out(run, capsys):
    assert cli.main(["evaluate", str(run), "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["accuracy"] == figures["macro_f1"] == 1.0
    assert figures["texts"] == 6  # a tenth of 30 texts of each label
    opened = regard.load(run)
    assert opened.config.figures == {"accuracy": 1.0, "macro_f1": 1.0}
    assert opened.config.loss == pytest.approx(figures["loss"])
    assert opened.config.labels == ("down", "up")
    assert len(own_labelled(opened)) == 6
    assert cli.main(["evaluate", str(run)]) == 0
    assert "1.0000 (95%: 0.6" in capsys.readouterr().out


def test_classify_reads_arguments_files_and_standard_input(run, tmp_path, capsys, regard_cli):
    texts = ["thing 1 was lovely", "thing 1 was awful there"]
    result = regard.classify(run, texts)
    assert [label.label for label in result] == ["up", "down"]
    assert sum(result[0].probabilities.values()) == pytest.approx(1)
    assert cli.main(["classify", str(run), *texts, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == result.to_json()
    assert [*told["labels"][0]] == ["label", "probabilities"]
    (tmp_path / "texts.txt").write_text(f"{texts[0]}\n\n{texts[1]}\nunheard of\n")
    assert cli.main(["classify", str(run), "--file", str(tmp_path / "texts.txt")]) == 0
    out, err = capsys.readouterr()
    first, second, third, _ = out.splitlines()
    assert first == f"up\t{result[0].probability:.4f}"
    assert (second, third) == ("", f"down\t{result[1].probability:.4f}")
    assert "1 of 11 tokens were never seen in training" in err
    piped = regard_cli("classify", run, stdin=f"{texts[0]}\n\n{texts[1]}\nunheard of".encode())
    assert (piped.returncode, piped.stdout) == (0, out)


def test_edits_change_labels_and_look_shows_the_weights(run, capsys):
    text = "thing 1 was lovely there"
    plain = regard.classify(run, text)[0]
    without = regard.classify(run, text, edit=[Scale(site="embedding", words=("lovely",), by=0.0)])[0]
    assert without.probabilities["up"] < plain.probabilities["up"] - 0.1
    looked = regard.look(run, text, edit=[Set(site="pooling", columns=(3,), value=0.0)])
    assert dict(looked.record.labels)["up"] < plain.probabilities["up"]
    assert dict(looked.before.labels) == pytest.approx(plain.probabilities)
    weights = looked.before.maps["pooling"].numbers
    assert weights.shape == (1, 1, 5)
    assert float(weights.sum()) == pytest.approx(1)
    assert looked.before.maps["pooling"].column_names == tuple(text.split())
    assert cli.main(["look", str(run), "--text", text]) == 0
    out = capsys.readouterr().out
    assert "label: up 0." in out
    assert "   3 lovely " in out


def test_pages_and_pictures_of_a_classifier_are_written(run, tmp_path):
    for name in ("a.html", "a.svg", "a.tsv", "a.json"):
        regard.look(run, "thing 1 was lovely there", out=tmp_path / name)
        assert (tmp_path / name).stat().st_size > 100


def test_verbs_of_other_kinds_refuse_a_classifier_in_one_line(run, capsys, tmp_path, text):
    words = "this run (classifier) labels texts: use regard classify"
    for verb, *more in (
        ("generate",),
        ("score", "--text", text),
        ("translate", "a"),
        ("trace", "--text", "a thing"),
        ("heads", "--text", text),
        ("senses", "thing"),
        ("forget", "--text", text),
        ("align", "--source", text, "--target", text),
    ):
        line = refusal(capsys, verb, run, *more)
        assert words in line, (verb, line)
    assert "a classifier is measured on --labelled texts" in refusal(capsys, "evaluate", run, "--text", text)
    counted = tmp_path / "ngram"
    regard.train("ngram", order=2, text=str(text), out=str(counted))
    line = refusal(capsys, "classify", counted, "a")
    assert "this run (ngram) predicts text: use regard generate" in line
    assert "--labelled is for classifiers" in refusal(capsys, "evaluate", counted, "--labelled", text)


def test_a_stopped_classifier_goes_on_to_the_same_bits(tmp_path, labelled, monkeypatch):
    options = {"labelled": str(labelled), "steps": 12, "evaluate_every": 4, "batch": 8, "width": 6}
    regard.train("classifier", **options, out=str(tmp_path / "whole"))
    next_batch = loop.next_batch

    def until_step_9(batches, progress):
        if progress.step == 9:
            raise MachineError("stop")
        return next_batch(batches, progress)

    monkeypatch.setattr(loop, "next_batch", until_step_9)
    with pytest.raises(MachineError):
        regard.train("classifier", **options, out=str(tmp_path / "stopped"))
    monkeypatch.undo()
    regard.train("classifier", out=str(tmp_path / "stopped"), resume=True)
    for name in ("model.safetensors", "metrics.jsonl", "samples.txt"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "stopped" / name).read_bytes(), name


@pytest.mark.parametrize("tokens", ["word", "bpe", "char", "byte"])
def test_every_tokenizer_reads_texts_without_their_end(labelled, tmp_path, tokens):
    out = tmp_path / tokens
    run = regard.train(
        "classifier", labelled=str(labelled), tokens=tokens, encoder="dan", steps=2, width=4, out=str(out)
    ).run
    rows = encode_rows(run.tokenizer, ["thing 1", "there was 2"], None)
    for place, text in enumerate(("thing 1", "there was 2")):
        ids = rows.rows(torch.tensor([place]), 99)[0].tolist()
        assert ids == run.tokenizer.prompt(text)
    assert regard.classify(out, "thing 1 was")[0].label in ("up", "down")


def test_longer_texts_are_cut_and_counted(labelled, tmp_path, capsys):
    arguments = ["--labelled", labelled, *TINY, "--context", "3", "--out", tmp_path / "run"]
    assert cli.main(["train", "classifier", *map(str, arguments)]) == 0
    assert "54 texts have more than 3 tokens: only these are read; raise --context" in capsys.readouterr().err
    with pytest.warns(Notice, match="2 texts have more than 3 tokens"):
        first, second = regard.classify(tmp_path / "run", ["thing 1 was lovely", "thing 1 was awful"])
    assert first == second


def test_a_file_that_changed_is_not_evaluated_by_itself(labelled, tmp_path, capsys):
    regard.train("classifier", labelled=str(labelled), encoder="dan", steps=2, out=str(tmp_path / "run"))
    labelled.write_text(labelled.read_text().replace(" was ", " is "))
    assert "has changed since the run was trained" in refusal(capsys, "evaluate", tmp_path / "run")
    assert cli.main(["evaluate", str(tmp_path / "run"), "--labelled", str(labelled)]) == 0


def test_an_edited_classifier_is_still_a_classifier(run):
    opened = edited(run, [Scale(site="embedding", by=1.0)])
    assert regard.classify(opened, "thing 1 was lovely")[0].label == "up"


def test_words_begin_with_the_vectors_of_a_word2vec_file(labelled, tmp_path, capsys):
    path = tmp_path / "vectors.txt"
    path.write_text("3 4\nlovely 1 0 0 0\nawful -1 0 0 0\nunheard 0 1 0 0\n")
    options = {"labelled": str(labelled), "encoder": "dan", "pool": "mean", "width": 4, "steps": 1}
    options |= {"learning_rate": 1e-9, "weight_decay": 0.0}
    trained = regard.train("classifier", **options, vectors=str(path), out=str(tmp_path / "run"))
    assert "2 of 66 tokens" in trained.run.config.notes[-1]
    plain = regard.train("classifier", **options, out=str(tmp_path / "plain"))
    ids = [trained.run.tokenizer.prompt(word)[0] for word in ("lovely", "awful", "dull")]
    before, after = (one.run.model.encoder.embedding.weight for one in (plain, trained))
    length = float(
        before[ids[:2]].detach().norm(dim=1).mean()
    )  # the lengths stay, the directions are those of the file
    expected = torch.tensor([[length, 0, 0, 0], [-length, 0, 0, 0]])
    torch.testing.assert_close(after[ids[:2]].detach(), expected, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(after[ids[2]], before[ids[2]], atol=1e-6, rtol=1e-5)
    arguments = ["train", "classifier", "--labelled", labelled, "--vectors", path, "--out", tmp_path / "wide"]
    assert "its vectors have 4 features and the model has 128: give --width 4" in refusal(capsys, *arguments)
    path.write_text("1 4\nunheard 0 1 0 0\n")
    assert "has a vector of none of the words" in refusal(capsys, *arguments, "--width", "4")
    assert not (tmp_path / "wide").exists()
