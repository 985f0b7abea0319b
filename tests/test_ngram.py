"""n-grams: the lecture's counts by hand, Chen and Goodman's formulas, plainly written, and KenLM's reader."""

import math
from collections import Counter, defaultdict
from itertools import pairwise

import kenlm
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import regard
from regard.errors import UserError
from regard.models.contract import LanguageModel, Prediction
from regard.models.ngram import Ngram
from regard.models.ngram_smoothing import FALLBACK_DISCOUNTS
from regard.probabilities.measures import token_losses
from regard.runs.formats import arpa
from regard.runs.formats.arpa_reader import escape
from regard.tokens.choose import TokenOptions, train_tokenizer
from regard.tokens.words import WordTokenizer

LINES = "the cat sat on the mat\nthe dog sat on the log\na cat and a dog\n"
LINES += "the cat saw the dog on a mat\n\nthe the the\n"


def fitted(text: str, document="line", tokens="word", **options) -> tuple[Ngram, WordTokenizer]:
    tokenizer, encoded = train_tokenizer([text], TokenOptions(tokens=tokens, document=document))
    model = Ngram(tokenizer.size, Ngram.Config(**options))
    model.fit(encoded)
    return model, tokenizer


def probability(model: Ngram, tokenizer: WordTokenizer, sentence: str, start: bool = True) -> list[float]:
    """P of each word of a sentence and of its end."""
    ids = [*tokenizer.prompt(sentence), tokenizer.end]
    read = ([tokenizer.start] if start else []) + ids[:-1]
    targets_BT = torch.tensor([ids[-len(read) :]])
    return (-predict(model, read).nll(targets_BT)[0]).exp().tolist()


def predict(model: LanguageModel, ids: list[int]) -> Prediction:
    return model.read_from_start(torch.tensor([ids]))[0]


def test_count_and_normalise():
    model, tokenizer = fitted("a b\na c\na b\n", order=2, smoothing="maximum-likelihood")
    # <s> a: 3 of 3; a b: 2 of 3; b </s>: 2 of 2
    assert probability(model, tokenizer, "a b") == pytest.approx([1, 2 / 3, 1])
    assert probability(model, tokenizer, "a c") == pytest.approx([1, 1 / 3, 1])
    assert probability(model, tokenizer, "b a")[:2] == [0, 0]  # both seen, never so


def test_maximum_likelihood_takes_the_longest_seen_context():
    model, tokenizer = fitted("a b c\nd b e\n", order=3, smoothing="maximum-likelihood")
    # "d b" was seen, so only what followed it counts; "e b" was not, "b" was: c or e, one half each
    ids = [tokenizer.prompt(word)[0] for word in ("d", "b", "c", "e")]
    assert predict(model, ids[:2]).log_probs().exp()[0, -1, ids[2]] == 0
    after_unseen = predict(model, [ids[3], ids[1]]).log_probs().exp()[0, -1]
    assert after_unseen[[ids[2], ids[3]]].tolist() == pytest.approx([0.5, 0.5])


def test_add_k_is_the_textbook_formula():
    model, tokenizer = fitted("a b\na c\na b\n", order=2, smoothing="add-k", k=0.5)
    size = 5  # </s>, <unk>, a, b, c
    assert tokenizer.size == size
    expected = [(3 + 0.5) / (3 + 0.5 * size), (2 + 0.5) / (3 + 0.5 * size), (2 + 0.5) / (2 + 0.5 * size)]
    assert probability(model, tokenizer, "a b") == pytest.approx(expected)
    # the whole context or none: after a word never seen, every word is equally likely
    assert probability(model, tokenizer, "z a")[1] == pytest.approx(1 / size)


def test_add_k_near_the_start_of_a_document_uses_the_shorter_context():
    model, tokenizer = fitted("a b c\na b d\nb c\n", order=3, smoothing="add-k", k=1)
    size = tokenizer.size
    assert probability(model, tokenizer, "a b c") == pytest.approx(
        [3 / (3 + size), 3 / (2 + size), 2 / (2 + size), 3 / (2 + size)]
    )


