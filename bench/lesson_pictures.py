"""The pictures of docs/lessons.md, from the lessons' own numbers.

python bench/lesson_pictures.py [--out docs]
"""

import argparse
from pathlib import Path

import numpy as np

from regard.inside.pictures import bars, heat_map
from regard.verbs.lesson import lesson


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs"))
    out = parser.parse_args().out
    attention = lesson("attention")
    words = ["I", "love", "you", "a", "lot"]
    positions = ["h_1", "h_2", "h_3"]
    masking = np.array([lesson("masking").value(name) for name in positions])
    translated = lesson("translation")
    said = translated.steps[-1].says.split(": ")[1].rstrip(".").split()
    pictures = {
        "attention": bars(
            np.array(attention.value("weights in base 3")),
            ["A", "A", "B", "A"],
            "q = [0, 1] on A A B A, base 3",
        ),
        "self-attention": heat_map(
            np.array(lesson("self-attention").value("lecture")), words, words, "the lecture's matrix"
        ),
        "masking": heat_map(masking, positions, ["v_1", "v_2", "v_3"], "row t sees 1..t"),
        "translation": heat_map(
            np.array(translated.value("grid")), said, [*words, "</s>"], "a small trained model"
        ),
    }
    for name, svg in pictures.items():
        (out / f"lesson-{name}.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
