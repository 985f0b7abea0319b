"""Tracing: the lens ends with the prediction, contributions sum to a score, a sweep finds a change."""

import json
import re
from pathlib import Path

import pytest
import torch

import regard
from regard.errors import UserError
from regard.inside.by_words import by_words
from regard.inside.observe import Wanted, observe, plain_reading
from regard.inside.record import Record
from regard.inside.residual_stream import contributions, lens, sweep
from regard.models.contract import LanguageModel, Prediction
from regard.models.dan import Dan
from regard.models.transformer import Transformer
from regard.tokens.choose import TokenOptions, train_tokenizer
from regard.tokens.contract import Tokenizer
from regard.tokens.word_groups import word_groups, word_starts

TEXT = "the cat saw the dog and the dog saw the cat\n" * 5
WORD, _ = train_tokenizer([TEXT], TokenOptions(tokens="word"))


@pytest.fixture
def model(double) -> Transformer:
    torch.manual_seed(3)
    made = Transformer(WORD.size, Transformer.Config(layers=3, width=12, heads=2, context=31)).eval()
    for parameter in made.parameters():  # large enough to matter, norms and biases included
        torch.nn.init.normal_(parameter, std=0.3)
    return made


def predict(model: LanguageModel, text: str) -> Prediction:
    return model.read_from_start(torch.tensor([[WORD.start, *WORD.prompt(text)]]))[0]


def log_probs(model: LanguageModel, text: str) -> torch.Tensor:
    with torch.no_grad():
        return predict(model, text).log_probs()[0]


def record(model: LanguageModel, tokenizer: Tokenizer, text: str, **wanted) -> Record:
    return observe(model, tokenizer, plain_reading(tokenizer, text), Wanted(**wanted))


def test_the_lens_ends_with_what_the_model_says(model: Transformer):
    traced = lens(model, WORD, "the dog saw")
    assert traced.row_names == ["embedding", "layer0.residual", "layer1.residual", "layer2.residual"]
    assert traced.column_names == ["<s>", "the", "dog", "saw"]
    best = log_probs(model, "the dog saw").max(1)
    torch.testing.assert_close(traced.values[3], best.values.exp())
    assert traced.words[3] == [WORD.name(token) for token in best.indices.tolist()]
    # the first is the readout of the embedding itself
    with torch.no_grad():
        x_TD = model.trunk.final_norm(
            model.embedding(torch.tensor([WORD.start, *WORD.prompt("the dog saw")]))
        )
        expected = (
            (x_TD @ model.embedding.weight[: WORD.size].T + model.readout.bias).softmax(1).max(1).values
        )
    torch.testing.assert_close(traced.values[0], expected)


def test_contributions_sum_to_the_score(model: Transformer):
    traced = contributions(model, WORD, "the dog saw the", "cat", position=2)
    assert traced.row_names[:4] == ["embedding", "layer0 head 0", "layer0 head 1", "layer0 attention bias"]
    assert len(traced.row_names) == 1 + 3 * (2 + 1 + 1) + 2
    (token,) = WORD.prompt("cat")
    with torch.no_grad():
        features_D = predict(model, "the dog saw the").features_BTD[0, 2]
        score = features_D @ model.embedding.weight[token] + model.readout.bias[token]
    assert float(traced.values.sum()) == pytest.approx(float(score), abs=1e-10)
    assert float(traced.values.abs().min()) > 1e-6  # no part is forgotten
    # a token that the lens names can be traced
    assert contributions(model, WORD, "the dog", "</s>").column_names == ["</s>"]


@pytest.mark.parametrize(
    "model",
    [Transformer(WORD.size, Transformer.Config(norm="post")), Dan(WORD.size, Dan.Config())],
    ids=["post-norm", "dan"],
)
def test_a_model_without_a_pre_norm_stream_has_the_parts_of_its_readout(model: LanguageModel):
    torch.nn.init.normal_(model.readout.bias)
    traced = contributions(model.eval(), WORD, "the dog saw the", "cat", position=2)
    assert (traced.about, traced.row_names) == ("the score of “cat”, by part", ["features", "bias"])
    (token,) = WORD.prompt("cat")
    with torch.no_grad():
        features_D = predict(model, "the dog saw the").features_BTD[0, 2]
        expected = torch.stack([features_D @ model.embedding.weight[token], model.readout.bias[token]])
    torch.testing.assert_close(traced.values[:, 0].float(), expected)