def reference(
    sentences: list[list[str]], order: int, vocabulary: set[str], modified: bool, prune: tuple[int, ...]
):
    """P(word | context) by interpolated Kneser-Ney as in Chen and Goodman (1999), with dictionaries."""
    counts = [Counter() for _ in range(order + 1)]
    for sentence in sentences:
        words = ["<s>", *sentence, "</s>"]
        for end in range(1, len(words)):
            for k in range(1, min(order, end + 1) + 1):
                counts[k][tuple(words[end - k + 1 : end + 1])] += 1
    adjusted = [Counter() for _ in range(order + 1)]
    for k in range(1, order + 1):
        for ngram, count in counts[k].items():
            left = len({longer for longer in counts[k + 1] if longer[1:] == ngram}) if k < order else 0
            adjusted[k][ngram] = count if k == order or ngram[0] == "<s>" else left
    discounts = []
    for k in range(1, order + 1):
        n = Counter(adjusted[k].values())
        if modified:
            ok = n[1] and n[2] and n[3]
            share = n[1] / (n[1] + 2 * n[2]) if ok else 0
            found = [j - (j + 1) * share * n[j + 1] / n[j] for j in (1, 2, 3)] if ok else FALLBACK_DISCOUNTS
            discounts.append(found if all(0 < d <= j for j, d in enumerate(found, 1)) else FALLBACK_DISCOUNTS)
        else:
            discounts.append([n[1] / (n[1] + 2 * n[2]) if n[1] and n[2] else 0.5] * 3)
    children = [defaultdict(dict) for _ in range(order + 1)]
    for k in range(1, order + 1):
        for ngram, count in adjusted[k].items():
            children[k][ngram[:-1]][ngram[-1]] = count

    def p(word: str, context: tuple[str, ...]) -> float:
        k = len(context) + 1
        below = p(word, context[1:]) if context else 1 / len(vocabulary)
        followers = children[k].get(context)
        if not followers:
            return below
        total = sum(followers.values())
        own, left = 0.0, 0.0
        for follower, count in followers.items():
            kept = counts[k][(*context, follower)] > prune[min(k, len(prune)) - 1]
            discount = discounts[k - 1][min(count, 3) - 1] if kept else count
            left += discount
            own += (count - discount) * (follower == word)
        # a pruned n-gram is no context: what it would hand down is handed down whole
        context_kept = (
            k == 1 or counts[k - 1][context] > prune[min(k - 1, len(prune)) - 1] or context == ("<s>",)
        )
        return own / total + left / total * below if context_kept else below

    return p


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("order", [1, 2, 3, 5])
@pytest.mark.parametrize(
    ("smoothing", "prune"),
    [("kneser-ney", (0,)), ("modified-kneser-ney", (0,)), ("modified-kneser-ney", (0, 0, 1))],
)
def test_kneser_ney_is_chen_and_goodmans(order: int, smoothing: str, prune: tuple[int, ...]):
    model, tokenizer = fitted(LINES, order=order, smoothing=smoothing, prune=prune)
    sentences = [line.split() for line in LINES.splitlines()]
    vocabulary = {word for sentence in sentences for word in sentence} | {"<unk>", "</s>"}
    p = reference(sentences, order, vocabulary, smoothing.startswith("modified"), prune)
    for sentence in ["the cat sat on a log", "a mat", "", "dog unheard the the on", "the dog on a mat"]:
        words = ["<s>", *(word if word in vocabulary else "<unk>" for word in sentence.split()), "</s>"]
        expected = [p(words[i], tuple(words[max(0, i - order + 1) : i])) for i in range(1, len(words))]
        assert probability(model, tokenizer, sentence) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("text", ["a\n", "a a a a\n", "ab\n", "\n", "x y\nx y\nx y\nx y\nx y\n"])
