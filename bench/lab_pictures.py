"""Make the pictures of docs/lab/ from trained runs.

regard train transformer --steps 300 --film --evaluate-every 25 --out runs/transformer
regard train ngram --out runs/ngram
regard train lstm --steps 300 --out runs/lstm
regard train recurrent-translator --steps 300 --out runs/translator
cp -r src/regard/lessons/runs/translator-transformer runs/
regard train classifier --steps 150 --out runs/classifier
regard train captioner --steps 1300 --out runs/captioner
regard train reader --encoder transformer --steps 400 --out runs/reader
regard train backpack --steps 250 --out runs/backpack
python bench/lab_pictures.py runs
"""

import argparse
import io
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

from PIL import Image
from playwright.sync_api import sync_playwright

PICTURES = Path(__file__).parent.parent / "docs" / "lab"
TEXT = "The value of the object is the name of the class"
SLIDERS = ".track[role=slider]"


def set_weight(page: Any, bar: int, value: str) -> None:
    page.wait_for_selector(SLIDERS)
    page.locator(".weights input.number").nth(bar).fill(value)
    page.keyboard.press("Enter")
    page.wait_for_selector(".compared .moved")


def attention(page: Any) -> None:
    set_weight(page, 5, "0.8")


def translation(page: Any) -> None:
    page.wait_for_selector(SLIDERS)
    page.locator(".from .word").nth(1).click()
    page.wait_for_timeout(500)
    set_weight(page, 3, "0.9")


def reading(page: Any) -> None:
    page.wait_for_selector(".ladder tbody tr")
    page.hover('.tokens [data-place="5"]')


def writing(page: Any) -> None:
    page.click(".toolbar .primary")
    page.wait_for_selector(".toolbar .quiet")
    page.locator('.tokens [data-place="3"]').click()


def heads(page: Any) -> None:
    page.click("text=What does each head do?")
    page.wait_for_selector(".piece .tag")


def labels(page: Any) -> None:
    page.wait_for_selector(SLIDERS)
    page.locator(".weights input.number").nth(3).fill("0.6")
    page.keyboard.press("Enter")
    page.wait_for_selector(".labels .moved")


def captions(page: Any) -> None:
    page.wait_for_selector(".scene img")
    page.locator(".regions [data-region='20']").click()


def doubt(page: Any) -> None:
    page.wait_for_selector(".gauges tbody tr", timeout=90_000)
    page.locator(".say .buttons button").first.click()
    page.wait_for_selector(".say .moves", timeout=90_000)


def blanks(page: Any) -> None:
    page.wait_for_selector(".gauges tbody tr", timeout=90_000)


def memory(page: Any) -> None:
    page.wait_for_selector(".lines-chart", timeout=120_000)
    page.wait_for_selector(".of-run", state="detached", timeout=120_000)


def senses(page: Any) -> None:
    page.wait_for_selector(".sense input")
    page.locator('.tokens [data-place="4"]').click()
    page.wait_for_timeout(1500)
    slider = page.locator(".sense input").nth(1)
    slider.fill("2.5")
    page.wait_for_selector(".compared .moved")


def film(page: Any) -> None:
    page.wait_for_selector(".film .piece")
    page.wait_for_timeout(6000)


def lesson(page: Any) -> None:
    page.wait_for_selector(".step math")
    page.locator(".asked .quiet").nth(0).click()


def plain(page: Any) -> None:
    page.wait_for_timeout(500)


VIEWS = {
    "reading": ("#read?run=transformer&run=ngram&run=lstm", 1280, 900, False, reading),
    "attention": ("#attend?run=transformer&site=layer1.attention&head=1", 1280, 860, False, attention),
    "map": ("#attend?run=transformer&form=map&site=layer1.attention&head=1", 1280, 860, True, plain),
    "heads": (
        "#attend?run=translator-transformer&form=mosaic&text=" + quote("The tall cat sees you"),
        1280,
        1100,
        False,
        heads,
    ),
    "labels": (
        "#attend?run=classifier&text=" + quote("the ending was not bad , and the music was wonderful"),
        1280,
        720,
        False,
        labels,
    ),
    "captions": ("#attend?run=captioner&scene=3&text=", 1280, 900, False, captions),
    "blanks": (
        "#doubt?run=reader&text=" + quote("The value of the ___ is the name of the class"),
        1280,
        900,
        False,
        blanks,
    ),
    "doubt": ("#doubt?run=transformer", 1280, 1240, False, doubt),
    "memory": ("#memory?run=transformer&run=lstm", 1280, 900, False, memory),
    "senses": ("#senses?run=backpack", 1280, 960, False, senses),
    "training": ("#trained?run=transformer", 1280, 960, True, film),
    "lesson": ("#lessons?lesson=attention&set=q%3D0%2C10&text=", 1280, 860, False, lesson),
    "translation": (
        "#attend?run=translator&text=" + quote("The tall cat sees you"),
        1280,
        860,
        False,
        translation,
    ),
    "orders": ("#attend?run=ngram", 1280, 760, False, plain),
    "gates": ("#attend?run=lstm&head=1", 1280, 760, False, plain),
    "writing": ("#write?run=transformer", 1280, 860, True, writing),
    "narrow": ("#attend?run=transformer&site=layer1.attention&head=1", 360, 860, False, attention),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("runs")
    parser.add_argument("--only", nargs="+", choices=VIEWS, default=list(VIEWS), metavar="NAME")
    arguments = parser.parse_args()
    command = [sys.executable, "-m", "regard", "lab", arguments.runs, "--no-browser"]
    lab = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert lab.stdout is not None
    address = lab.stdout.readline().strip()
    PICTURES.mkdir(exist_ok=True)
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            for name, (link, width, height, dark, act) in VIEWS.items():
                if name not in arguments.only:
                    continue
                context = browser.new_context(
                    viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
                )
                page = context.new_page()
                page.add_init_script("localStorage.setItem('regard-lab-hints', 'seen')")
                page.goto(address + (link if "text=" in link else f"{link}&text={quote(TEXT)}"))
                act(page)
                page.wait_for_timeout(1200)
                shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB").quantize(256)
                shot.save(PICTURES / f"{name}.png", optimize=True)
                context.close()
            browser.close()
    finally:
        lab.terminate()
        lab.wait()


if __name__ == "__main__":
    main()
