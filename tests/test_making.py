"""Models and numbers from outside: refused in one line, before anything large is allocated."""

import json

import pytest
from families import MODELS

import regard
from regard.boundary import check_depth
from regard.cli import main
from regard.errors import UserError
from regard.models.ngram import Ngram
from regard.training.options import read_options


@pytest.mark.parametrize("name", [name for name in MODELS if not name.startswith("ngram")])
def test_saved_tensors_must_fit_the_model(name: str):
    model = MODELS[name]()
    tensors = model.tensors()
    model.check_tensors(tensors)
    first, *_ = tensors
    with pytest.raises(ValueError, match=f"tensor {first} is missing"):
        model.check_tensors({key: tensor for key, tensor in tensors.items() if key != first})
    with pytest.raises(ValueError, match=f"tensor {first} holds NaN"):
        model.check_tensors(tensors | {first: tensors[first] * float("nan")})
    with pytest.raises(ValueError, match=f"tensor {first} holds int8"):
        model.check_tensors(tensors | {first: tensors[first].char()})
    with pytest.raises(ValueError, match="has no tensor other"):
        model.check_tensors(tensors | {"other": tensors[first]})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"log_prob_2": lambda t: t[:-1]}, "log_prob_2 has the shape"),
        ({"log_prob_1": lambda t: t * float("nan")}, "log_prob_1 holds numbers that are no logs"),
        ({"log_prob_2": lambda t: t + 30}, "log_prob_2 holds numbers that are no logs"),
        ({"backoff_1": lambda t: t + float("inf")}, "backoff_1 holds infinity"),
        ({"key_2": lambda t: t.flip(0)}, "key_2 is not sorted"),
        ({"key_3": lambda t: t + 10**6}, "key_3 is not sorted, or names contexts that do not exist"),
        ({"key_3": lambda t: t.float()}, "key_3 is not a list of whole numbers"),
        ({"key_3": None}, "key_3 is missing"),
    ],
)
def test_tables_of_an_ngram_must_fit_each_other(change: dict, words: str):
    model = MODELS["ngram-3-kneser-ney"]()
    tensors = dict(model.tensors())
    Ngram(model.vocabulary_size, model.config).check_tensors(tensors)
    for name, edit in change.items():
        tensors[name] = tensors.pop(name) if edit is None else edit(tensors[name].clone())
        if edit is None:
            del tensors[name]
    with pytest.raises(ValueError, match=words):
        model.check_tensors(tensors)
    with pytest.raises(ValueError, match=r"is of no use|is missing"):  # another order than the tables have
        Ngram(model.vocabulary_size, Ngram.Config(order=2)).check_tensors(model.tensors())


HUGE = 10**30


@pytest.mark.parametrize(
    ("family", "options"),
    [
        *(("lstm", {name: HUGE}) for name in ("seed", "width", "layers", "segment", "batch", "accumulate")),
        *(("lstm", {name: HUGE}) for name in ("steps", "average", "evaluate_every", "patience")),
        *(("lstm", {name: float("nan")}) for name in ("weight_decay", "learning_rate", "clip", "minutes")),
        *(("lstm", {name: float("nan")}) for name in ("warmup", "floor", "beta2", "dropout", "hold")),
        *(("transformer", {name: HUGE}) for name in ("context", "heads", "key_value_heads", "inner")),
        ("transformer", {"norm_epsilon": 0.0}),
        ("transformer", {"layers": 100_000_000}),
        ("attentive", {"lookback": HUGE}),
        ("window", {"window": HUGE}),
        ("window", {"distant": 64}),
        ("backpack", {"senses": 0}),
        ("ngram", {"order": 1_000_000}),
        ("ngram", {"k": float("inf"), "smoothing": "add-k"}),
        ("ngram", {"prune": [0, HUGE]}),
        ("ngram", {"cutoff": 0}),
        ("ngram", {"seed": 2**63}),
        ("recurrent-translator", {"longest": HUGE}),
        ("recurrent-translator", {"batch_tokens": 0}),
        ("lstm", {"width": True}),
        ("lstm", {"width": 7.5}),
    ],
)
def test_every_option_has_a_range(family: str, options: dict):
    (name,) = set(options) - {"smoothing"}
    with pytest.raises(UserError, match=f"^`{name}(\\.1)?` must be ") as error:
        read_options(regard.models.family_class(family), options)
    assert len(str(error.value)) < 160


