"""Scoring with n-grams beside KenLM, in turn: from ids, from text, and the whole commands; and `evaluate`.

    python bench/ngram_scoring.py --data ../shared/data/wikitext-2 --kenlm /path/to/kenlm/build/bin --cpu

KenLM's programs (build_binary, query) are built from its own sources. KenLM refuses a literal `<unk>`, so it
reads the same text with that word written `\\<unk>`. KenLM has no call for ids of a whole text.

With --cpu, time is that of the processor: for a machine on which other programs run. Both sides have one
thread.
"""

import argparse
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import kenlm
import torch

import regard
from regard.machine.timing import Speeds, interleaved
from regard.models import ngram
from regard.models.ngram import Ngram
from regard.probabilities.measures import losses_in_order, read_examples, token_losses
from regard.runs.run import Run
from regard.tokens.contract import Encoded

COPIES = 16  # of the test text, for whole commands


def by_rows(model: Ngram, text: Encoded) -> torch.Tensor:
    """-log P of each token by the search in the sorted keys."""
    nll_N = torch.empty(len(text), dtype=torch.float64)
    for rows, prediction in read_examples(model, text):
        scored_BT = rows.places_BT >= 0
        nll_N[rows.places_BT[scored_BT]] = prediction.nll(rows.targets_BT)[scored_BT].double()
    return nll_N


def shown(speeds: Speeds, name: str, peer: str | None = None) -> str:
    speed = speeds.spread(name)
    text = f"{speed.median / 1e6:.2f} M words/s [{speed.low / 1e6:.2f}-{speed.high / 1e6:.2f}]"
    if peer is None:
        return text
    ratio = speeds.ratio(name, peer)
    return f"{text}, {ratio.median:.2f} [{ratio.low:.2f}-{ratio.high:.2f}] of KenLM"


def make_tables(run: Run, text: Encoded, clock: Callable[[], float]) -> None:
    """Make the hash tables; print their size and time, and check that the numbers are the same."""
    model = run.language_model
    assert isinstance(model, Ngram)
    expected = by_rows(model, text)
    ngram.NGRAMS_PER_TOKEN = 1 << 40
    began = clock()
    losses = model.losses_of_text(text)
    seconds = clock() - began
    assert losses is not None
    assert torch.equal(torch.cat([*losses]), expected)
    ngrams = sum(len(model.get_buffer(f"key_{order}")) for order in range(2, model.order + 1))
    assert model._lookups is not None
    size = sum(lookup.bytes for lookup in model._lookups.values())
    about = f"{size / 1e6:.0f} MB, {size / ngrams:.1f} bytes an n-gram, made in {seconds:.2f} s"
    print(f"  hash tables of {ngrams:,} n-grams: {about}; numbers equal to the bit with the search")


def in_memory(run: Run, file: Path, theirs: "kenlm.Model", passes: int, clock: Callable[[], float]) -> None:
    text = file.read_text()
    lines = text.replace("<unk>", "\\<unk>").splitlines()
    encoded = run.tokenizer.encode(text)
    model, words = run.language_model, len(encoded)
    make_tables(run, encoded, clock)
    scores = [score for line in lines for score, _, _ in theirs.full_scores(line)]
    ours = (token_losses(model, encoded) / -math.log(10)).tolist()
    print(
        f"  largest difference from KenLM: {max(abs(a - b) for a, b in zip(ours, scores, strict=True)):.1e}"
    )
    ways = {
        "search in sorted keys, from ids": lambda: by_rows(model, encoded),
        "ids to numbers": lambda: [*losses_in_order(model, encoded)],
        "text to ids": lambda: run.tokenizer.encode(text),
        "text to numbers": lambda: token_losses(model, run.tokenizer.encode(text)),
        "regard.evaluate, from the file": lambda: regard.evaluate(run, str(file)),
        "regard.score, totals of lines": lambda: [*regard.score(run, str(file)).totals()],
        "KenLM, score() of each line": lambda: [theirs.score(line) for line in lines],
        "KenLM, full_scores() of each line": lambda: [[*theirs.full_scores(line)] for line in lines],
    }

    def working(way: Callable[[], object]) -> Callable[[], float]:
        def work() -> float:
            way()
            return words

        return work

    speeds = interleaved({name: working(way) for name, way in ways.items()}, passes, clock)
    for name in ways:
        print(f"  {name:<34} {shown(speeds, name, 'KenLM, score() of each line')}")


def seconds_of(command: list[str], given: Path, cpu: bool) -> float:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with given.open("rb") as file:
        subprocess.run(command, stdin=file, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - began
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime if cpu else wall


def whole_commands(
    run: Path, query: Path, binary: Path, file: Path, work: Path, passes: int, cpu: bool
) -> None:
    """Seconds for a long text and for one word, in turn: the difference is the time for the words."""
    text = file.read_text()
    words = (COPIES * (len(text.split()) + text.count("\n"))) / 1e6
    for name, content in {"long": text * COPIES, "short": "a\n"}.items():
        (work / name).write_text(content)
        (work / f"kenlm-{name}").write_text(content.replace("<unk>", "\\<unk>"))
    score = [sys.executable, "-m", "regard", "score", str(run), "--text", "-"]
    commands = {
        "regard score": ("", score),
        "regard score --totals": ("", [*score, "--totals"]),
        "query -v word": ("kenlm-", [str(query), "-v", "word", str(binary)]),
        "query -v sentence": ("kenlm-", [str(query), "-v", "sentence", str(binary)]),
    }
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for _ in range(passes):
        for name, (prefix, command) in commands.items():
            long, short = (seconds_of(command, work / f"{prefix}{size}", cpu) for size in ("long", "short"))
            seconds[name].append((long, short))
    print(f"  whole commands, {words:.1f} M words: seconds, of these for one word, M words/s after the start")
    for name, pairs in seconds.items():
        long, short, speed = (
            sorted(values) for values in zip(*((a, b, words / (a - b)) for a, b in pairs), strict=True)
        )
        middle = passes // 2
        spread = f"[{speed[0]:.2f}-{speed[-1]:.2f}]"
        print(f"  {name:<34} {long[middle]:.2f}, {short[middle]:.2f}, {speed[middle]:.2f} {spread}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--kenlm", type=Path)
    parser.add_argument("--orders", type=int, nargs="+", default=[3, 5])
    parser.add_argument("--passes", type=int, default=9)
    parser.add_argument("--cpu", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    clock = time.process_time if options.cpu else time.perf_counter
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for order in options.orders:
            out, arpa = work / f"run-{order}", work / f"{order}.arpa"
            text = str(options.data / "train.txt")
            regard.train("ngram", text=text, document="line", hold=0, order=order, out=str(out))
            regard.export(str(out), arpa)
            print(f"order {order}")
            test = options.data / "test.txt"
            quiet = kenlm.Config()
            quiet.show_progress = False
            in_memory(regard.load(out), test, kenlm.Model(str(arpa), quiet), options.passes, clock)
            if options.kenlm:
                binary = work / f"{order}.binary"
                build = [options.kenlm / "build_binary", "probing", arpa, binary]
                subprocess.run(build, check=True, capture_output=True)
                commands = options.kenlm / "query", binary, test, work
                whole_commands(out, *commands, passes=max(3, options.passes // 3), cpu=options.cpu)


if __name__ == "__main__":
    main()
