"""Word vectors: questions to any run's vectors, word2vec files, and training by neighbours.

Shape legend: V vocabulary, D width, B blocks, T words of a block, C words of a band, K negative samples.
"""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from trainings import files

import regard
from regard.errors import UserError
from regard.inside.word_questions import read_questions, write_question
from regard.inside.word_tables import input_table, tables_of
from regard.parts.neighbours import Band, cbow_loss, skip_gram_loss
from regard.probabilities.correlation import mean_ranks, spearman
from regard.text.word_pairs import read_word_pairs
from regard.verbs import train as train_verb

# Animals drink and vehicles drive: words of one kind have the same neighbours, and never stand together.
ANIMALS, VEHICLES = ("cat", "dog", "cow"), ("car", "bus", "van")
TEXT = "".join(
    f"the {animal} drinks cold milk now\nthe {vehicle} drives along wide roads today\n"
    for _ in range(30)
    for animal, vehicle in zip(ANIMALS, VEHICLES, strict=True)
)
SMALL = {"width": 13, "window": 3, "epochs": 40, "evaluate_every": 1000, "document": "line", "subsample": 0.0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("words")
    (folder / "text.txt").write_text(TEXT)
    for kind in ("skip-gram", "cbow"):
        rate = {"skip-gram": 0.05, "cbow": 0.2}[kind]
        regard.train(
            "embedding",
            text=str(folder / "text.txt"),
            out=str(folder / kind),
            kind=kind,
            learning_rate=rate,
            **SMALL,
        )
    return folder


def pairwise_loss(words_VD, outputs_VD, band: Band, negatives, samples: float, cbow: bool):
    """The definition of the loss, pair by pair (parts/neighbours.py)."""
    total, reach = words_VD.new_zeros(()), band.reach
    log_s = torch.nn.functional.logsigmoid
    for ids, left, right in zip(band.ids_BC, band.left_BT, band.right_BT, strict=True):
        for t in range(len(left)):
            word = ids[t + reach]
            near = [t + reach + d for d in range(-int(left[t]), int(right[t]) + 1) if d]
            if not near:
                continue
            pairs = (
                [(words_VD[ids[near]].mean(0), word)] if cbow else [(words_VD[word], ids[c]) for c in near]
            )
            for vector, target in pairs:
                pushed = log_s(-outputs_VD[negatives] @ vector).sum() * samples / len(negatives)
                total = total - log_s(outputs_VD[target] @ vector) - pushed
    return total


@pytest.mark.parametrize("cbow", [False, True])
def test_bands_give_the_loss_and_gradients_of_the_definition(double, cbow):
    torch.manual_seed(3)
    words_VD, outputs_VD = (torch.randn(11, 7, requires_grad=True) for _ in "ab")
    left_BT, right_BT = (torch.randint(0, 3, (2, 5)) for _ in "ab")  # windows of no words as well
    band = Band(torch.randint(0, 11, (2, 5 + 4)), left_BT, right_BT)
    negatives_K = torch.tensor([4, 4, 9])
    expected = pairwise_loss(words_VD, outputs_VD, band, negatives_K, 5.0, cbow)
    found = (cbow_loss if cbow else skip_gram_loss)(words_VD, outputs_VD, band, negatives_K, 5.0)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    wanted = torch.autograd.grad(expected * 2.0, (words_VD, outputs_VD))
    grads = torch.autograd.grad(found * 2.0, (words_VD, outputs_VD))
    for grad, want in zip(grads, wanted, strict=True):
        assert grad.is_sparse
        torch.testing.assert_close(grad.to_dense(), want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ["skip-gram", "cbow"])
def test_words_with_the_same_neighbours_become_alike(folder, kind):
    nearest = regard.words(folder / kind, "cat", top=2).answers[0].nearest
    assert {word for word, _ in nearest} == {"dog", "cow"}
    assert regard.evaluate(folder / kind).loss == regard.load(folder / kind).config.loss


def test_a_stopped_training_goes_on_to_the_bit(folder, tmp_path):
    def stop(report):
        if report.step > 30:
            raise KeyboardInterrupt

    options = {"text": str(folder / "text.txt"), **SMALL, "epochs": 5, "batch": 2, "evaluate_every": 30}
    regard.train("embedding", out=str(tmp_path / "whole"), **options)
    with pytest.raises(KeyboardInterrupt):
        regard.train("embedding", out=str(tmp_path / "stopped"), listener=stop, **options)
    assert list((tmp_path / "stopped").glob("checkpoint-*"))
    regard.train("embedding", out=str(tmp_path / "stopped"), resume=True)
    assert files(tmp_path / "stopped") == files(tmp_path / "whole")


def test_a_step_moves_only_the_vectors_of_its_words(folder, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("one two three four " * 8 + "five six " * 2)
    # one step reads the first words of a row; the learning rate makes every moved vector differ
    options = {"cutoff": 1, "width": 5, "window": 2, "subsample": 0.0, "hold": 0.0, "evaluate_every": 1}
    sizes = {"steps": 1, "batch": 1, "segment": 8}
    run = regard.train("embedding", text=str(text), out=str(tmp_path / "run"), **options, **sizes).run
    outputs_VD = run.model.outputs.weight.detach()
    words = {run.tokenizer.name(token) for token in outputs_VD.abs().sum(1).nonzero().flatten().tolist()}
    assert words <= {"one", "two", "three", "four", "five", "six"}
    torch.manual_seed(1)
    start_VD = type(run.model)(run.model.vocabulary_size, run.model.config).embedding.weight
    moved = (run.model.embedding.weight != start_VD).any(1).nonzero().flatten().tolist()
    assert moved == []  # the outputs begin at 0: the first step moves them alone


@pytest.mark.parametrize("loss", ["cross-entropy", "l2"])
def test_one_hot_words_are_reconstructed(folder, tmp_path, loss):
    out = tmp_path / "run"
    regard.train(
        "embedding",
        text=str(folder / "text.txt"),
        out=str(out),
        kind="one-hot",
        loss=loss,
        width=17,
        epochs=400,
    )
    model = regard.load(out).model
    words_N = torch.arange(2, model.vocabulary_size)
    scores_NV = model.embedding(words_N) @ model.outputs.weight.T
    assert (scores_NV.argmax(1) == words_N).all()


@pytest.mark.parametrize("ending", [".vec", ".bin"])
def test_a_word2vec_file_has_the_same_words_and_vectors(folder, tmp_path, ending):
    out = regard.export(folder / "skip-gram", to=tmp_path / f"vectors{ending}")
    before, after = (tables_of(regard.load(path))[0] for path in (folder / "skip-gram", out))
    assert after.words == before.words
    assert torch.equal(after.vectors_VD[2:], before.vectors_VD[2:])  # to the bit, as text too
    again = regard.export(out, to=tmp_path / f"again{ending}")
    assert again.read_bytes() == out.read_bytes()
    regard.export(out, to=tmp_path / "folder")
    assert regard.words(tmp_path / "folder", "cat").answers == regard.words(out, "cat").answers


@pytest.mark.parametrize("ending", [".vec", ".bin"])
def test_gensim_reads_ours_and_we_read_gensims(folder, tmp_path, ending):
    models = pytest.importorskip("gensim.models")
    out = regard.export(folder / "skip-gram", to=tmp_path / f"vectors{ending}")
    theirs = models.KeyedVectors.load_word2vec_format(str(out), binary=ending == ".bin")
    (table,) = tables_of(regard.load(out))
    assert theirs.index_to_key == table.words
    np.testing.assert_array_equal(theirs.vectors, table.vectors_VD[2:].numpy())
    expected = theirs.most_similar(positive=["cat", "car"], negative=["dog"], topn=5)
    found = regard.words(out, "cat - dog + car", top=5).answers[0].nearest
    assert [word for word, _ in found] == [word for word, _ in expected]
    np.testing.assert_allclose([c for _, c in found], [c for _, c in expected], atol=1e-6)
    theirs.save_word2vec_format(str(tmp_path / "theirs"), binary=ending == ".bin")
    assert torch.equal(tables_of(regard.load(tmp_path / "theirs"))[0].vectors_VD, table.vectors_VD)


def test_words_of_several_subwords_have_the_mean_of_their_vectors(folder, tmp_path):
    options = {
        "layers": 1,
        "heads": 1,
        "width": 8,
        "context": 17,
        "batch": 2,
        "steps": 2,
        "evaluate_every": 2,
    }
    texts = {"text": str(folder / "text.txt"), "tokens": "bpe", "bpe_size": 270}
    regard.train("transformer", out=str(tmp_path / "run"), **texts, **options)
    run = regard.load(tmp_path / "run")
    (table,) = tables_of(run)
    ids = run.tokenizer.prompt(" drives")
    assert len(ids) > 1
    expected = torch.nn.functional.normalize(run.model.embedding.weight[ids].mean(0), dim=0)
    torch.testing.assert_close(table.unit("drives"), expected.detach())
    assert all(word.isalnum() for word in table.words)
    assert "mean" in (table.how or "")


def test_a_translator_has_a_table_for_each_side(taught):
    names = [one.name for one in regard.words(taught / "run").tables]
    assert names == ["target", "source"]
    (answer,) = regard.words(taught / "run", "the", top=3).answers
    assert answer.table == "source"
    assert len(answer.nearest) == 3


def test_an_ngram_has_no_vectors(folder, tmp_path):
    regard.train("ngram", text=str(folder / "text.txt"), out=str(tmp_path / "run"), order=2)
    with pytest.raises(UserError, match="ngram has no word vectors"):
        regard.words(tmp_path / "run", "cat")


def test_ranks_and_correlations():
    assert mean_ranks(np.array([3.0, 1.0, 3.0, 2.0])).tolist() == [3.5, 1.0, 3.5, 2.0]
    found = spearman(np.array([1.0, 2.0, 3.0, 4.0, 5.0]), np.array([2.0, 1.0, 4.0, 3.0, 5.0]))
    # no ties: 1 - 6 x (1 + 1 + 1 + 1) / (5 x 24) = 0.8, and the interval of Bonett and Wright (2000)
    assert found is not None
    assert found.spearman == pytest.approx(0.8)
    reach = 1.959964 * math.sqrt((1 + 0.8**2 / 2) / 2)
    assert math.atanh(found.high) - math.atanh(found.spearman) == pytest.approx(reach)
    assert spearman(np.arange(3.0), np.arange(3.0)) is None
    assert spearman(np.ones(5), np.arange(5.0)) is None


FORMS = {
    "simlex": "word1\tword2\tPOS\tSimLex999\tconc\ncat\tdog\tA\t9.5\t2\ncar\tbus\tN\t8\t4\n",
    "rg": "cat dog 9.5\ncar bus 8\n",
    "wordsim": "Word 1,Word 2,Human (mean)\ncat,dog,9.5\ncar,bus,8\n",
    "semicolons": "# from people\ncat;dog;9.5\ncar;bus;8\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_word_lists_are_read_in_their_own_forms(tmp_path, form):
    (tmp_path / "list").write_text(FORMS[form])
    listed = read_word_pairs(tmp_path / "list")
    assert (listed.pairs, listed.scores) == ((("cat", "dog"), ("car", "bus")), (9.5, 8.0))


@pytest.mark.parametrize("text", ["", "a b\n", "a\tb\tc\n", "a b 1\na b\n", "a b nan\n", "a,b,1\nc,d,\n"])
def test_a_word_list_of_another_form_is_refused(tmp_path, text):
    (tmp_path / "list").write_text(text)
    with pytest.raises(UserError, match="list"):
        read_word_pairs(tmp_path / "list")


def test_agreement_with_people_counts_what_is_left_out(folder, tmp_path):
    (tmp_path / "list").write_text(
        "cat dog 9\ncat cow 8.5\ncar bus 9\nCat car 1\ncow bus 2\nzyx dog 5\nvan milk 0.5\n"
    )
    (found,) = regard.words(folder / "skip-gram", similarity=tmp_path / "list").similarities
    assert (found.pairs, found.left_out, found.missing) == (6, 1, ["zyx"])  # Cat is read as cat
    assert found.low < 0.5 < found.spearman < found.high
    (tmp_path / "few").write_text("cat dog 9\nzyx cow 8.5\n")
    with pytest.raises(UserError, match="fewer than 4 of its 2 pairs"):
        regard.words(folder / "skip-gram", similarity=tmp_path / "few")


def test_questions_are_words_sums_and_differences():
    asked = read_questions(["cat", "king - man + woman", "well-known", "a", "-", "b", "+", "c", "d"])
    assert [write_question(one) for one in asked] == [
        "cat", "king - man + woman", "well-known", "a - b + c", "d",
    ]  # fmt: skip
    for wrong in (["a", "-"], ["a - "], ["+", "a", "+"]):
        with pytest.raises(UserError, match="sign"):
            read_questions(wrong)


def test_missing_words_are_left_out_and_counted(folder, regard_cli):
    run = folder / "skip-gram"
    assert regard.words(run, ["cat", "zyx", "dog - zyx"]).left_out == ["zyx", "dog - zyx"]
    with pytest.raises(UserError, match="lacks 'cta'; it has"):
        regard.words(run, "cta")
    done = regard_cli("words", str(run), "cat", "zyx", "--json", "--top", "2")
    assert done.returncode == 0
    data = json.loads(done.stdout)
    assert data["left_out"] == ["zyx"]
    assert [one["word"] for one in data["words"]] == ["cat"]
    assert len(data["words"][0]["nearest"]) == 2
    assert regard_cli("words", str(run), "zyx").returncode == 2


@pytest.mark.parametrize("name", ["a.svg", "a.png", "a.html", "a.json"])
def test_pictures_show_the_words(folder, tmp_path, name):
    out = tmp_path / name
    plane = regard.words(folder / "skip-gram", ["cat", "cat - dog + car"], top=3, out=out).planes[0]
    assert {"cat", "dog", "car"} <= set(plane.words)
    assert plane.shares[0] >= plane.shares[1] > 0
    (table,) = tables_of(regard.load(folder / "skip-gram"))
    units = torch.stack([table.unit(word) for word in plane.words])
    # the plane of most variance has the variance of the two largest eigenvalues of the covariance
    values = torch.linalg.eigvalsh(torch.cov(units.double().T, correction=0)).flip(0)[:2] * len(units)
    np.testing.assert_allclose((plane.points_K2**2).sum(0), values.numpy(), rtol=1e-5)
    if name.endswith((".svg", ".html")):
        assert ">cat</text>" in out.read_text()


@pytest.mark.parametrize(
    "content",
    [
        b"3 2\na 1 2\nb 1 2\n",
        b"2 2\na 1 2\nb 1 x\n",
        b"2 2\na 1 2\nb 1 nan\n",
        b"9999999999 300\n" + b"a " + b"\x80" * 1300,
        b"2 2\na 1.25 2.5\nb 1.125\n",
        b"0 0\n",
    ],
)
def test_a_damaged_word2vec_file_is_refused(tmp_path, content):
    (tmp_path / "file.bin").write_bytes(content)
    with pytest.raises(UserError, match=r"file\.bin"):
        regard.words(tmp_path / "file.bin", "a")


def test_options_that_do_not_fit_are_refused(folder, tmp_path):
    text = folder / "text.txt"
    for options in (
        {"loss": "l2"},
        {"kind": "given"},
        {"clip": 1.0},
        {"optimiser": "adamw"},
        {"cutoff": 999},
    ):
        with pytest.raises(UserError):
            regard.train("embedding", text=text, out=str(tmp_path / "run"), **options)
        assert not (tmp_path / "run" / "config.json").exists()
    with pytest.raises(UserError, match="not both"):
        regard.train("embedding", text=text, out=str(tmp_path / "run"), steps=3, epochs=2)


@pytest.fixture(scope="module")
def even(folder) -> Path:
    """An embedding with an even width, which encoders in two directions need."""
    options = {**SMALL, "width": 14, "epochs": 1}
    return regard.train(
        "embedding", text=str(folder / "text.txt"), out=str(folder / "even"), **options
    ).run.folder


def test_vectors_of_words_are_a_start_for_other_models(folder, even, tmp_path):
    """An embedding run, both forms of its file, and any neural run: each found word has its direction."""
    text = folder / "text.txt"
    regard.train("lstm", text=str(text), tokens="word", width=16, steps=1, out=str(tmp_path / "lstm"))
    regard.train("gru", text=str(text), tokens="bpe", width=16, steps=1, out=str(tmp_path / "gru"))
    files = [regard.export(even, to=tmp_path / name) for name in ("vectors.vec", "vectors.bin")]
    (tmp_path / "labelled.tsv").write_text("x\tCat bus zyx\ny\tbus cat cat\n" * 3)
    classifier = {"labelled": str(tmp_path / "labelled.tsv"), "hold": 0.0}
    for family, given in (("classifier", classifier), ("reader", {"text": str(text), "hold": 0.0})):
        for path in (even, *files, tmp_path / "lstm", tmp_path / "gru"):
            theirs = input_table(regard.load(path))
            options = {**given, "width": theirs.width, "steps": 1, "learning_rate": 1e-12}
            out = tmp_path / f"{family}-{path.name}"
            run = regard.train(family, **options, vectors=str(path), out=str(out)).run
            own = input_table(run)
            found = [word for word in own.words if theirs.spelling(word)]
            assert f"{len(found)} of {own.tokenizer.size} tokens begin with their" in run.config.notes[-1]
            assert {"bus", "cat"} <= set(found)
            for word in found:
                torch.testing.assert_close(own.unit(word), theirs.unit(theirs.spelling(word)))
    for family, more, words in (
        ("ngram", {"order": 2}, "has no word vectors"),
        ("lstm", {"tokens": "char", "width": 16, "steps": 1}, "its tokens are char"),
    ):
        path = tmp_path / f"other-{family}"
        regard.train(family, text=str(text), out=str(path), **more)
        with pytest.raises(UserError, match=words):
            regard.train("classifier", **classifier, vectors=str(path), out=str(tmp_path / "refused"))


def test_a_training_that_was_killed_at_once_still_begins_with_the_vectors(
    folder, even, tmp_path, monkeypatch
):
    options = {"text": str(folder / "text.txt"), "hold": 0.0, "steps": 1, "vectors": str(even), "width": 14}
    whole = regard.train("reader", **options, out=str(tmp_path / "whole")).run

    def killed(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(train_verb, "descend", killed)
        with pytest.raises(MemoryError):
            regard.train("reader", **options, out=str(tmp_path / "run"))
    again = regard.train("reader", out=str(tmp_path / "run"), resume=True).run
    assert all(map(torch.equal, whole.model.tensors().values(), again.model.tensors().values()))
    assert again.config.notes == whole.config.notes
