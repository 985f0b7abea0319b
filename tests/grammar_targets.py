"""The readers of files that tests/grammars.py writes (tests/test_grammars.py, bench/fuzz.py)."""

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import grammars
from fuzzed import TEXT, outcome, targets
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

import regard
from regard.errors import UserError
from regard.inside.edit_files import read_edits
from regard.lessons.lesson import inputs_of
from regard.machine.disk import file_hash
from regard.page.catalogue import Catalogue
from regard.text import captions, labelled, parallel
from regard.text.word_pairs import read_word_pairs

LESSONS = ("averaging", "attention", "scores", "positions", "masking")  # those that take no time


@dataclass(frozen=True)
class Grammar:
    """A file of a folder, the strategy that writes it, and what reads the folder."""

    name: str
    file: Path
    contents: SearchStrategy[Any]
    read: Callable[[Path], object]
    hashed: bool = False  # config.json holds the file's hash, which is made right again
    begin: Callable[[], object] = lambda: None  # makes the folder new before the file is written
    slow: bool = False

    def attempt(self, content: bytes) -> str:
        """Write the file and read it. Return what came of it; any other exception is a failure."""
        self.begin()
        self.file.write_bytes(content)
        if self.hashed:
            place = self.file.with_name("config.json")
            config = json.loads(place.read_text())
            config["files"][self.file.name] = file_hash(self.file)
            place.write_text(json.dumps(config))
        return outcome(lambda: self.read(self.file))

    def hunt(self, first: int, many: int, tell: Callable[[str], None] = lambda what: None) -> None:
        """Try many files. A failure is shrunk to a small file before it is raised."""

        @seed(first)
        @settings(max_examples=many, database=None, deadline=None, report_multiple_bugs=False)
        @given(self.contents)
        def check(content: bytes) -> None:
            tell(self.attempt(content))

        check()


def _folder(path: Path) -> Path:
    path.mkdir(parents=True)
    return path


def grammar_targets(folder: Path) -> list[Grammar]:
    """Make the readers, with good files beside those that are written."""
    found = [*_texts(_folder(folder / "texts")), *_models(_folder(folder / "models"))]
    return [*found, *_runs(folder, _folder(folder / "runs")), *_comparisons(_folder(folder / "compared"))]


def _texts(at: Path) -> Iterator[Grammar]:
    """Tables and lists: labels, pairs, captions, boxes, links, word lists."""
    regard.scenes(at / "scenes")
    (at / "captions.tsv").write_text("00.png\ta red circle\n01.png\ta blue square\n")
    (at / "back.txt").write_text("0-0 1-1\n0-2\n2-2\n")
    pictured = grammars.CAPTIONS.map(
        lambda text: text.replace(b"a.png", b"00.png").replace(b"b.png", b"01.png")
    )

    def linked(path: Path) -> None:
        regard.align(links=path, reverse_links=at / "back.txt", symmetry="grow-diag-final-and")
        regard.align(score=path, gold=at / "back.txt")

    yield Grammar(
        "labels", at / "labels.tsv", grammars.LABELLED, lambda path: labelled.read_labelled([str(path)])
    )
    yield Grammar(
        "labels as JSON lines", at / "labels.jsonl", grammars.LABELLED_LINES,
        lambda path: labelled.read_labelled([str(path)]),
    )  # fmt: skip
    yield Grammar(
        "labels in a table", at / "table.tsv", grammars.TABLE,
        lambda path: labelled.read_labelled([str(path)], ("good", "text")),
    )  # fmt: skip
    yield Grammar("pairs", at / "pairs.tsv", grammars.PAIRS, lambda path: parallel.read_table(str(path)))
    yield Grammar("captions", at / "own.tsv", pictured, lambda path: captions.read(at / "scenes", path))
    yield Grammar(
        "boxes", at / "boxes.tsv", grammars.BOXES,
        lambda path: captions.read(at / "scenes", at / "captions.tsv", boxes=path),
    )  # fmt: skip
    yield Grammar("links", at / "there.txt", grammars.LINKS, linked)
    yield Grammar("word list", at / "list.tsv", grammars.WORD_PAIRS, read_word_pairs)


