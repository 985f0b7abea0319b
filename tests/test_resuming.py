"""A run that was killed, stopped or crowded ends as the run that was not."""

import errno
import itertools
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from trainings import MORE, PAIRS, SMALL, TEXT, files, small

import regard
from regard.errors import Interrupted, MachineError, Notice, UserError
from regard.machine.disk import lock_folder
from regard.training import checkpoint, recipes
from regard.training.recipes import Recipe


def stop_at(step: int) -> Callable[..., None]:
    """A listener that presses Ctrl-C once this step is reported."""
    return lambda report: signal.raise_signal(signal.SIGINT) if report.step >= step else None


def start(
    folder: Path, family: str, out: str, *more: str, stderr: int = subprocess.DEVNULL
) -> subprocess.Popen:
    arguments = ["train", family, "--out", out, *more]
    return subprocess.Popen(
        [sys.executable, "-m", "regard", *arguments], cwd=folder, stdout=subprocess.DEVNULL, stderr=stderr
    )


@pytest.mark.parametrize("family", [*MORE, "recurrent-translator"])
def test_a_killed_run_ends_like_one_that_was_not(tmp_path, text, family):
    options = ["--text", "text.txt", *SMALL, *MORE[family]] if family in MORE else PAIRS
    (tmp_path / "pairs.tsv").write_text(
        "".join(f"line {number} says a b\tb a says {number} line\n" for number in range(60))
    )
    assert start(tmp_path, family, "whole", *options).wait(120) == 0
    chance = random.Random(family)
    process = start(tmp_path, family, "killed", *options)
    kills = 0
    while process.poll() is None:
        if kills < 2 and list((tmp_path / "killed").glob("checkpoint-*[0-9]")):
            time.sleep(chance.random() * 0.1)
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
            if (tmp_path / "killed" / "config.json").exists():
                break
            process = start(tmp_path, family, "killed", "--resume")
        time.sleep(0.01)
    assert process.wait() in (0, -signal.SIGKILL)
    assert kills
    assert files(tmp_path / "killed") == files(tmp_path / "whole")
    assert process.returncode or not list((tmp_path / "killed").glob("checkpoint*"))


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path, text):
    options = ["--text", "text.txt", *SMALL, *MORE["lstm"]]
    assert start(tmp_path, "lstm", "whole", *options).wait(120) == 0
    process = start(tmp_path, "lstm", "stopped", *options, stderr=subprocess.PIPE)
    while not list(tmp_path.glob("stopped/checkpoint-*[0-9]")):
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    if process.returncode == 0:
        pytest.skip("it was done before it could be stopped")
    assert process.returncode == 130
    assert (
        error.decode()
        .strip()
        .splitlines()[-1]
        .endswith("go on with: regard train lstm --out stopped --resume")
    )
    with pytest.raises(UserError, match="stopped before the end"):
        regard.load(tmp_path / "stopped")
    assert start(tmp_path, "lstm", "stopped", "--resume").wait(120) == 0
    assert files(tmp_path / "stopped") == files(tmp_path / "whole")


def test_stopped_before_the_first_validation_it_goes_on_too(tmp_path, text):
    options = {
        "text": str(text),
        "tokens": "char",
        "width": 16,
        "batch": 4,
        "steps": 9,
        "evaluate_every": 100,
    }
    regard.train("lstm", out=str(tmp_path / "whole"), **options)
    with pytest.raises(Interrupted, match="stopped at step 1"):
        regard.train(
            "lstm",
            out=str(tmp_path / "stopped"),
            listener=lambda report: signal.raise_signal(signal.SIGINT),
            **options,
        )
    assert regard.train("lstm", out=str(tmp_path / "stopped"), resume=True).steps == 9
    assert files(tmp_path / "stopped") == files(tmp_path / "whole")


