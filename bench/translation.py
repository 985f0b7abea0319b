"""Translators: how right their alignments are, whether attention stops the fall on long sentences, how fast
they decode.

Hugging Face's MarianMT of the same size stands beside them.

python bench/translation.py [--only aer length speed small] [--tatoeba ../shared/data/tatoeba/eng-spa.tsv]
[--minutes 2]
    [--runs WITH WITHOUT --out length.svg] [--joeynmt CHECKOUT]
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import altair as alt
import torch

import regard
from regard.inside.output import write_chart
from regard.machine.device import in_precision
from regard.models.transformer_translator import TransformerTranslator
from regard.probabilities.beams import beam_search
from regard.probabilities.links import Symmetry
from regard.probabilities.quality import bleu
from regard.text import parallel
from regard.verbs.align import Aligned


def aer(work: Path, options: argparse.Namespace) -> None:
    """Every way of reading alignments from attention, beside counting, on the same held-out pairs of the
    built-in text.
    """
    train, valid = parallel.hold_out(parallel.built_in())
    turned = Path(work / "turned.tsv")
    turned.write_text(
        "".join(f"{target}\t{source}\n" for source, target in zip(train.sources, train.targets, strict=True))
    )
    for family in ("recurrent-translator", "transformer-translator"):
        run, back = (
            regard.train(family, out=str(work / f"{family}{pairs}"), pairs=pairs).run
            for pairs in (None, str(turned))
        )
        print(
            f"{family}: BLEU {run.config.figures['bleu']:.1f}, trained in {run.config.seconds:.0f} s",
            flush=True,
        )
        for way in ("shifted", "naive"):
            for sinks in (False, True):
                aligned = regard.align(run, pairs=valid, way=way, sinks=sinks)
                seen = "sinks seen" if sinks else "sinks masked"
                print(
                    f"  {way}, {seen}: {_figures(aligned)} ({aligned.site} head {aligned.head})", flush=True
                )
        for how in get_args(Symmetry):
            aligned = regard.align(run, pairs=valid, reverse=back, symmetry=how)
            print(f"  both directions, {how}: {_figures(aligned)}", flush=True)
    for pairs, where in (
        (valid, "the held-out pairs alone"),
        (parallel.built_in(), "all pairs, which are measured"),
    ):
        for by in ("model-1", "hmm"):
            for how in (None, *get_args(Symmetry)):
                scores = _figures(regard.align(pairs=pairs, by=by, symmetry=how))
                print(
                    f"{by}, {how or 'one direction'}, counted on {where}: {scores}",
                    flush=True,
                )


def _figures(aligned: Aligned) -> str:
    measured = aligned.figures()
    return f"AER {measured['aer']:.3f}, on {measured['measured_on']} pairs"


BINS = ((1, 3), (4, 5), (6, 7), (8, 9), (10, 12), (13, 16), (17, 99))  # source words


def length(work: Path, options: argparse.Namespace) -> None:
    """With and without attention, by the length of the source: does attention stop the fall? --runs names two
    that are trained already.
    """
    runs = [regard.load(path) for path in options.runs]
    for score in () if runs else ("bilinear", "none"):
        runs.append(
            regard.train(
                "recurrent-translator",
                pairs=str(options.tatoeba),
                out=str(work / score),
                score=score,
                tokens="bpe",
                bpe_size=8000,
                shared=True,
                width=256,
                minutes=options.minutes,
                batch_tokens=2048,
                label_smoothing=0.1,
                evaluate_every=500,
            ).run
        )
    rows = []
    for run in runs:
        pairs = run.held_out_pairs()
        written = [best[0].text for best in regard.translate(run, list(pairs.sources), beam=5)]
        name = f"{run.config.family}, " + (
            "no attention" if run.config.model.get("score") == "none" else "attention"
        )
        print(
            f"{name}: loss {run.config.loss:.3f}, BLEU {bleu(written, pairs.targets).score:.1f}", flush=True
        )
        for low, high in BINS:
            some = [
                place
                for place, source in enumerate(pairs.sources)
                if low <= len(parallel.words(source)) <= high
            ]
            quality = (
                bleu([written[place] for place in some], [pairs.targets[place] for place in some]).score
                if some
                else 0.0
            )
            label = f"{low}-{high}" if high < 99 else f"{low} and more"
            rows.append({"model": name, "source words": label, "BLEU": quality, "sentences": len(some)})
            print(f"  {label} words: BLEU {quality:.1f} ({len(some)} sentences)", flush=True)
    if options.out is not None:
        order = list(dict.fromkeys(row["source words"] for row in rows))
        chart = alt.Chart(alt.Data(values=rows), width=420, height=240).mark_line(point=True)
        chart = chart.encode(
            x=alt.X("source words:N", sort=order, axis=alt.Axis(labelAngle=0)),
            y=alt.Y("BLEU:Q", scale=alt.Scale(zero=True)),
            color=alt.Color("model:N", title=None, scale=alt.Scale(range=["#0072B2", "#D55E00", "#009E73"])),
        )
        write_chart(chart, options.out)


def _speed(model: TransformerTranslator, rows: int, read: int, write: int, beam: int) -> float:
    source_BS = torch.randint(0, model.source_size or 1, (rows, read))
    began = time.perf_counter()
    with torch.inference_mode():
        longest_B = torch.full((rows,), write + 1)
        hypotheses = beam_search(model, model.begin(source_BS), 0, beam, longest_B, exactly=write + 1)
    seconds = time.perf_counter() - began
    assert all(len(row[0].ids) == write for row in hypotheses)
    return rows / seconds


def speed(work: Path, options: argparse.Namespace) -> None:
    """Beam 5, 64 sentences of 20 tokens, 20 tokens written, 3 + 3 layers of 256, 8,000 tokens: beside a
    MarianMT of the same size.
    """
    from transformers import MarianConfig, MarianMTModel

    rows, read, write, beam, size = 64, 20, 20, 5, 8000
    config = MarianConfig(
        vocab_size=size,
        d_model=256,
        encoder_layers=3,
        decoder_layers=3,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=1024,
        decoder_ffn_dim=1024,
        max_position_embeddings=64,
        pad_token_id=size - 1,
        eos_token_id=0,
        decoder_start_token_id=size - 1,
        forced_eos_token_id=0,
        bos_token_id=None,
    )
    torch.manual_seed(1)
    theirs = MarianMTModel(config).eval()
    ours = TransformerTranslator(
        size, TransformerTranslator.Config(layers=3, width=256, heads=4, context=64), size
    ).eval()
    source_BS = torch.randint(1, size - 1, (rows, read))
    results: dict[str, list[float]] = {"ours": [], "ours, --precision auto": [], "MarianMT": []}
    for _ in range(4):
        results["ours"].append(_speed(ours, rows, read, write, beam))
        with in_precision("auto"):
            results["ours, --precision auto"].append(_speed(ours, rows, read, write, beam))
        began = time.perf_counter()
        with torch.inference_mode():
            out = theirs.generate(
                source_BS, num_beams=beam, min_new_tokens=write, max_new_tokens=write, do_sample=False
            )
        results["MarianMT"].append(rows / (time.perf_counter() - began))
        assert out.shape[1] == write + 1
    middle = {name: statistics.median(times[1:]) for name, times in results.items()}
    print(
        f"beam {beam}, {rows} sentences, {write} tokens forced: "
        + ", ".join(f"{name} {value:.1f} sentences/s" for name, value in middle.items())
    )
    ratios = (f"{name} {value / middle['MarianMT']:.2f}" for name, value in middle.items())
    print(f"times MarianMT: {', '.join(ratios)} (wanted: 2)", flush=True)


def small(work: Path, options: argparse.Namespace) -> None:
    """JoeyNMT's reverse task (configs/transformer_reverse.yaml): 2 + 2 layers of 64, 4 heads, 50 letters,
    batch 100, 13 and 25 tokens.

    With --joeynmt PATH, a checkout whose dependencies can be imported, it is run in turn with ours; random
    weights, forced lengths.
    """
    torch.manual_seed(1)
    model = TransformerTranslator(
        54, TransformerTranslator.Config(layers=2, width=64, heads=4, context=64), 54
    ).eval()
    theirs = _joeynmt(options.joeynmt, 50) if options.joeynmt else None
    for length, beam, given in ((13, 1, 323), (13, 5, 140), (25, 1, 323), (25, 5, 140)):
        ours, peer = [], []
        for _ in range(6):
            ours.append(_speed(model, 100, length, length, beam))
            peer += [theirs(100, length, length, beam)] if theirs else []
        one, other = statistics.median(ours[1:]), statistics.median(peer[1:]) if peer else given
        said = f"{one:.0f} sentences/s; JoeyNMT {other:.0f}: {one / other:.1f} times (wanted: 3)"
        print(f"{length} tokens, beam {beam}: {said}", flush=True)


def _joeynmt(path: Path, letters: int):
    """JoeyNMT's own model and search, as its configuration has them."""
    sys.path.insert(0, str(path))
    import yaml
    from joeynmt.model import build_model
    from joeynmt.search import beam_search as their_beams
    from joeynmt.search import greedy
    from joeynmt.vocabulary import Vocabulary

    config = yaml.safe_load((path / "configs" / "transformer_reverse.yaml").read_text())
    special = SimpleNamespace(**config["data"]["special_symbols"], lang_tags=[], sep_token=None, sep_id=None)
    vocabulary = Vocabulary([str(number) for number in range(letters)], special)
    model = build_model(config["model"], vocabulary, vocabulary).eval()

    def speed(rows: int, read: int, write: int, beam: int) -> float:
        source = torch.randint(4, 4 + letters, (rows, read))
        mask, length = torch.ones(rows, 1, read, dtype=torch.bool), torch.full((rows,), read)
        began = time.perf_counter()
        with torch.inference_mode():
            encoded, hidden, _, _ = model(return_type="encode", src=source, src_length=length, src_mask=mask)
            more = {"src_mask": mask, "max_output_length": write, "min_output_length": write, "model": model}
            more |= {"encoder_output": encoded, "encoder_hidden": hidden}
            out = greedy(**more)[0] if beam == 1 else their_beams(**more, beam_size=beam, alpha=1.0)[0]
        assert len(out) == rows
        return rows / (time.perf_counter() - began)

    return speed


PARTS = {"small": small, "speed": speed, "aer": aer, "length": length}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--tatoeba", type=Path, default=Path("../shared/data/tatoeba/eng-spa.tsv"))
    parser.add_argument("--joeynmt", type=Path)
    parser.add_argument("--runs", nargs="*", default=[])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--minutes", type=float, default=2)
    options = parser.parse_args()
    for name in options.only:
        with tempfile.TemporaryDirectory() as work:
            PARTS[name](Path(work), options)


if __name__ == "__main__":
    main()
