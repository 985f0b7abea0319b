"""The controls of doubt: trained on the run's own text, each against what it is known to be.

Shape legend: B rows, T positions, D width, L labels.
"""

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, final

import pytest
import torch
from torch import Tensor, nn

import regard
from regard.errors import UserError
from regard.inside.controls import Adversary, Control, mean_kl
from regard.inside.label_controls import LabelControls
from regard.inside.text_controls import TextControls, TextReader, WordsAlone, training_text
from regard.models.classifier import Labeller
from regard.parts.look import Look, Place, Site, declare
from regard.runs.run import Run

LINES = "".join(f"the cat{n % 7} saw dog{n % 11} and bird{n % 5} sang\n" for n in range(400))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("controls")
    (folder / "text.txt").write_text(LINES)
    regard.train(
        "transformer",
        text=str(folder / "text.txt"),
        out=str(folder / "run"),
        tokens="word",
        layers=1,
        width=8,
        heads=2,
        context=13,
        batch=4,
        steps=3,
        evaluate_every=3,
        dropout=0.0,
    )
    return folder


def test_all_controls_are_trained_and_measured(folder):
    results = TextControls(regard.load(folder / "run")).train(minutes=0.0015)
    by_name = {one.name: one for one in results}
    assert len(results) == 8
    itself, uniform = results[0], by_name["uniform weights"]
    assert (itself.divergence, itself.variation) == (pytest.approx(0, abs=1e-6), pytest.approx(0, abs=1e-6))
    assert uniform.divergence is not None
    assert all(one.loss > 0 and one.steps > 0 for one in results)
    assert by_name["words alone, mixed by uniform weights"].divergence is None
    json.dumps([one.to_json() for one in results], allow_nan=False)


def test_the_adversarys_loss_is_its_formula(folder):
    run = regard.load(folder / "run")
    torch.manual_seed(1)
    other = type(run.model)(run.model.vocabulary_size, run.model.config).eval()
    tokens = torch.tensor([[run.model.start, 3, 1, 4]])
    targets = torch.tensor([[3, 1, 4, -1]])
    loss, state = Adversary(TextReader(), other, run.model, 0.3)(tokens, targets_BT=targets)
    own, own_maps = TextReader().with_maps(other, tokens)
    base, base_maps = TextReader().with_maps(run.model, tokens)
    variation = (own.exp() - base.exp()).abs().sum(2)[0, :3].mean() / 2
    first, second = own_maps["layer0.attention"][0], base_maps["layer0.attention"][0]
    kl = torch.stack(
        [
            (a * (a / b).log()).nan_to_num().sum()
            for a, b in zip(first.flatten(0, 1), second.flatten(0, 1), strict=True)
        ]
    )
    assert loss.item() == pytest.approx(float(3 * (variation - 0.3 * kl.mean()).detach()), rel=1e-4)
    assert state is None
    assert float(mean_kl(second[None], second[None]).detach()) == 0


def test_words_alone_see_others_through_the_given_weights_only(folder):
    model = regard.load(folder / "run").model.eval()
    inner = WordsAlone(model, 6, 2, uniform=True)
    tokens = torch.tensor([[model.start, 3, 1, 4], [model.start, 3, 2, 4]])
    with torch.no_grad():
        inner.value.weight.zero_()
        alone = inner(tokens)
    assert torch.equal(alone[0, 3], alone[1, 3])  # the same word, another context, no way in
    assert not torch.equal(alone[0, 2], alone[1, 2])


def test_a_training_text_that_is_gone_is_told(folder, regard_cli):
    run = regard.load(folder / "run")
    assert LINES.startswith("".join(training_text(run)))
    (folder / "text.txt").write_text(LINES.replace("cat", "cow"))
    try:
        shown = regard_cli("doubt", folder / "run", "--text", "the dog1 saw", "--controls")
        assert (shown.returncode, shown.stdout) == (2, "")
        assert "controls need the run's own training text" in shown.stderr
    finally:
        (folder / "text.txt").write_text(LINES)


