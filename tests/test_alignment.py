"""Which word stands for which: read from attention, counted, put together, measured, shown."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard.cli import main
from regard.errors import Notice
from regard.probabilities.ibm_models import FLOOR, CountedAligner, Jumps, count_links
from regard.probabilities.links import (
    agreement,
    format_links,
    links_from_weights,
    parse_links,
    symmetrise,
    weights_by_word,
)
from regard.text import parallel
from regard.text.parallel import Parallel


def test_alignments_come_from_the_state_before_the_word(taught: Path, regard_cli, tmp_path: Path):
    pairs = parallel.built_in().part(range(60))
    shifted = regard.align(taught / "run", pairs=pairs)
    naive = regard.align(taught / "run", pairs=pairs, way="naive")
    assert (
        shifted.links != naive.links
    )  # which of them is right, a whole training shows: bench/translation.py
    done = regard_cli("align", taught / "run", "--source", taught / "en.txt", "--target", taught / "es.txt")
    assert done.returncode == 0
    assert "agreement_with_model_1" in done.stderr
    assert (
        regard_cli(
            "align",
            taught / "run",
            "--source",
            taught / "en.txt",
            "--target",
            taught / "es.txt",
            "--out",
            "p.svg",
            "--line",
            "2",
        ).returncode
        == 0
    )
    assert "corrió" in (tmp_path / "p.svg").read_text()
    (tmp_path / "found").write_text(done.stdout)
    (tmp_path / "gold").write_text(
        "\n".join(" ".join(f"{i + 1}-{j + 1}" for i, j in sorted(one)) for one in pairs.alignments) + "\n"
    )
    scored = json.loads(
        regard_cli("align", "--score", "found", "--gold", "gold", "--gold-index", "1", "--json").stdout
    )
    links = [sure for sure, _ in parse_links(done.stdout, "found")]
    assert scored == pytest.approx(vars(agreement(links, pairs.alignments)))
    both = regard_cli(
        "align",
        taught / "run",
        "--source",
        taught / "en.txt",
        "--target",
        taught / "es.txt",
        "--reverse",
        taught / "back",
        "--symmetry",
        "union",
    )
    assert sum(map(len, both.stdout.split("\n"))) > sum(map(len, done.stdout.split("\n")))


def test_the_error_rate_by_its_formula():
    sure, possible = [frozenset({(0, 0), (1, 1)})], [frozenset({(1, 2)})]
    found = [frozenset({(0, 0), (1, 2), (2, 2)})]
    # |A & S| = 1, |A & P| = 2 with the sure ones possible, |A| = 3, |S| = 2
    measured = vars(agreement(found, sure, possible))
    assert measured == pytest.approx({"aer": 1 - 3 / 5, "precision": 2 / 3, "recall": 1 / 2})
    assert vars(agreement([frozenset()], [frozenset()])) == {"aer": 0.0, "precision": 1.0, "recall": 1.0}


def test_two_directions_become_one():
    forward, backward = frozenset({(0, 0), (1, 1), (2, 1)}), frozenset({(0, 0), (1, 1), (3, 3)})
    assert symmetrise(forward, backward, "intersection") == {(0, 0), (1, 1)}
    assert symmetrise(forward, backward, "union") == forward | backward
    assert symmetrise(forward, backward, "grow-diag") == {(0, 0), (1, 1), (2, 1)}  # (3, 3) touches nothing
    assert symmetrise(forward, backward, "grow-diag-final") == {(0, 0), (1, 1), (2, 1), (3, 3)}


def test_symmetry_names_are_those_of_moses():
    # The diagonal grows from (0, 0): (1, 1) touches it and has a free word, then (2, 2) touches (1, 1) in the
    # same round. (4, 3) touches nothing; both its words are free. (4, 0) has one free word at first.
    forward = frozenset({(0, 0), (1, 1), (2, 2), (4, 3)})
    backward = frozenset({(0, 0), (5, 0), (5, 5)})
    grown = {(0, 0), (1, 1), (2, 2)}
    assert symmetrise(forward, backward, "grow-diag") == grown
    # final: (4, 3) of forward, then (5, 0) with the free word 5, then (5, 5) with a free word
    assert symmetrise(forward, backward, "grow-diag-final") == grown | {(4, 3), (5, 0), (5, 5)}
    # final-and: (5, 0) has no free target word, (5, 5) has two free words
    assert symmetrise(forward, backward, "grow-diag-final-and") == grown | {(4, 3), (5, 5)}


def test_two_files_of_links_are_combined_turned_and_measured(tmp_path: Path, capsys):
    (tmp_path / "there").write_text("0-0 1-1 2-1\n\n0-1\n")
    (tmp_path / "back").write_text("0-0 1-1 3-3\n0-0\n1-0\n")
    (tmp_path / "turned").write_text("0-0 1-1 3-3\n0-0\n0-1\n")
    there, back = str(tmp_path / "there"), str(tmp_path / "back")
    union = regard.align(links=there, reverse_links=back, symmetry="union")
    assert union.links == [{(0, 0), (1, 1), (2, 1), (3, 3)}, {(0, 0)}, {(0, 1), (1, 0)}]
    turned = regard.align(links=there, reverse_links=tmp_path / "turned", symmetry="union", turn=True)
    assert turned.links == union.links
    assert main(["align", "--links", there, "--reverse-links", back, "--symmetry", "intersection"]) == 0
    assert capsys.readouterr().out == "0-0 1-1\n\n\n"
    assert regard.align(score=tmp_path / "turned", gold=back).aer == pytest.approx(1 - 8 / 10)
    assert regard.align(score=tmp_path / "turned", gold=back, turn=True).aer == 0
    for wrong in (
        ["--links", there],
        ["--turn"],
        ["--links", there, "--reverse-links", back, "--score", there],
    ):
        assert main(["align", *wrong]) == 2


def test_links_that_are_counted_from_one_get_a_hint(tmp_path: Path):
    (tmp_path / "found").write_text("0-0 1-1\n")
    (tmp_path / "gold").write_text("1-1 2-2\n")
    with pytest.warns(Notice, match="gold: no link has a word 0; .* give `gold_index` 1"):
        assert regard.align(score=tmp_path / "found", gold=tmp_path / "gold").aer > 0
    assert regard.align(score=tmp_path / "found", gold=tmp_path / "gold", gold_index=1).aer == 0


def test_model_one_finds_the_classic_example():
    sources = [["the", "house"], ["the", "book"], ["a", "book"]]
    targets = [["das", "Haus"], ["das", "Buch"], ["ein", "Buch"]]
    model = CountedAligner(sources, targets, rounds=50)
    assert model.align(sources, targets) == [{(0, 0), (1, 1)}] * 3
    assert sum(model.probability("book", word) for word in ("das", "Haus", "Buch", "ein")) == pytest.approx(
        1, abs=1e-6
    )
    # one round from uniform: "the" met das twice and Haus and Buch once,
    # each time as one of three words (the none counted)
    once = CountedAligner(sources, targets, rounds=1)
    assert once.probability("the", "das") == pytest.approx((2 / 3) / (4 / 3))
    # what was never counted is as likely said by any word, the first of which is taken
    assert model.align([["the", "zebra"], []], [["das", "Zebra"], []]) == [{(0, 0), (0, 1)}, frozenset()]
    assert (
        count_links([["a"]], [["x"]]) == count_links([["a"]] * 20, [["x"]] * 20)[:1] == [{(0, 0)}]
    )  # a word goes before none


def test_the_hmm_sums_over_every_path():
    """Forwards and backwards against all (I + 1) ** J paths: a link, or none with the position kept.

    Jumps are all alike at first. They are learned from their expected counts, which the paths give as well.
    """
    words, length = 3, 5
    chance_PJN = np.random.default_rng(7).random((2, length, words + 1))
    real_PJ = np.array([[True] * length, [True] * 2 + [False] * 3])
    order, share_D = Jumps(longest=words), np.ones(2 * words + 1)  # share_D: of a jump by d at words + d
    for _ in range(3):
        posterior_PJN, count_D = order.posterior(chance_PJN, real_PJ), np.zeros_like(share_D)
        for pair, real in enumerate((length, 2)):
            expected, jumped = _every_path(chance_PJN[pair, :real], share_D)
            np.testing.assert_allclose(posterior_PJN[pair, :real], expected, rtol=1e-12)
            count_D += jumped
        order.learn()
        share_D = FLOOR + count_D


def _every_path(chance_JN: np.ndarray, share_D: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(how likely each word stands for each, how many jumps by each distance are expected) over all paths."""
    words = chance_JN.shape[1] - 1
    jumps = np.array([[share_D[words + i - m] for i in range(words)] for m in range(-1, words)])
    jumps = (1 - Jumps.UNIFORM) * jumps / jumps.sum(1, keepdims=True) + Jumps.UNIFORM / words
    expected, jumped, total = np.zeros_like(chance_JN), np.zeros_like(share_D), 0.0
    for path in itertools.product(range(words + 1), repeat=len(chance_JN)):  # 0 stands for none
        chance, place, distances = 1.0, 0, np.zeros_like(share_D)
        for j, i in enumerate(path):
            step = Jumps.NULL_SHARE if i == 0 else (1 - Jumps.NULL_SHARE) * jumps[place, i - 1]
            chance *= chance_JN[j, i] * step
            if i:
                distances[words + i - place] += 1
                place = i
        expected[np.arange(len(path)), path] += chance
        jumped += chance * distances
        total += chance
    return expected / total, jumped / total