def test_a_resumed_run_cannot_change_text_or_options(tmp_path, text, monkeypatch):
    monkeypatch.setattr(
        "regard.verbs.train.write_run", lambda *_, **__: (_ for _ in ()).throw(MachineError("full"))
    )
    with pytest.raises(MachineError):
        small(tmp_path / "run", text)
    monkeypatch.undo()
    with pytest.raises(UserError, match="`width` was 8 when"):
        regard.train("lstm", out=str(tmp_path / "run"), resume=True, width=16)
    with pytest.raises(UserError, match="holds a lstm, not a gru"):
        regard.train("gru", out=str(tmp_path / "run"), resume=True)
    text.write_text(TEXT + "more\n")
    with pytest.raises(UserError, match=r"text\.txt.*has changed"):
        regard.train("lstm", out=str(tmp_path / "run"), resume=True)
    text.write_text(TEXT)
    assert regard.train("lstm", out=str(tmp_path / "run"), resume=True).steps == 12
    with pytest.raises(UserError, match="is finished"):
        regard.train("lstm", out=str(tmp_path / "run"), resume=True)
    with pytest.raises(UserError, match="no training to resume"):
        regard.train("lstm", out=str(tmp_path / "none"), resume=True)


def test_a_disk_that_fills_while_saving_keeps_the_last_checkpoint(tmp_path, text, monkeypatch):
    saved = []
    write = checkpoint.write_tensors

    def fills(tensors, path):
        if len(saved) == 2:
            path.write_bytes(b"half")
            raise MachineError("could not be written: free some room")
        saved.append(path)
        write(tensors, path)

    monkeypatch.setattr(checkpoint, "write_tensors", fills)
    with pytest.raises(MachineError, match="free some room"):
        small(tmp_path / "run", text)
    assert checkpoint.load_checkpoint(tmp_path / "run")[1].step == 8
    assert not list((tmp_path / "run").glob("*.tmp"))
    monkeypatch.undo()
    regard.train("lstm", out=str(tmp_path / "run"), resume=True)
    small(tmp_path / "whole", text)
    assert files(tmp_path / "run") == files(tmp_path / "whole")


@pytest.mark.parametrize("before", [None, "empty"])
@pytest.mark.parametrize("other", [None, "thesis.tex"])
def test_a_disk_that_fills_while_a_counted_run_is_written_leaves_what_was_there(
    tmp_path, text, monkeypatch, before, other
):
    """There is nothing to go on with, so the same command can be typed again. Files of others stay."""
    run = tmp_path / "run"
    if before is not None:
        run.mkdir()

    def fills(data, path) -> None:
        assert (run / "model.safetensors").is_file()
        if other is not None:
            (run / other).write_text("mine")
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr("regard.runs.formats.folder.write_json", fills)
        with pytest.raises(OSError, match="No space left"):
            regard.train("ngram", text=text, out=run)
    there = sorted(path.name for path in tmp_path.rglob("*"))
    assert there == sorted([text.name, *(["run"] if before or other else []), *([other] if other else [])])
    if other is None:
        assert regard.train("ngram", text=text, out=run).run.folder == run


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_a_damaged_checkpoint_is_named_set_aside_and_the_one_before_it_is_used(tmp_path, text, monkeypatch):
    small(tmp_path / "whole", text, precision="fp32")
    monkeypatch.setattr(time, "perf_counter", itertools.count().__next__)  # a second a step: reported at each
    with pytest.raises(Interrupted):
        small(tmp_path / "run", text, listener=stop_at(9), precision="fp32")
    monkeypatch.undo()
    newest, before = (tmp_path / "run" / f"checkpoint-{step:08}" for step in (9, 8))
    flip(newest / "tensors.safetensors")
    words = (
        "checkpoint-00000009 is damaged and was renamed to damaged-checkpoint-00000009-1; "
        "checkpoint-00000008 is used"
    )
    with pytest.warns(Notice, match=words):
        regard.train("lstm", out=str(tmp_path / "run"), resume=True)
    assert files(tmp_path / "run") == files(tmp_path / "whole")
    assert (tmp_path / "run" / "damaged-checkpoint-00000009-1" / "tensors.safetensors").exists()
    assert not before.exists()