def _models(at: Path) -> Iterator[Grammar]:
    """Models of other tools, and weights to draw."""

    def counted(path: Path) -> None:
        run = regard.load(path)
        (at / "given").write_text("a b\na\n")
        regard.evaluate(run, at / "given")
        regard.generate(run, "a", length=2)

    def asked(path: Path) -> None:
        regard.words(path, "a")

    yield Grammar("ARPA", at / "model.arpa", grammars.changed(grammars.arpa()), counted)
    yield Grammar("word2vec", at / "a.vec", grammars.changed(grammars.word2vec(False)), asked)
    yield Grammar("word2vec, binary", at / "a.bin", grammars.changed(grammars.word2vec(True)), asked)
    for ending, contents in ((".json", grammars.MAPS), (".npz", grammars.changed(grammars.arrays()))):
        yield Grammar(
            f"draw {ending}", at / f"map{ending}", contents,
            lambda path: regard.draw(path, at / "map.svg"),
        )  # fmt: skip

    def learned(pair: tuple[str, str]) -> bytes:
        return json.dumps(pair).encode()

    def taught(path: Path) -> None:
        lesson, setting = json.loads(path.read_bytes())
        regard.lesson(lesson, set=(setting,), out=at / "lesson.html")

    settings = grammars.lesson_settings({name: inputs_of(name) for name in LESSONS})
    yield Grammar("lesson settings", at / "setting.json", settings.map(learned), taught)


def _runs(good: Path, at: Path) -> Iterator[Grammar]:
    """The JSON of runs, with the good weights beside it, and edits of a run."""
    by_name = {target.name: target for target in targets(good / "good")}
    for name in ("ngram", "lstm", "transformer", "gpt2"):
        for file in ("config.json", "tokenizer.json"):
            target = by_name[f"{name}/{file}:json"]
            scratch = at / f"{name}-{file}"
            target.copy(scratch)
            values = json.loads((scratch / file).read_bytes())
            yield Grammar(
                f"{name}/{file}", scratch / file, grammars.as_json(grammars.varied(values)),
                lambda path, target=target: target.read(path.parent), target.hashed,
            )  # fmt: skip
            if file == "config.json" and name == "lstm":
                yield Grammar(
                    "list of the lab", scratch / file, grammars.as_json(grammars.varied(values)),
                    lambda path: Catalogue([], path.parent).infos(),
                )  # fmt: skip
    for name, target in by_name.items():
        if target.slow and name.endswith(".json:json"):
            scratch = at / name.replace("/", "-").replace(":", "-")
            values = json.loads((target.folder / target.file).read_bytes())

            yield Grammar(
                name, scratch / target.file, grammars.as_json(grammars.varied(values)),
                lambda path, target=target, scratch=scratch: target.read(scratch),
                begin=lambda target=target, scratch=scratch: target.copy(scratch), slow=True,
            )  # fmt: skip
    model = regard.load(good / "good" / "transformer")

    def edited(path: Path) -> None:
        regard.look(regard.edited(model, read_edits(path, None)), "the cat saw")

    yield Grammar("edits", at / "edit.json", grammars.EDITS, edited)


def _comparisons(at: Path) -> Iterator[Grammar]:
    """The plan and the log of a comparison that was stopped before its report."""
    text = at / "text"
    text.write_text(TEXT * 3)
    labels = at / "labels.tsv"
    labels.write_text("".join(f"{'odd' if n % 2 else 'even'}\tline {n} says {n % 7}\n" for n in range(60)))
    drawn = ("compare.write_report", "compare_labels._write_report")  # drawing takes seconds
    with patch(f"regard.verbs.{drawn[0]}"), patch(f"regard.verbs.{drawn[1]}"):
        regard.compare(text=text, families=["ngram", "dan"], tokens="char", tokens_each=300, out=at / "plain")
        regard.compare(labelled=labels, families=["dan:mean"], minutes=1e-4, out=at / "labelled")
    trains = UserError("a training begins")

    def resumed(path: Path) -> None:
        with contextlib.ExitStack() as stack:
            for name in (*drawn, "compare.train", "compare_labels.train"):
                error = None if name in drawn else trains
                stack.enter_context(patch(f"regard.verbs.{name}", side_effect=error))
            regard.compare(out=path.parent, resume=True)

    for folder, file in (("plain", "plan.json"), ("labelled", "labels-plan.json")):
        values = json.loads((at / folder / file).read_bytes())
        contents = grammars.as_json(grammars.varied(values))
        yield Grammar(f"{folder}/{file}", at / folder / file, contents, resumed)
    rows = [json.loads(line) for line in (at / "plain/dan/metrics.jsonl").read_text().splitlines()]
    lines = st.lists(st.just(rows[0]) | grammars.varied(rows[0]), max_size=2)
    log = lines.map(lambda values: "".join(json.dumps(value) + "\n" for value in values).encode())
    shutil.copytree(at / "plain", at / "logged")
    yield Grammar(
        "metrics.jsonl", at / "logged/dan/metrics.jsonl", grammars.changed(log),
        lambda path: resumed(at / "logged/plan.json"),
    )  # fmt: skip
