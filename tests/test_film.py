"""The film of a training: a frame at each validation, with the figures that `regard heads` gives."""

import pytest
import torch
from safetensors.torch import load_file

import regard
from regard.errors import UserError
from regard.training.film import frames

TINY = {"tokens": "char", "width": 8, "heads": 2, "layers": 1, "context": 23, "batch": 4, "dropout": 0.0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("film")
    (folder / "text.txt").write_text("".join(f"line {n % 7} and {n % 11}\n" for n in range(500)))
    options = {"text": str(folder / "text.txt"), "steps": 7, "evaluate_every": 3, **TINY}
    regard.train("transformer", out=str(folder / "run"), film=True, **options)
    regard.train("transformer", out=str(folder / "plain"), **options)
    return folder


def test_a_film_has_a_frame_for_the_beginning_and_every_validation(folder):
    assert [step for step, _ in frames(folder / "run")] == [0, 3, 6, 7]
    assert not (folder / "plain" / "film").exists()
    run, plain = regard.load(folder / "run"), regard.load(folder / "plain")
    assert run.fingerprint == plain.fingerprint  # a film changes nothing
    best = load_file(dict(frames(folder / "run"))[run.config.best_step])
    for name, tensor in run.model.tensors().items():
        assert torch.equal(tensor, best[name])


def test_the_frame_of_the_best_step_is_what_heads_measures(folder):
    run = regard.load(folder / "run")
    film = regard.film(run)
    by_step = {frame.step: frame for frame in film.frames}
    assert by_step[run.config.best_step].heads == regard.heads(run).heads
    assert by_step[0].loss is None
    assert all(frame.loss is not None for frame in film.frames[1:])
    assert by_step[0].heads != by_step[7].heads
    assert len(film.rows()) == 4 * 2


def test_the_verb_on_the_command_line(folder, regard_cli):
    shown = regard_cli("film", folder / "run", "--out", folder / "film.html")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.splitlines()[1].startswith("0 ")
    assert "Each line is a head" in (folder / "film.html").read_text()
    refused = regard_cli("film", folder / "plain")
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
    assert "train it with --film" in refused.stderr


def test_a_family_without_attention_keeps_no_film(folder):
    text = str(folder / "text.txt")
    with pytest.raises(UserError, match="lstm has no attention to film; it has layer0"):
        regard.train("lstm", text=text, out=str(folder / "lstm"), film=True, tokens="char", steps=1)
    assert not (folder / "lstm").exists()


def test_a_damaged_frame_is_named(folder):
    step, path = frames(folder / "run")[1]
    whole = path.read_bytes()
    path.write_bytes(whole[:100])
    try:
        with pytest.raises(UserError, match=f"step-0000000{step}.safetensors: is damaged"):
            regard.film(folder / "run")
    finally:
        path.write_bytes(whole)


def test_alignment_error_of_a_translator_is_that_of_its_report(tmp_path):
    options = {"tokens": "word", "width": 8, "heads": 2, "layers": 1, "steps": 2, "evaluate_every": 2}
    trained = regard.train("transformer-translator", out=str(tmp_path / "run"), film=True, **options)
    film = regard.film(trained.run)
    by_step = {frame.step: frame for frame in film.frames}
    assert by_step[trained.run.config.best_step].alignment_error == pytest.approx(trained.figures["aer"])