@pytest.mark.parametrize("tokens", ["char", "word", "byte", "bpe"])
@pytest.mark.parametrize("smoothing", ["kneser-ney", "modified-kneser-ney", "add-k"])
def test_tiny_texts_stay_finite(text: str, tokens: str, smoothing: str):
    model, tokenizer = fitted(text, tokens=tokens, order=4, smoothing=smoothing)
    losses = token_losses(model, tokenizer.encode("a zebra x y a\n\n"))
    assert bool(losses.isfinite().all())
    assert float(losses.sum()) > 0


@given(
    st.text(alphabet="ab \n", min_size=1, max_size=40),
    st.sampled_from(["maximum-likelihood", "add-k", "kneser-ney", "modified-kneser-ney"]),
)
def test_the_chain_of_back_offs_sums_to_the_probability(text: str, smoothing: str):
    model, tokenizer = fitted(text, order=3, smoothing=smoothing)
    ids = [tokenizer.start, *tokenizer.prompt("a b ab b a")]
    prediction = predict(model, ids[:-1])
    parts = prediction.parts(torch.tensor([ids[1:]]))
    expected = prediction.log_probs()[0, range(len(ids) - 1), ids[1:]].exp().double()
    assert parts.of == "probability"
    torch.testing.assert_close(parts.total()[0], expected, rtol=1e-5, atol=1e-12)
    assert [part.name for part in parts.terms] == ["3-gram", "2-gram", "1-gram", "uniform"]
    weight_BT = torch.ones(1, len(ids) - 1, dtype=torch.float64)
    for part in parts.terms:  # P_k = own_k + backoff_k P_{k-1}
        own_BT, backoff_BT = part.details["own"], part.details["backoff"]
        torch.testing.assert_close(part.value, weight_BT * own_BT)
        assert float(own_BT.min()) >= -1e-7  # float32 tables, differences of probabilities
        weight_BT = weight_BT * backoff_BT


def test_no_context_crosses_a_document():
    together, tokenizer = fitted("a b\nc d\n", document="file", order=2, smoothing="maximum-likelihood")
    apart, _ = fitted("a b\nc d\n", document="line", order=2, smoothing="maximum-likelihood")
    # the line's end is a word like any other: c follows it
    assert probability(together, tokenizer, "a b\nc d") == [1] * 6
    assert probability(apart, tokenizer, "c d") == pytest.approx([0.5, 1, 1])


def test_arpa_is_read_by_kenlm_with_our_probabilities(tmp_path):
    text = LINES + "<unk> is here <s> and </s> and \\<unk>\n" * 2
    model, tokenizer = fitted(text, order=3)
    path = tmp_path / "model.arpa"
    arpa.write(model, tokenizer, path)
    theirs = kenlm.Model(str(path))
    for sentence in ["the cat sat on a log", "the <unk> is", "nobody knows", "", "and </s> and \\<unk>"]:
        escaped = " ".join(escape(word.encode()).decode() for word in sentence.split())
        expected = [10**score for score, _, _ in theirs.full_scores(escaped)]
        assert probability(model, tokenizer, sentence) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("suffix", [".arpa", ".arpa.gz"])
@pytest.mark.parametrize(
    "options", [{}, {"smoothing": "maximum-likelihood"}, {"smoothing": "add-k"}, {"prune": (0, 1)}]
)
def test_arpa_out_and_in_again(tmp_path, suffix: str, options: dict):
    model, tokenizer = fitted(LINES + "<unk> \\<unk> <s>\n", order=3, **options)
    path = tmp_path / f"model{suffix}"
    arpa.write(model, tokenizer, path)
    run = regard.load(path)
    assert run.tokenizer.words == tokenizer.words
    for sentence in ["the cat sat on a log", "<unk> \\<unk>", "mat zebra the", "the the the"]:
        ours, read = (probability(one, tokenizer, sentence) for one in (model, run.model))
        assert read == pytest.approx(ours, rel=1e-5)  # eight digits of log10


ARPA = ["\\data\\", "ngram 1=4", "ngram 2=2", "",
        "\\1-grams:", "-99\t<s>\t-0.3", "-0.5\t</s>", "-1\t<unk>", "-0.5\ta\t-0.3", "",
        "\\2-grams:", "-0.1\t<s> a", "-0.2\ta </s>", "", "\\end\\"]  # fmt: skip


