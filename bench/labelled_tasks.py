"""Three tasks of labelling texts, made from shared text, of 1,240 to 8,532 texts.

    python bench/labelled_tasks.py ../shared/data FOLDER
    python bench/classifiers.py --data FOLDER/article-train.tsv --test FOLDER/article-test.tsv

    speaker    who of 8 speaks (tinyshakespeare, speeches of three words or more)
    question   which word begins the question: who, what, where, ... (tatoeba; the word is replaced by "it")
    article    from which of 20 articles a sentence is (wikitext-2, the articles with most sentences)

A fifth of the texts is for the test. Words are in lower case, and punctuation is apart.
"""

import random
import re
import sys
from collections import defaultdict
from pathlib import Path

Rows = list[tuple[str, str]]  # (label, text)
QUESTIONS = ("who", "what", "where", "when", "why", "how", "which")
TATOEBA = {"deu-eng": 3, "eng-spa": 2}  # the column of the English sentence


def words(text: str) -> str:
    return " ".join(re.sub(r"([.,;:!?'\"])", r" \1 ", text).lower().split())


def speaker(data: Path) -> Rows:
    speeches = defaultdict[str, list[str]](list)
    for block in (data / "tinyshakespeare/input.txt").read_text("utf-8").split("\n\n"):
        who, _, said = block.partition(":\n")
        if len(said.split()) >= 3:
            speeches[who].append(words(said))
    most = sorted(speeches, key=lambda who: -len(speeches[who]))[:8]
    return [(who, said) for who in most for said in speeches[who]]


def article(data: Path) -> Rows:
    articles: list[tuple[str, list[str]]] = []
    for line in map(str.strip, (data / "wikitext-2/train.txt").read_text("utf-8").split("\n")):
        if re.fullmatch(r"= [^=].*[^=] =", line):
            articles.append((line.strip("= "), []))
        elif line and not line.startswith("=") and articles:
            articles[-1][1].extend(part.lower() for part in line.split(" . ") if len(part.split()) >= 6)
    articles.sort(key=lambda one: -len(one[1]))
    return [(title, sentence) for title, sentences in articles[:20] for sentence in sentences]


def question(data: Path) -> Rows:
    rows: dict[str, str] = {}
    for name, column in TATOEBA.items():
        for line in (data / f"tatoeba/{name}.tsv").read_text("utf-8").splitlines():
            first, *rest = words(line.split("\t")[column]).split() or [""]
            if first in QUESTIONS and len(rest) > 3 and rest[-1] == "?":
                rows.setdefault(" ".join(["it", *rest]), first)
    return [(first, text) for text, first in rows.items()]


def main(data: Path, out: Path) -> None:
    out.mkdir(exist_ok=True)
    for make in (speaker, question, article):
        rows = make(data)
        random.Random(3).shuffle(rows)
        fifth = len(rows) // 5
        for part, chosen in (("test", rows[:fifth]), ("train", rows[fifth:])):
            path = out / f"{make.__name__}-{part}.tsv"
            path.write_text("".join(f"{label}\t{text}\n" for label, text in chosen), "utf-8")
        print(f"{make.__name__}: {len(rows):,} texts, {len({label for label, _ in rows})} labels")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