def test_without_a_whole_checkpoint_nothing_is_begun_again_and_nothing_is_removed(tmp_path, text):
    with pytest.raises(Interrupted):
        small(tmp_path / "run", text, listener=stop_at(1))
    flip(tmp_path / "run" / "checkpoint-00000001" / "tensors.safetensors")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UserError, match="checkpoint-00000001: is damaged, and there is no other checkpoint"):
        regard.train("lstm", out=str(tmp_path / "run"), resume=True)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_checkpoint_is_saved_again_where_a_damaged_one_stood(tmp_path):
    checkpoint.save_checkpoint(tmp_path, 3, {"x": torch.ones(2)}, {"step": 3})
    flip(tmp_path / "checkpoint-00000003" / "tensors.safetensors")
    checkpoint.save_checkpoint(tmp_path, 3, {"x": torch.full((2,), 3.0)}, {"step": 3})
    assert checkpoint.load_checkpoint(tmp_path)[0]["x"].tolist() == [3, 3]


def test_a_stopped_run_goes_on_wherever_it_lies_and_wherever_the_command_is_typed(
    tmp_path, text, monkeypatch
):
    whole = small(tmp_path / "whole", text)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Interrupted):
        small(Path("here/run"), Path("text.txt"), listener=stop_at(1))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    os.rename("../here", "../there")
    trained = regard.train("lstm", out="../there/run", resume=True, text="../text.txt")
    assert trained.loss == whole.loss
    assert regard.evaluate("../there/run").loss == trained.loss


def test_a_text_that_moves_with_its_run_is_found(tmp_path, text):
    (tmp_path / "a").mkdir()
    os.rename(text, tmp_path / "a" / "text.txt")
    small(tmp_path / "a" / "run", tmp_path / "a" / "text.txt")
    os.rename(tmp_path / "a", tmp_path / "b")
    assert regard.evaluate(tmp_path / "b" / "run").tokens > 0