def test_the_hmm_tells_two_like_words_apart_by_their_order():
    sources = [
        f"the {one} saw the {other}".split()
        for one, other in itertools.permutations(("dog", "cat", "man"), 2)
    ]
    targets = [
        f"le {one} vit le {other}".split()
        for one, other in itertools.permutations(("chien", "chat", "homme"), 2)
    ]
    straight = frozenset((place, place) for place in range(5))
    assert count_links(sources, targets, "hmm") == [straight] * 6
    assert count_links(sources, targets, "model-1") != [straight] * 6  # the first "the" says both
    assert count_links(sources, targets, "hmm", "intersection") == [straight] * 6


def test_counting_needs_no_run(tmp_path: Path, regard_cli):
    pairs = parallel.built_in().part(range(300))
    for name, lines in (("en", pairs.sources), ("es", pairs.targets)):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    (tmp_path / "gold").write_text(
        "\n".join(" ".join(f"{i}-{j}" for i, j in sorted(one)) for one in pairs.alignments) + "\n"
    )
    rates = {}
    for by in ("model-1", "hmm"):
        done = regard_cli(
            "align",
            "--by",
            by,
            "--source",
            "en",
            "--target",
            "es",
            "--gold",
            "gold",
            "--symmetry",
            "grow-diag",
            "--json",
        )
        rates[by] = json.loads(done.stdout)
        assert rates[by]["aer"] < 0.1
        assert len(rates[by]["alignments"]) == 300
    assert rates["hmm"]["model_1_aer"] == pytest.approx(
        agreement(count_links(*(_split(pairs))), pairs.alignments).aer
    )
    for arguments, words in (
        (["--by", "hmm", "--reverse", "x"], "counts both directions itself"),
        (["--source", "en", "--target", "es"], "attention needs a run: regard align RUN; count without"),
        (["--by", "hmm", "--source", "en", "--target", "es", "--gold", "en"], "is not a link"),
    ):
        refused = regard_cli("align", *arguments)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert words in refused.stderr


