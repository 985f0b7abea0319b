"""Nothing that took time is deleted; what was begun and not finished leaves its folder free."""

import errno
import os
import shutil
import signal
from functools import partial
from pathlib import Path

import pytest
import torch
from trainings import TEXT, small

import regard
from regard.cli import main
from regard.errors import Busy, Interrupted, MachineError, UserError
from regard.machine import disk
from regard.machine.disk import lock_file, lock_folder, write_atomically
from regard.runs.formats.folder import claim_free
from regard.training import checkpoint
from regard.training.log import _cut

COMPARED = {"families": ["ngram"], "tokens": "char", "tokens_each": 300}


def stops(report) -> None:
    signal.raise_signal(signal.SIGTERM)


def no_room(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_sigterm_saves_the_step_and_the_run_goes_on(tmp_path, text):
    whole = small(tmp_path / "whole", text)
    with pytest.raises(Interrupted, match="stopped at step 1, which is saved; go on with: regard train lstm"):
        small(tmp_path / "run", text, listener=stops)
    assert regard.train("lstm", out=tmp_path / "run", resume=True).loss == whole.loss


def test_a_folder_that_is_removed_while_in_use_is_trouble_of_the_machine(tmp_path, text):
    with pytest.raises(MachineError, match="run: was removed while regard was writing into it"):
        small(tmp_path / "run", text, listener=lambda report: shutil.rmtree(tmp_path / "run"))


def test_a_link_to_a_folder_is_a_folder_and_a_broken_one_is_told(tmp_path, text):
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to("disk")
    (tmp_path / "broken").symlink_to("nowhere")
    regard.train("ngram", text=text, out=tmp_path / "link", order=2)
    assert regard.load(tmp_path / "disk").model.order == 2
    for begin in (partial(regard.train, "ngram"), partial(regard.compare, families=["ngram"])):
        with pytest.raises(UserError, match="broken: is a link to a folder that is missing"):
            begin(text=text, out=tmp_path / "broken")
    with pytest.raises(UserError, match=r"text\.txt: is not an empty folder"):
        regard.train("ngram", text=text, out=text)


def test_two_processes_claim_two_folders(tmp_path):
    assert [claim_free("ngram", tmp_path / "runs").name for _ in range(3)] == ["ngram", "ngram-2", "ngram-3"]


def test_what_a_killed_process_was_writing_keeps_no_folder(tmp_path, text):
    run = tmp_path / "run"
    run.mkdir()
    for name in (".lock", ".regard-model.safetensors.7.tmp", ".regard-mark.tmp", "model.safetensors"):
        (run / name).write_bytes(b"half")
    regard.train("ngram", text=text, out=run, order=2)
    assert regard.load(run).model.order == 2
    other = tmp_path / "other"
    other.mkdir()
    (other / "model.safetensors").write_bytes(b"somebody's")
    with pytest.raises(UserError, match="not an empty folder"):
        regard.train("ngram", text=text, out=other)
    assert (other / "model.safetensors").read_bytes() == b"somebody's"


@pytest.mark.parametrize("failing", ["write_parts", "write_json"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_comparison_that_was_not_planned_leaves_nothing(tmp_path, text, monkeypatch, failing, error):
    def fail(*_):
        raise error

    with monkeypatch.context() as broken:
        broken.setattr(f"regard.verbs.compare.{failing}", fail)
        with pytest.raises(type(error)):
            regard.compare(text=text, out=tmp_path / "out", **COMPARED)
    assert not (tmp_path / "out").exists()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".regard-mark.tmp").touch()
    (tmp_path / "out" / "text").mkdir()
    (tmp_path / "out" / "text" / "train-00002.txt").write_text("of another text")
    compared = regard.compare(text=text, out=tmp_path / "out", **COMPARED)
    assert len(regard.load(compared.results[0].folder).config.texts.train) == 1


def test_a_training_that_a_refused_family_began_is_never_removed(tmp_path, text, monkeypatch):
    """All families are refused, but one had trained for a while: its checkpoints stay."""

    def refuse(*_):
        raise UserError("the test text is odd")

    monkeypatch.setattr("regard.verbs.compare._measured", refuse)
    with pytest.raises(UserError, match="odd"):
        regard.compare(text=text, out=tmp_path / "out", **COMPARED)
    assert regard.load(tmp_path / "out" / "ngram").model.order == 5
    assert (tmp_path / "out" / "plan.json").exists()


def test_the_figures_are_kept_when_the_drawing_engine_aborts_and_resume_draws(
    tmp_path, text, monkeypatch, capsys
):
    with monkeypatch.context() as limited:
        limited.setattr("regard.inside.drawing.TO_SVG", "import os; os.abort()")
        with pytest.raises(MachineError, match=r"SIGABRT.*the figures are in .*results\.json.*--resume"):
            regard.compare(text=text, out=tmp_path / "out", **COMPARED)
    assert (tmp_path / "out" / "results.json").is_file()
    assert main(["compare", "--out", str(tmp_path / "out"), "--resume", "--json"]) == 0
    assert {"report.html", "report.md", "comparison.svg"} <= names(tmp_path / "out")
    (tmp_path / "out" / "comparison.svg").unlink()
    assert main(["compare", "--out", str(tmp_path / "out"), "--resume", "--json"]) == 0
    assert (tmp_path / "out" / "comparison.svg").is_file()
    assert main(["compare", "--out", str(tmp_path / "out"), "--resume"]) == 2
    assert "nothing to resume" in capsys.readouterr().err


@pytest.mark.parametrize("ending", ["json", "html", "tsv", "svg"])
def test_a_full_disk_keeps_the_old_file(tmp_path, text, monkeypatch, capsys, ending):
    regard.train("ngram", text=text, out=tmp_path / "run", order=2)
    kept = tmp_path / f"kept.{ending}"
    kept.write_text("the old one")
    with monkeypatch.context() as full:
        full.setattr(disk, "flush", no_room)
        assert main(["look", str(tmp_path / "run"), "--text", "line 3", "--out", str(kept)]) == 1
    assert "the disk is full" in capsys.readouterr().err
    assert kept.read_text() == "the old one"
    assert names(tmp_path) == {"run", text.name, kept.name}


def test_the_error_names_the_file_and_not_its_temporary_name(tmp_path):
    with pytest.raises(OSError, match="none/it"):
        write_atomically(tmp_path / "none" / "it", b"")
    write_atomically(tmp_path / ("é" * 127), b"long")  # 254 bytes, of the 255 that a name may have
    assert len(names(tmp_path)) == 1


def test_one_process_exports_to_a_path(tmp_path, text):
    regard.train("ngram", text=text, out=tmp_path / "run", order=2, document="line")
    with lock_file(tmp_path / ".regard-out.arpa.lock", tmp_path / "out.arpa"), pytest.raises(Busy):
        regard.export(tmp_path / "run", tmp_path / "out.arpa")
    (tmp_path / "dangling").symlink_to("nowhere")
    with pytest.raises(UserError, match="dangling: exists already"):
        regard.export(tmp_path / "run", tmp_path / "dangling")
    regard.export(tmp_path / "run", tmp_path / "out.arpa")
    assert names(tmp_path) == {"run", "out.arpa", "dangling", text.name}


def test_the_lock_says_whether_it_made_the_folder(tmp_path):
    with lock_folder(tmp_path / "a" / "b") as created:
        assert created
    with lock_folder(tmp_path / "a" / "b") as created:
        assert not created


def test_a_checkpoint_is_removed_by_the_names_of_its_files(tmp_path):
    for step in (1, 2, 3):
        checkpoint.save_checkpoint(tmp_path, step, {"x": torch.ones(1)}, {"step": step})
        (tmp_path / f"checkpoint-{step:08}" / "thesis.tex").write_text("mine")
    checkpoint.remove_checkpoints(tmp_path)
    assert [names(path) for path in sorted(tmp_path.iterdir())] == [{"thesis.tex"}] * 3


def test_checkpoints_are_counted_as_numbers(tmp_path):
    for step in (99_999_999, 100_000_000):
        checkpoint.save_checkpoint(tmp_path, step, {"x": torch.ones(1)}, {"step": step})
    (tmp_path / "checkpoint-mine").mkdir()
    _, progress = checkpoint.load_checkpoint(tmp_path)
    assert progress.step == 100_000_000


@pytest.mark.parametrize("end", ["\u2028", "\x85", "\r", "\x0b"])
def test_samples_with_odd_line_ends_are_cut_at_their_heads(tmp_path, end):
    path = tmp_path / "samples.txt"
    kept = f"--- step 1\n    a{end}--- step 7\n".encode()
    path.write_bytes(kept + b"--- step 2\n    half")
    _cut(path, b"--- step ", 1)
    assert path.read_bytes() == kept


def test_a_log_that_lost_lines_is_told(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n')
    with pytest.warns(regard.Notice, match="has lost lines: it holds 1 of 2 validations"):
        _cut(tmp_path / "metrics.jsonl", b"", 2)


def test_names_that_are_not_utf8_are_one_line(tmp_path, capsys):
    folder = os.fsencode(tmp_path) + b"/texts"
    os.mkdir(folder)
    Path(os.fsdecode(folder + b"/a\xe9b.txt")).write_text(TEXT)
    assert main(["train", "ngram", "--text", str(tmp_path / "texts"), "--out", str(tmp_path / "run")]) == 2
    told = capsys.readouterr().err
    assert "is not UTF-8: rename it first" in told
    assert told.count("\n") <= 2  # a notice about the held-out tenth may stand before
    assert not (tmp_path / "run").exists()


def test_a_changed_progress_or_plan_of_a_training_is_never_gone_on_with(tmp_path, text):
    with pytest.raises(Interrupted):
        small(tmp_path / "run", text, listener=stops)
    record = tmp_path / "run" / "training.json"
    whole = record.read_text()
    record.write_text(whole.replace('"batch": 4', '"batch": 5'))
    with pytest.raises(UserError, match=r"training\.json was changed"):
        regard.train("lstm", out=tmp_path / "run", resume=True)
    record.write_text(whole)
    progress = tmp_path / "run" / "checkpoint-00000001" / "progress.json"
    progress.write_text(progress.read_text().replace('"step": 1', '"step": 2'))
    with pytest.raises(UserError, match="checkpoint-00000001: is damaged"):
        regard.train("lstm", out=tmp_path / "run", resume=True)


def test_a_checkpoint_of_another_training_is_told(tmp_path, text):
    for name, width in (("run", 8), ("other", 6)):
        with pytest.raises(Interrupted):
            small(tmp_path / name, text, listener=stops, width=width)
    shutil.rmtree(tmp_path / "run" / "checkpoint-00000001")
    (tmp_path / "other" / "checkpoint-00000001").rename(tmp_path / "run" / "checkpoint-00000001")
    with pytest.raises(UserError, match=r"its checkpoint is of another training than its training\.json"):
        regard.train("lstm", out=tmp_path / "run", resume=True)


@pytest.mark.parametrize(
    "record", ["[]", "null", "{}", '{"step": "x"}', '{"place": -5}', '{"step": 1e30}', "[" * 10**5, "{"]
)
def test_no_progress_is_taken_that_was_not_written(tmp_path, record):
    checkpoint.save_checkpoint(tmp_path, 3, {"x": torch.ones(2)}, {"step": 3})
    (tmp_path / "checkpoint-00000003" / "progress.json").write_text(record)
    with pytest.raises(UserError, match="is damaged, and there is no other checkpoint"):
        checkpoint.load_checkpoint(tmp_path)