def test_a_model_larger_than_the_memory_is_refused_with_its_size(tmp_path):
    (tmp_path / "text").write_text("a b c d e f g\n" * 50)
    text = str(tmp_path / "text")
    for options in ({"width": 1_000_000}, {"width": 2**31 - 2}):
        with pytest.raises(UserError, match=r"GB of memory|too large for any machine"):
            regard.train("transformer", text=text, tokens="char", heads=1, out=str(tmp_path / "x"), **options)
        assert not (tmp_path / "x").exists()


def test_a_seed_of_63_bits_trains(tmp_path):
    (tmp_path / "text").write_text("a b c d e f g\n" * 50)
    options = {"tokens": "char", "text": str(tmp_path / "text"), "steps": 2, "width": 4, "batch": 2}
    done = regard.train("lstm", out=str(tmp_path / "run"), seed=2**63 - 1, **options)
    assert done.steps == 2


@pytest.mark.parametrize(
    ("text", "depth"),
    [(b"[" * 100_000, True), (b'{"a":' * 100_000, True), (b'"' + b"[" * 100, False), (b'"\\', False)],
)
def test_nesting_is_bounded_before_parsing(text: bytes, depth: bool):
    if depth:
        with pytest.raises(UserError, match="more than 32 nested brackets"):
            check_depth(text, "file")
    else:
        check_depth(text, "file")


def test_the_depth_of_a_hostile_text_takes_linear_time():
    check_depth(b'\\"' * 2_000_000, "file")  # strings that begin everywhere and end nowhere


def test_numbers_of_verbs_have_ranges(tmp_path, capsys):
    (tmp_path / "text").write_text("a b c\nb c a\n" * 9)
    run = str(tmp_path / "run")
    assert main(["train", "ngram", "--text", str(tmp_path / "text"), "--order", "2", "--out", run]) == 0
    text = ["--text", str(tmp_path / "text")]
    for arguments in (
        ["generate", run, "--length", "0"],
        ["generate", run, "--count", "0"],
        ["generate", run, "--count", str(10**9)],
        ["generate", run, "--seed", "-1"],
        ["generate", run, "--top-p", "1.5"],
        ["generate", run, "--temperature", "nan"],
        ["evaluate", run, *text, "--stride", "0"],
        ["evaluate", run, *text, "--cache", "--cache-size", str(HUGE)],
        ["look", run, "--text", "a", "--top", "0"],
        ["puzzle", "first", "--seeds", "0"],
        ["align", "--score", "a", "--gold", "b", "--index", "2"],
    ):
        capsys.readouterr()
        assert main(arguments) == 2, arguments
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert arguments[-2] in err


@pytest.mark.parametrize("saved", [{"activation": None}, {}], ids=["null", "absent"])
def test_a_run_of_an_older_format_keeps_its_activation(tmp_path, saved: dict):
    """Until format 2, blocks without a named activation had GELU's tanh form; now they have GELU itself."""
    new = tmp_path / "new"
    (tmp_path / "text.txt").write_text("a b a c a b\n" * 60)
    text = str(tmp_path / "text.txt")
    regard.train("transformer", text=text, out=str(new), steps=2, activation="gelu-tanh", layers=2, width=16)
    data = json.loads((new / "config.json").read_text())
    other = {name: value for name, value in data["model"].items() if name != "activation"}
    older = {**data, "format": 2, "model": {**other, **saved}}
    loss = regard.evaluate(str(new), text=text).loss
    (new / "config.json").write_text(json.dumps(older))
    assert regard.load(str(new)).config.model["activation"] == "gelu-tanh"
    assert regard.evaluate(str(new), text=text).loss == loss
    (new / "config.json").write_text(json.dumps({**older, "format": 3}))
    assert regard.evaluate(str(new), text=text).loss != loss  # the file would be read as GELU itself