def _split(pairs: Parallel) -> tuple[list[list[str]], list[list[str]]]:
    return [line.split() for line in pairs.sources], [line.split() for line in pairs.targets]


def test_the_head_is_not_measured_on_what_chose_it(taught: Path):
    pairs = parallel.built_in().part(range(61)).swapped()  # `back` is a Transformer with several heads
    found = regard.align(taught / "back", pairs=pairs)
    assert found.chosen_on == 31
    assert found.figures()["measured_on"] == 30
    assert found.figures()["aer"] == agreement(found.links[31:], pairs.alignments[31:]).aer
    assert (
        regard.align(taught / "run", pairs=pairs.swapped()).figures()["measured_on"] == 61
    )  # one map: nothing was chosen


def test_one_pair_is_shown_in_every_form_with_the_truth_framed(
    taught: Path, tmp_path: Path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    pairs = parallel.built_in().part(range(12))
    (tmp_path / "pairs.tsv").write_text(
        "".join(f"{s}\t{t}\n" for s, t in zip(pairs.sources, pairs.targets, strict=True))
    )
    (tmp_path / "gold").write_text(
        "\n".join(" ".join(f"{i}-{j}" for i, j in sorted(one)) for one in pairs.alignments) + "\n"
    )
    for ending in ("svg", "png", "html", "json"):
        asked = ["--pairs", "pairs.tsv", "--gold", "gold", "--line", "2", "--out", f"pair.{ending}"]
        assert main(["align", str(taught / "run"), *asked]) == 0
    right = sorted((j, i) for i, j in pairs.alignments[1])
    assert (tmp_path / "pair.svg").read_text().count('stroke-width="2"') == len(right)
    assert json.loads((tmp_path / "pair.json").read_text())["right"] == [list(link) for link in right]
    assert f'"right":{json.dumps(right, separators=(",", ":"))}' in (tmp_path / "pair.html").read_text()
    capsys.readouterr()
    looked = [
        "look",
        str(taught / "run"),
        "--text",
        pairs.sources[1],
        "--target",
        pairs.targets[1],
        "--gold",
        format_links(pairs.alignments[1]),
    ]
    assert main([*looked, "--form", "arcs", "--out", "arcs.svg"]) == 0
    assert capsys.readouterr().out.count("✓") == len(right) + 1  # and once to say what it means
    assert (tmp_path / "arcs.svg").read_text().count("stroke-dasharray") == len(right)
    assert main([*looked[:-1], "0-99"]) == 2
    assert "0-99 lies outside its sentence" in capsys.readouterr().err
    assert main(["look", str(taught / "run"), "--text", "I love you", "--gold", "0-0"]) == 2
    assert "--gold goes with --target" in capsys.readouterr().err


def test_subwords_become_words_and_sinks_are_hidden():
    weights_TS = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.5, 0.1, 0.1, 0.3], [0.0, 0.6, 0.2, 0.2]])
    source, target = [range(0, 2), range(2, 3)], [range(0, 1), range(1, 3)]
    torch.testing.assert_close(
        weights_by_word(weights_TS, source, target), torch.tensor([[0.3, 0.3], [0.6, 0.15]])
    )
    with_end = weights_by_word(weights_TS, [*source, range(3, 4)], target)
    torch.testing.assert_close(with_end, torch.tensor([[0.3, 0.3, 0.4], [0.6, 0.15, 0.25]]))
    assert links_from_weights(with_end, 2) == {(0, 1)}  # the first looks most at the end, which is no word
    assert links_from_weights(with_end[:, :2], 2) == {(0, 0), (0, 1)}
    naive = weights_by_word(weights_TS, source, target, shifted=False)
    torch.testing.assert_close(
        naive[0], torch.tensor([0.6, 0.1])
    )  # the row of the state that has read the word