# classifiers


@final
class Pointer(Labeller):
    """The weight of a word depends on the word before it alone, and its value on the word itself alone."""

    family = "pointer"

    @dataclass(frozen=True, kw_only=True)
    class Config:
        width: int = 5

    training_defaults: ClassVar[dict] = {}

    def __init__(self, vocabulary_size: int, config: Config, label_count: int = 2):
        super().__init__(vocabulary_size, config)
        self.embedding = nn.Embedding(vocabulary_size + 2, config.width)
        self.strength = nn.Embedding(vocabulary_size + 2, 1)
        self.readout = nn.Linear(config.width, label_count)

    @property
    def label_count(self) -> int:
        return self.readout.out_features

    def sites(self) -> dict[str, Site]:
        return declare(Site("pooling", "BHTS", "weights", rows="whole"))

    def read(self, tokens_BT: Tensor, real_BT: Tensor, look: Look | None) -> Tensor:
        before_BT = torch.cat([torch.full_like(tokens_BT[:, :1], self.start), tokens_BT[:, :-1]], 1)
        scores_BT = self.strength(before_BT).squeeze(2).masked_fill(~real_BT, -torch.inf)
        weights_B11T = scores_BT.softmax(1)[:, None, None]
        if look is not None:
            column_BT = torch.where(real_BT, torch.arange(real_BT.shape[1]), -1)
            place = Place(torch.zeros_like(column_BT[:, :1]), column_BT, real_BT[:, None], "weights")
            weights_B11T = look.at_weights("pooling", weights_B11T, place)
        return self.readout((weights_B11T[:, 0] @ self.embedding(tokens_BT))[:, 0]).log_softmax(1)

    def loss(self, tokens_BT: Tensor, labels_B: Tensor) -> Tensor:  # type: ignore[override]
        return -self(tokens_BT).gather(1, labels_B[:, None]).sum()


def pointer_run(folder: Path, texts: list[tuple[str, str]], after: str | None) -> Run:
    """A run that tells a from b at the words after `after` (None: uniform weights), and nowhere else."""
    for name, part in (("train", texts * 3), ("valid", texts)):
        (folder / f"{name}.tsv").write_text("".join(f"{label}\t{text}\n" for label, text in part))
    files = {"labelled": str(folder / "train.tsv"), "valid": str(folder / "valid.tsv")}
    options = {"learning_rate": 0.03, "patience": 0, "batch": 16, "width": 4, "steps": 1, "word_dropout": 0.0}
    made = regard.train("classifier", **files, **options, out=str(folder / "run")).run
    model = Pointer(made.tokenizer.size, Pointer.Config())
    ids = {word: made.tokenizer.prompt(word)[0] for word in " ".join(text for _, text in texts).split()}
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        if after is not None:
            model.strength.weight[ids[after]] = 30.0
        model.embedding.weight[ids["a"]], model.embedding.weight[ids["b"]] = 1.0, -1.0
        model.readout.weight[:, 0] = torch.tensor([6.0, -6.0])
    return replace(made, model=model)


def controlled(run: Run) -> dict[str, Control]:
    return {one.name: one for one in LabelControls(run).train(steps=150)}


def test_attention_that_is_needed_is_found_to_be_needed(tmp_path):
    """Both labels have texts with the same words, and only their order tells the label.

    A model that mixes single words by uniform weights gives both texts of a pair the same distribution
    (p, 1 - p). So its mean loss is at least ln 2, whatever it learns, and one text of the pair is right.
    """
    texts = [
        (label, f"{filler} {order}")
        for filler in ("we went", "they sent it", "you came")
        for label, orders in (("x", ("to a from b", "from b to a")), ("y", ("to b from a", "from a to b")))
        for order in orders
    ]
    found = controlled(pointer_run(tmp_path, texts, "to"))
    assert found["the run itself"].right == 1.0
    assert found["the run itself"].divergence == pytest.approx(0, abs=1e-6)
    for name in ("uniform weights", "words alone, mixed by uniform weights"):
        assert found[name].loss >= math.log(2) - 1e-5
        assert found[name].right == 0.5
    assert found["words alone, mixed by the run's frozen weights"].loss < 0.1
    assert found["words alone, mixed by the run's frozen weights"].divergence is None


