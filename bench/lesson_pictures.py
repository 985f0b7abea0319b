"""The pictures of docs/lessons.md, from the lessons themselves.

python bench/lesson_pictures.py [--out docs]
"""

import argparse
from pathlib import Path

import regard
from regard.lessons.drawing import stacked

PICTURES = {  # lesson: the steps whose pictures are drawn, from 1
    "attention": (6,),
    "self-attention": (3,),
    "masking": (4,),
    "walk": (8, 12),
    "heads": (4,),
    "bottleneck": (4,),
    "forgetting": (1,),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs"))
    out = parser.parse_args().out
    for name, steps in PICTURES.items():
        pictures = [regard.lesson(name).steps[step - 1].picture.svg() for step in steps]
        (out / f"lesson-{name}.svg").write_text(stacked(pictures), encoding="utf-8")


if __name__ == "__main__":
    main()
