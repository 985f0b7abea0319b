"""n-grams beside KenLM, interleaved on the same cores: every token's probability, estimation, memory, growth.
bench/ngram_scoring.py measures scoring.

    python bench/ngram_kenlm.py --data ../shared/data/wikitext-2 --kenlm /path/to/kenlm/build/bin

KenLM's programs (lmplz, build_binary, query) are built from its own sources; they are a peer, not a
dependency. KenLM refuses a literal `<unk>`, so it reads the same text with that word written `\\<unk>`, which
is how our ARPA files write it.
"""

import argparse
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import regard
from regard.models.ngram import Ngram
from regard.probabilities.measures import token_losses
from regard.tokens.choose import TokenOptions, train_tokenizer

PASSES = 5
LAUNCH = """
import os, sys, time
began = time.perf_counter()
null = os.open(os.devnull, os.O_WRONLY)
actions = [(os.POSIX_SPAWN_DUP2, null, 1), (os.POSIX_SPAWN_DUP2, null, 2)]
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=actions)
_, status, usage = os.wait4(pid, 0)
assert status == 0
print(time.perf_counter() - began, usage.ru_maxrss / 1024)
"""


def timed(command: list[str], **more) -> tuple[float, float]:
    """Seconds and peak MiB of a program, started from a small one: a child's peak counts its parent's size at
    the fork.
    """
    small = [sys.executable, "-S", "-c", LAUNCH, *command]
    seconds, memory = subprocess.run(small, capture_output=True, text=True, check=True, **more).stdout.split()
    return float(seconds), float(memory)


def shown(values: list[float]) -> str:
    return f"{sorted(values)[len(values) // 2]:.2f} [{min(values):.2f}-{max(values):.2f}]"


def estimate(text: Path, order: int) -> None:
    """Run in a process of its own: text in memory to a finished model, and the peak memory."""
    began = time.perf_counter()
    tokenizer, encoded = train_tokenizer([text.read_text()], TokenOptions(tokens="word", document="line"))
    model = Ngram(tokenizer.size, Ngram.Config(order=order))
    model.fit(encoded)
    peak = next(
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")
    )
    print(time.perf_counter() - began, int(peak.split()[1]) / 1024)


def our_estimate(text: Path, order: int) -> tuple[float, float]:
    command = [sys.executable, __file__, "--estimate", str(text), "--order", str(order)]
    seconds, memory = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return float(seconds), float(memory)


def beside_kenlm(data: Path, kenlm: Path, work: Path, order: int) -> None:
    train, test = work / "train.txt", data / "test.txt"
    theirs = work / f"kenlm-{order}.arpa"
    lmplz = [
        str(kenlm / "lmplz"),
        "-o",
        str(order),
        "-S",
        "200M",
        "-T",
        str(work),
        "--text",
        str(train),
        "--arpa",
        str(theirs),
    ]
    rows: dict[str, list[tuple[float, float]]] = {
        "lmplz": [],
        "ours, text to model": [],
        "ours, whole command": [],
    }
    for number in range(PASSES):
        out = work / f"run-{order}-{number}"
        rows["lmplz"].append(timed(lmplz))
        rows["ours, text to model"].append(our_estimate(data / "train.txt", order))
        command = [
            "train",
            "ngram",
            "--text",
            str(data / "train.txt"),
            "--document",
            "line",
            "--hold",
            "0",
            "--order",
            str(order),
            "--out",
            str(out),
        ]
        rows["ours, whole command"].append(timed([sys.executable, "-m", "regard", *command]))
    print(f"\norder {order}: estimation, seconds and MiB, median [range] of {PASSES}")
    for name, values in rows.items():
        print(f"  {name:<22} {shown([s for s, _ in values]):<22} {max(m for _, m in values):.0f} MiB")
    run = regard.load(work / f"run-{order}-0")
    measured = regard.evaluate(run, str(test))
    print(f"  test perplexity {measured.perplexity:.4f} on {measured.tokens} tokens")
    encoded = run.tokenizer.encode(test.read_text())
    ours = -token_losses(run.language_model, encoded) / math.log(10)
    arpa = regard.export(run, work / f"ours-{order}.arpa")
    for name, path in {"lmplz's ARPA, KenLM's reader": theirs, "our ARPA, KenLM's reader": arpa}.items():
        print(f"  {name}: largest difference {difference(path, work / 'test.txt', ours):.2e} in log10")
    read = regard.load(theirs)
    again = -token_losses(read.language_model, read.tokenizer.encode(test.read_text())) / math.log(10)
    print(f"  lmplz's ARPA, our reader: largest difference {float((again - ours).abs().max()):.2e} in log10")


def difference(arpa: Path, text: Path, ours) -> float:
    import kenlm

    model = kenlm.Model(str(arpa))
    theirs = [score for line in text.read_text().splitlines() for score, _, _ in model.full_scores(line)]
    assert len(theirs) == len(ours)
    return max(abs(a - b) for a, b in zip(theirs, ours.tolist(), strict=True))


def growth(data: Path, work: Path) -> None:
    print("\ngrowth of estimation: tokens, order, seconds, peak MiB")
    text = (data / "train.txt").read_text()
    for share in (8, 4, 2, 1):
        part = work / "part.txt"
        part.write_text(text[: len(text) // share])
        seconds, memory = our_estimate(part, 5)
        print(f"  {2_088_628 // share:>9,}  5  {seconds:.2f}  {memory:.0f}")
    for order in (1, 2, 3, 4, 6, 8):
        seconds, memory = our_estimate(data / "train.txt", order)
        print(f"  {2_088_628:>9,}  {order}  {seconds:.2f}  {memory:.0f}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path)
    parser.add_argument("--kenlm", type=Path)
    parser.add_argument("--orders", type=int, nargs="+", default=[3, 5])
    parser.add_argument("--estimate", type=Path)
    parser.add_argument("--order", type=int)
    options = parser.parse_args()
    if options.estimate:
        estimate(options.estimate, options.order)
        return
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for name in ("train", "test"):
            (work / f"{name}.txt").write_text(
                (options.data / f"{name}.txt").read_text().replace("<unk>", "\\<unk>")
            )
        for order in options.orders:
            beside_kenlm(options.data, options.kenlm, work, order)
        growth(options.data, work)


if __name__ == "__main__":
    main()