def test_attention_that_is_unused_can_be_anywhere(tmp_path):
    """All words of a text are equal, so no weights change the prediction, and uniform weights lose nothing.

    The farthest weights from uniform ones over 7 words lie on one word: the divergence is then
    H(4/7, 1/14, ..., 1/14) - ln 7 / 2 = 0.4779 nats, and less over fewer words.
    """
    texts = [(label, " ".join([word] * n)) for n in (5, 6, 7) for label, word in (("x", "a"), ("y", "b"))]
    found = controlled(pointer_run(tmp_path, texts, None))
    assert found["uniform weights"].right == 1.0
    assert found["adversary, lambda 0.1"].variation < 0.01
    assert 0.3 < found["adversary, lambda 0.1"].divergence < 0.4780


@pytest.fixture(scope="module")
def reviews(tmp_path_factory) -> Path:
    """A file of labelled texts, which every test leaves as it was."""
    path = tmp_path_factory.mktemp("reviews") / "labelled.tsv"
    words = {"up": ("fine", "lovely"), "down": ("dull", "poor")}
    path.write_text(
        "".join(
            f"{label}\tthing {n % 7} was {word}{' again' * (n % 3)}\n"
            for n in range(11)
            for label, chosen in words.items()
            for word in chosen
        )
    )
    return path


@pytest.mark.parametrize(
    "options",
    [
        {"encoder": "transformer", "heads": 2, "pool": "attention"},
        {"encoder": "transformer", "heads": 2, "pool": "max", "valid": True},
        {"encoder": "bilstm", "pool": "attention", "hold": 0.0},
    ],
)
def test_classifiers_of_every_kind_are_controlled(reviews, tmp_path, options):
    valid = {"valid": str(reviews)} if options.get("valid") else {}
    given = {**options, **valid, "labelled": str(reviews), "out": str(tmp_path / "run")}
    run = regard.train("classifier", **given, width=8, steps=2).run
    results = LabelControls(run).train(steps=2)
    assert len(results) == 8
    assert results[0].name == ("the run itself" if "hold" not in options else results[0].name)
    assert results[0].variation == pytest.approx(0, abs=1e-6)
    assert results[0].divergence == pytest.approx(0, abs=1e-6)
    assert all(math.isfinite(one.loss) and 0 <= one.right <= 1 for one in results)
    json.dumps([one.to_json() for one in results], allow_nan=False)


def test_what_has_no_controls_is_told_in_one_line(reviews, tmp_path, regard_cli):
    mean, attention = tmp_path / "mean", tmp_path / "attention"
    regard.train("classifier", labelled=str(reviews), pool="mean", width=4, steps=1, out=str(mean))
    with pytest.raises(UserError, match=r"weights of this model \(pooling\) are not learned"):
        LabelControls(regard.load(mean))
    gone = tmp_path / "gone.tsv"
    gone.write_text(reviews.read_text())
    regard.train("classifier", labelled=str(gone), width=4, steps=1, out=str(attention))
    shown = regard_cli(
        "doubt", attention, "--text", "thing 1 was fine", "--controls", "--minutes", "0.001", "--json"
    )
    assert shown.returncode == 0
    assert len(json.loads(shown.stdout)["controls"]) == 8
    for write in (lambda: gone.write_text(reviews.read_text() + "up\tmore\n"), gone.unlink):
        write()
        shown = regard_cli("doubt", attention, "--text", "thing 1 was fine", "--controls")
        assert (shown.returncode, shown.stdout, shown.stderr.count("\n")) == (2, "", 1)
        assert "controls need the run's own labelled texts" in shown.stderr
