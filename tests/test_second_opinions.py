"""Every figure has a second opinion: two ways to the same number agree."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from test_arpa_checks import write

import regard
from regard.models.ngram import Ngram
from regard.probabilities.decoder import Writing, generate
from regard.probabilities.measures import token_losses

TEXT = "the cat saw the dog\na dog saw a cat\nthe dog and the cat\n" * 7
FAMILIES: dict[str, dict[str, Any]] = {
    "ngram": {"order": 3, "tokens": "word"},
    "lstm": {"tokens": "char", "width": 5},
    "transformer": {"tokens": "bpe", "bpe_size": 263, "width": 8, "heads": 2, "layers": 1, "context": 11},
    "attentive": {"tokens": "byte", "width": 5, "lookback": 3, "copy": "gate"},
    "window": {"tokens": "word", "width": 5, "window": 3},
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, regard.Run]:
    folder = tmp_path_factory.mktemp("runs")
    (folder / "text").write_text(TEXT)
    made = {}
    for family, options in FAMILIES.items():
        more = {} if family == "ngram" else {"steps": 3, "batch": 2}
        text = str(folder / "text")
        out = str(folder / family)
        made[family] = regard.train(
            family, text=text, document="line", hold=0, out=out, **options, **more
        ).run
    return made


@pytest.mark.parametrize("family", FAMILIES)
def test_scores_sum_to_what_evaluate_says_twice(runs, family: str, tmp_path: Path):
    (tmp_path / "text").write_text("a cat saw the zebra\n\nthe dog\n")
    first, again = (regard.evaluate(runs[family], tmp_path / "text") for _ in range(2))
    assert (first.loss, first.tokens) == (again.loss, again.tokens)
    tokens = [token for document in regard.score(runs[family], tmp_path / "text") for token in document]
    assert len(tokens) == first.tokens
    assert -sum(token.log_prob for token in tokens) == pytest.approx(first.loss * first.tokens, rel=1e-9)
    assert first.bits_per_byte == pytest.approx(
        -sum(token.log_prob for token in tokens) / math.log(2) / len((tmp_path / "text").read_bytes())
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_what_generate_writes_has_the_probabilities_of_score(runs, family: str):
    run = runs[family]
    prompt = run.tokenizer.prompt("the cat")
    begin = [run.tokenizer.start, *prompt]
    written = list(generate(run.model, run.model.begin(1), [begin], Writing(length=4, end=None, seed=5)))
    ids = [*prompt, *(step.tokens[0] for step in written)]
    prediction, _ = run.model.read_from_start(torch.tensor([[run.tokenizer.start, *ids[:-1]]]))
    with torch.no_grad():
        nll_T = prediction.nll(torch.tensor([ids]))[0, -len(written) :]
    generated_T = torch.cat([step.log_prob_B for step in written])
    torch.testing.assert_close(generated_T, -nll_T, rtol=1e-4, atol=1e-5)


def test_out_and_in_again_is_the_same_figure(runs, tmp_path: Path):
    (tmp_path / "text").write_text("a cat saw the zebra\n\nthe dog\n")
    for family, name in (("ngram", "model.arpa.gz"), ("lstm", "again")):
        out = regard.export(runs[family], tmp_path / name)
        back = regard.export(out, tmp_path / f"{family}-folder", format="regard")
        figures = [regard.evaluate(one, tmp_path / "text").loss for one in (runs[family], out, back)]
        assert figures == pytest.approx([figures[0]] * 3, rel=1e-6)  # eight digits of log10


@pytest.mark.parametrize(
    "smoothing", ["maximum-likelihood", "add-k", "kneser-ney", "modified-kneser-ney", "katz"]
)
def test_every_context_of_an_arpa_file_has_a_sum_of_one(tmp_path: Path, smoothing: str):
    """1,000 random contexts, of words that follow each other in the text and of words that do not."""
    if smoothing == "katz":  # with a backoff above one
        path = write(tmp_path)
    else:
        (tmp_path / "text").write_text(TEXT)
        text = {"text": str(tmp_path / "text"), "document": "line", "hold": 0}
        run = regard.train("ngram", order=3, smoothing=smoothing, out=str(tmp_path / "run"), **text).run
        path = regard.export(run, tmp_path / "model.arpa")
    run = regard.load(path)
    assert isinstance(run.model, Ngram)
    generator = torch.Generator().manual_seed(7)
    tokens_BT = torch.randint(0, run.tokenizer.size, (1000, 3), generator=generator)
    seen = run.tokenizer.encode(TEXT).ids_N.long().unfold(0, 3, 1)
    tokens_BT[::2] = seen[torch.randint(0, len(seen), (500,), generator=generator)]
    total_BT = run.model.read_from_start(tokens_BT)[0].log_probs().double().exp().sum(2)
    torch.testing.assert_close(total_BT, torch.ones_like(total_BT), rtol=0, atol=1e-5)
    losses_N = token_losses(run.model, run.tokenizer.encode("a cat\n"))
    assert float(losses_N.min()) >= -1e-6