@pytest.fixture(scope="module")
def subwords(taught: Path) -> Path:
    """The same sentences in subwords and in letters."""
    files = {
        "source": str(taught / "en.txt"),
        "target": str(taught / "es.txt"),
        "steps": 20,
        "width": 16,
        "seed": 3,
    }
    for kind in ("bpe", "char"):
        out = taught / kind
        if not out.exists():
            regard.train(
                "recurrent-translator",
                out=str(out),
                tokens=kind,
                **files,
                **({"bpe_size": 300} if kind == "bpe" else {}),
            )
    return taught


@pytest.mark.parametrize("kind", ["bpe", "char"])
@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("I  love you", "Te  amo"),
        ("I love you ", " Te amo"),
        ("I\tlove you", "Te amo"),
        ("I l\u0167ve\u00a0you a", "a\u014bo"),
    ],
)
def test_words_of_subwords_are_the_words_of_the_line(subwords: Path, kind: str, source: str, target: str):
    """Blanks in a row or at the ends, tabs, letters never seen and no-break spaces make no words."""
    found = regard.align(subwords / kind, pairs=Parallel((), [source], [target]))
    assert found.weights[0].shape == (len(target.encode().split()), len(source.encode().split()))
    names = tuple(word.decode() for word in source.encode().split())
    assert found.record(0).map("attention").column_names == names
    if "\t" in source and kind == "char":
        return  # a tab never seen is read as <unk>, and a look shows what was read
    looked = regard.look(subwords / kind, source, target=target, words=True, gold="0-0").record
    assert len(looked.map("attention").column_names) == len(names) + 1  # and the end
    assert looked.right == {(0, 0)}