def test_a_plain_arpa_file(tmp_path):
    (tmp_path / "model.arpa").write_text("\n".join(ARPA) + "\n")
    run = regard.load(tmp_path / "model.arpa")
    # <s> a: 10^-0.1. a </s>: 10^-0.2. After a, a again: back off from a, 10^-0.3, then 10^-0.5.
    # zebra: <unk> after <s>.
    assert probability(run.model, run.tokenizer, "a") == pytest.approx([10**-0.1, 10**-0.2])
    assert probability(run.model, run.tokenizer, "a a")[1] == pytest.approx(10**-0.8)
    assert probability(run.model, run.tokenizer, "zebra")[0] == pytest.approx(10**-1.3)


@pytest.mark.parametrize(
    ("line", "text", "message"),
    [
        (15, None, "line 14: the file ends before \\end\\"),
        (3, "ngram 7=2", "line 3: expected 'ngram 2=COUNT'"),
        (2, "ngram 1=x", "line 2: expected 'ngram 1=COUNT'"),
        (8, "minus\t<unk>", "line 8: 'minus' is not a number"),
        (13, "-0.2\ta zebra", "line 13: 'zebra' is not among the 1-grams"),
        (13, "-0.2\ta", "line 13: expected a number, 2 words"),
        (13, "-0.2\ta <s>", "line 13: its first words"),
        (2, "ngram 1=3", "line 9: expected '\\2-grams:'"),
        (3, "ngram 2=1", "line 13: expected \\end\\"),
        (13, "-0.2\t<s> a", "stands twice"),
        (9, "-1\t<unk>", "stands twice"),
    ],
)
def test_broken_arpa_files_name_file_and_line(tmp_path, line: int, text: str | None, message: str):
    lines = [*ARPA[: line - 1], *([] if text is None else [text]), *ARPA[line:]]
    (tmp_path / "model.arpa").write_text("\n".join(lines) + "\n")
    with pytest.raises(UserError, match=r"model\.arpa, line \d+: ") as error:
        regard.load(tmp_path / "model.arpa")
    assert message in str(error.value)


def test_two_models_mix_at_least_as_well_as_the_better(tmp_path):
    for name, text in {
        "one": LINES,
        "other": "the log sat on a dog\n" * 3,
        "valid": "the cat sat on the log\na dog\n",
    }.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "words").write_text("the cat sat on mat dog log a and saw")
    options = {"document": "line", "vocabulary": str(tmp_path / "words"), "hold": 0}
    runs = [
        regard.train("ngram", text=str(tmp_path / t), order=o, out=str(tmp_path / f"run{o}"), **options).run
        for t, o in (("one", 3), ("other", 2))
    ]
    valid = str(tmp_path / "valid")
    mixed = regard.mix(*runs, valid=valid)
    alone = [regard.evaluate(run, valid).loss for run in runs]
    assert 0 < mixed.model.weight < 1
    assert regard.evaluate(mixed, valid).loss < min(alone)
    # the chosen weight is where the loss is lowest: a little to either side is worse
    best = regard.evaluate(mixed, valid).loss
    for nudge in (-0.02, 0.02):
        other = regard.mix(*runs, valid=valid)
        other.model.weight += nudge
        assert regard.evaluate(other, valid).loss > best
    prediction = predict(mixed.model, [mixed.tokenizer.start, 3, 4])
    assert prediction.log_probs().exp().sum(2)[0].tolist() == pytest.approx([1, 1, 1], abs=1e-5)


def test_orders_are_nested(tmp_path):
    """More context never makes the training text less likely under maximum likelihood."""
    text = LINES * 2
    losses = []
    for order in (1, 2, 3, 4):
        model, tokenizer = fitted(text, order=order, smoothing="maximum-likelihood")
        losses.append(float(token_losses(model, tokenizer.encode(text)).mean()))
    assert all(longer < shorter for shorter, longer in pairwise(losses))
    assert math.isfinite(losses[0])