def test_a_sweep_of_the_last_state_is_the_other_texts_prediction(model: Transformer):
    text, other = "the dog saw the", "and cat saw the"
    traced = sweep(model, WORD, text, other, "cat")
    (token,) = WORD.prompt("cat")
    gained = log_probs(model, other)[-1, token] - log_probs(model, text)[-1, token]
    assert float(traced.values[3, 4]) == pytest.approx(
        float(gained), abs=1e-10
    )  # the last state decides alone
    assert traced.values[3, :4].tolist() == pytest.approx(
        [0] * 4, abs=1e-10
    )  # and the others are read by nobody
    assert traced.values[0, [0, 3, 4]].tolist() == pytest.approx(
        [0] * 3, abs=1e-10
    )  # the same words stand there
    assert float(traced.values[0, 1].abs()) > 1e-6


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda model: contributions(model, WORD, "the", "zebra"),
            "'zebra' is not one token of this vocabulary",
        ),
        (lambda model: contributions(model, WORD, "the", "the dog"), "is not one token"),
        (
            lambda model: contributions(model, WORD, "the", "dog", position=2),
            "no position 2: they go from 0 to 1",
        ),
        (lambda model: sweep(model, WORD, "the", "the dog", "dog"), "the texts have 2 and 3 tokens"),
        (lambda model: lens(model, WORD, ""), "nothing to trace"),
        (lambda model: lens(model, WORD, "the dog " * 20), "41 tokens and the model sees 31"),
        (lambda model: lens(Dan(WORD.size, Dan.Config()), WORD, "the"), "dan has no stack of layers"),
        (
            lambda model: sweep(Dan(WORD.size, Dan.Config()), WORD, "the", "dog", "dog"),
            "dan has no stack of layers",
        ),
    ],
)
def test_what_cannot_be_traced_is_told(model: Transformer, call, words: str):
    with pytest.raises(UserError, match=re.escape(words)):
        call(model)


def test_words_begin_behind_white_space():
    assert word_starts(["<s>", "th", "e", " do", "g", "\n", "is", "</s>"]) == [0, 1, 3, 5, 6, 7]
    assert word_starts(["a", " ", "c", "at ", "saw"]) == [0, 1, 4]


def test_subwords_put_together_keep_their_mass():
    tokenizer, _ = train_tokenizer([TEXT], TokenOptions(tokens="bpe", bpe_size=261))
    torch.manual_seed(3)
    model = Transformer(tokenizer.size, Transformer.Config(layers=1, width=12, heads=3, context=41)).eval()
    parts = record(model, tokenizer, "the cat saw\nthe dog")
    words = by_words(parts)
    assert words.tokens == ["<s>", "the", "cat", "saw", "\n", "the", "dog"]
    assert "".join(parts.tokens) == "<s>the cat saw\nthe dog"
    before, after = (looked.map("layer0.attention").numbers for looked in (parts, words))
    torch.testing.assert_close(after.sum(2), torch.ones(3, 7))
    groups = word_groups(parts.tokens)
    expected = before[1, list(groups[2])][:, list(groups[1])].sum(1).mean()  # how "cat" looks at "the"
    torch.testing.assert_close(after[1, 2, 1], expected)
    assert sum(words.surprisal[1:]) == pytest.approx(sum(parts.surprisal[1:]))
    with pytest.raises(UserError, match="look at all rows"):
        by_words(record(model, tokenizer, "the cat", rows=[1]))


def test_words_of_halves_of_characters_are_joined_from_bytes():
    tokenizer, _ = train_tokenizer(["x"], TokenOptions(tokens="byte"))
    torch.manual_seed(3)
    model = Transformer(tokenizer.size, Transformer.Config(layers=1, width=12, heads=3, context=41)).eval()
    parts = record(model, tokenizer, "مرحبا عالم")
    words = by_words(parts)
    assert words.tokens == ["<s>", "مرحبا", "عالم"]
    looked = words.map("layer0.attention")
    assert looked.row_names == looked.column_names == ("<s>", "مرحبا", "عالم")


def test_the_verb(tmp_path: Path, regard_cli):
    (tmp_path / "text.txt").write_text(TEXT * 9)
    sizes = {"layers": 2, "width": 12, "heads": 2, "context": 31, "batch": 2}
    options = {**sizes, "steps": 3, "evaluate_every": 3}
    regard.train(
        "transformer", text=str(tmp_path / "text.txt"), out=str(tmp_path / "run"), tokens="word", **options
    )
    shown = regard_cli("trace", "run", "--text", "the dog")
    assert shown.stdout.count("layer1.residual") == 3
    parts = json.loads(
        regard_cli(
            "trace", "run", "--text", "the dog", "--word", "saw", "--out", "parts.svg", "--json"
        ).stdout
    )
    assert parts["rows"][0] == "embedding"
    assert (tmp_path / "parts.svg").stat().st_size > 1000
    printed = regard_cli("trace", "run", "--text", "the dog", "--word", "saw").stdout
    total = re.search(r"^the sum +([+-]\d+\.\d{4})   the score of “saw”, by part$", printed, re.MULTILINE)[1]
    assert float(total) == pytest.approx(sum(value for (value,) in parts["values"]), abs=1e-4)
    swept = regard_cli(
        "trace", "run", "--text", "the dog", "--other", "the cat", "--word", "saw", "--out", "s.png", "--json"
    )
    assert len(json.loads(swept.stdout)["values"]) == 3
    for arguments, words in (
        (["--other", "the cat"], "--other goes with --word"),
        (["--out", "x.html"], "writes .svg or .png"),
    ):
        refused = regard_cli("trace", "run", "--text", "the dog", *arguments)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert words in refused.stderr
    assert "reads words already" in regard_cli("look", "run", "--text", "the dog", "--words").stderr
    regard.train(
        "transformer",
        text=str(tmp_path / "text.txt"),
        out=str(tmp_path / "letters"),
        tokens="char",
        **options,
    )
    by_word = json.loads(regard_cli("look", "letters", "--text", "the dog", "--words", "--json").stdout)
    assert by_word["tokens"] == ["<s>", "the", "dog"]