def test_two_processes_never_write_one_run(tmp_path):
    with lock_folder(tmp_path / "run"):
        path = str(tmp_path / "run")
        code = (
            "from regard.machine.disk import lock_folder\nfrom pathlib import Path\n"
            f"with lock_folder(Path({path!r})): pass"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "another process is writing" in done.stderr


@pytest.mark.parametrize(
    ("presses", "words", "validations"),
    [
        ({"training"}, "^stopped at step 4, which is saved; ", 1),
        ({"training", "validating"}, "^stopped; ", 0),
    ],
)
def test_stopped_at_a_validation_it_goes_on(tmp_path, text, monkeypatch, presses, words, validations):
    """The first Ctrl-C waits for the validation and a checkpoint; the second one stops at once."""
    small(tmp_path / "whole", text, precision="fp32")

    def stop_at_four(report) -> None:
        if report.step == 4 and report.doing in presses:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as clock:
        clock.setattr(time, "perf_counter", itertools.count().__next__)  # a second a step: reported at each
        with pytest.raises(Interrupted, match=words + "go on with: regard train lstm --out "):
            small(tmp_path / "stopped", text, listener=stop_at_four, precision="fp32")
    assert len((tmp_path / "stopped" / "metrics.jsonl").read_text().splitlines()) == validations
    with (tmp_path / "stopped" / "samples.txt").open("a") as samples:
        samples.write("--- step 8\nwritten, then killed\n")
    regard.train("lstm", out=str(tmp_path / "stopped"), resume=True)
    assert files(tmp_path / "stopped") == files(tmp_path / "whole")
    assert (tmp_path / "stopped" / "samples.txt").read_text() == (
        tmp_path / "whole" / "samples.txt"
    ).read_text()


def stopped(out: Path, **options) -> None:
    with pytest.raises(Interrupted):
        regard.train(
            "lstm",
            out=str(out),
            width=8,
            batch=2,
            steps=9,
            listener=lambda _: signal.raise_signal(signal.SIGINT),
            **options,
        )


def test_what_a_stopped_run_cannot_go_on_with_is_told_and_stays(tmp_path, monkeypatch):
    folder, words = tmp_path / "texts", tmp_path / "words"
    folder.mkdir()
    (folder / "a.txt").write_text(TEXT)
    words.write_text("line\nsays\nand\n")
    options = {
        "text": str(folder),
        "valid": str(folder / "a.txt"),
        "vocabulary": str(words),
        "tensorboard": True,
        "tokens": "word",
    }
    stopped(tmp_path / "run", **options)
    words.write_text("and\nsays\nline\n")
    with pytest.raises(UserError, match="vocabulary has changed"):
        regard.train("lstm", out=str(tmp_path / "run"), resume=True)
    words.write_text("line\nsays\nand\n")
    (folder / "b.txt").write_text(TEXT)
    with pytest.raises(UserError, match="began with other files"):
        regard.train("lstm", out=str(tmp_path / "run"), resume=True)
    (folder / "b.txt").unlink()
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "torch.utils.tensorboard", None)
        with pytest.raises(UserError, match="extra package"):
            regard.train("lstm", out=str(tmp_path / "run"), resume=True)
    record = (tmp_path / "run" / "training.json").read_text()
    (tmp_path / "run" / "training.json").write_text(record[:100])
    with pytest.raises(UserError, match=r"training\.json is damaged"):
        regard.train("lstm", out=str(tmp_path / "run"), resume=True)
    (tmp_path / "run" / "training.json").write_text(record)
    assert regard.train("lstm", out=str(tmp_path / "run"), resume=True).steps == 9


def test_a_run_that_was_finished_meanwhile_is_not_written_over(tmp_path, text, monkeypatch):
    def late(folder: Path):
        """The lock, after another process held it and finished its run."""
        monkeypatch.setattr("regard.machine.shared_folder.lock_folder", lock_folder)
        small(folder, text)
        return lock_folder(folder)

    monkeypatch.setattr("regard.machine.shared_folder.lock_folder", late)
    with pytest.raises(UserError, match="holds another run"):
        small(tmp_path / "run", text, width=12)
    assert regard.load(tmp_path / "run").model.config.width == 8


def test_a_recipe_goes_on_with_what_it_began_with(tmp_path, text, monkeypatch):
    recipe = Recipe(family="lstm", figure="", options={"text": text.name, "width": 300, "tokens": "char"})
    monkeypatch.setitem(recipes.RECIPES, "toy", lambda: recipe)
    with pytest.raises(Interrupted):
        regard.train(
            recipe="toy",
            data=tmp_path,
            out=str(tmp_path / "run"),
            width=8,
            steps=5,
            listener=lambda report: signal.raise_signal(signal.SIGINT),
        )
    trained = regard.train(recipe="toy", data=tmp_path, out=str(tmp_path / "run"), resume=True)
    assert (trained.steps, trained.run.model.config.width) == (5, 8)


def test_stopped_while_measuring_nothing_is_trained_again(tmp_path, text, monkeypatch):
    small(tmp_path / "whole", text, steps=11)
    with monkeypatch.context() as broken:
        broken.setattr(
            "regard.training.tasks.plain_text.measure", lambda *_: signal.raise_signal(signal.SIGINT)
        )
        with pytest.raises(Interrupted, match="go on with: regard train lstm --out"):
            small(tmp_path / "stopped", text, steps=11)
    monkeypatch.setattr("regard.training.loop.set_rate", lambda *_: pytest.fail("trained again"))
    assert regard.train("lstm", out=str(tmp_path / "stopped"), resume=True).steps == 11
    assert files(tmp_path / "stopped") == files(tmp_path / "whole")