def test_the_end_may_be_looked_at_where_sinks_are_seen(taught: Path):
    pairs = parallel.built_in().part(range(20))
    masked, seen = (
        regard.align(taught / "run", pairs=pairs, way="naive", sinks=sinks) for sinks in (False, True)
    )
    assert seen.weights[0].shape[1] == masked.weights[0].shape[1] + 1
    assert seen.record(0).map("attention").column_names[-1] == "</s>"
    assert sum(map(len, seen.links)) < sum(
        map(len, masked.links)
    )  # the last word of each, naively, looks there


def test_both_heads_that_were_chosen_are_kept_out_of_the_measure(taught: Path):
    pairs = parallel.built_in().part(range(60))
    assert regard.align(taught / "run", pairs=pairs).chosen_on == 0
    assert regard.align(taught / "run", pairs=pairs, reverse=taught / "back").chosen_on == 30


def test_lines_are_lines_of_the_file(taught: Path, tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "es").write_text(f"Te amo mucho\n\nHablamos bien\n{'x ' * 200}\n")
    (tmp_path / "en").write_text("I love you a lot\n\nWe spoke well\nlong\n")
    files = ["--source", "es", "--target", "en"]
    assert main(["align", str(taught / "back"), *files, "--json"]) == 0
    links = json.loads(capsys.readouterr().out)["alignments"]
    assert [bool(one) for one in links] == [True, False, True, False]  # one is empty, one too long
    assert main(["align", str(taught / "back"), *files, "--line", "3", "--out", "p.json"]) == 0
    assert json.loads((tmp_path / "p.json").read_text())["tokens"] == ["We", "spoke", "well"]
    assert "2 pairs are empty on a side or too long" in capsys.readouterr().err
    for gold, line, words in (
        ("0-0\n" * 5, "1", "has 5 lines for 3 sentence pairs"),
        ("0-0\n\n0-0\n\n", "2", "--line 2 is empty on a side"),
    ):
        (tmp_path / "gold").write_text(gold)
        assert (
            main(["align", str(taught / "back"), *files, "--gold", "gold", "--line", line, "--out", "p.svg"])
            == 2
        )
        assert words in capsys.readouterr().err
    (tmp_path / "five").write_text("0-0\n" * 5)
    assert main(["align", "--score", "five", "--gold", "five", *files]) == 2
    assert "five has 5 lines and the text 4" in capsys.readouterr().err
