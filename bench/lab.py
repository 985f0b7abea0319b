r"""Measure the lab: seconds to the text field, to answers and to pictures, and bytes of a long text.

    regard train transformer --layers 6 --heads 6 --width 384 --context 4096 --batch 1 --steps 1 \
        --out runs/big
    python bench/lab.py runs/big

The times are those of a browser (Chromium) on the same machine. Measure on an idle machine.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from typing import Any
from urllib.parse import quote, urlsplit

from playwright.sync_api import sync_playwright

LONG = 3870  # words, which are about 4,085 tokens of the built-in text
WORDS = [
    "The",
    "value",
    "of",
    "the",
    "object",
    "is",
    "the",
    "name",
    "of",
    "the",
    "class",
    "that",
    "is",
    "given",
    "in",
    "the",
    "statement",
    ".",
]


def text_of(tokens: int) -> str:
    """A text of about that many tokens: most of the words are one token of the built-in text."""
    return " ".join(WORDS[at % len(WORDS)] for at in range(tokens))


class Watched:
    """A page and the bytes that it received."""

    def __init__(self, browser: Any):
        self.page = browser.new_context(viewport={"width": 1280, "height": 860}).new_page()
        self.page.set_default_timeout(120_000)
        self.bytes = 0
        session = self.page.context.new_cdp_session(self.page)
        session.send("Network.enable")
        session.on("Network.loadingFinished", self._add)
        self.page.add_init_script(
            "window.long=[];new PerformanceObserver(l=>l.getEntries().forEach(e=>long.push(e.duration)))"
            ".observe({type:'longtask',buffered:true})"
        )

    def _add(self, event: dict[str, Any]) -> None:
        self.bytes += int(event["encodedDataLength"])

    def until(self, expression: str) -> None:
        while not self.page.evaluate(expression):
            self.page.wait_for_timeout(4)


def start(run: str) -> tuple[subprocess.Popen[str], str, float]:
    began = time.perf_counter()
    command = [sys.executable, "-m", "regard", "lab", run, "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().strip(), began


def measure(run: str, browser: Any) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    process, address, began = start(run)
    try:
        watched = Watched(browser)
        page = watched.page
        page.goto(address + "#read?text=" + quote(text_of(63)))
        page.wait_for_selector("textarea")
        page.keyboard.type("x")
        figures["text field, s after the command"] = time.perf_counter() - began
        page.wait_for_selector(".tokens")
        figures["first answer, s after the command"] = time.perf_counter() - began
        figures["keystroke, ms (median of 20)"] = keystrokes(watched)
        for tokens in (63, 1023):
            page.goto("about:blank")
            clock = time.perf_counter()
            page.goto(address + "#attend?form=map&text=" + quote(text_of(tokens)))
            page.wait_for_selector(".scroller canvas")
            watched.until(PAINTED)
            figures[f"first map, {tokens + 1} tokens, s"] = time.perf_counter() - clock
        figures["edit, ms (median of 10)"] = edits(watched, address)
        figures |= long_text(browser, address)
        figures |= crowd(address)
    finally:
        process.terminate()
        process.wait()
    return figures


PAINTED = (
    "(()=>{const c=document.querySelector('.scroller canvas');if(!c||!c.width)return false;"
    "const d=c.getContext('2d').getImageData(0,0,c.width,c.height).data;const s=new Set();"
    "for(let i=0;i<d.length;i+=4*97)s.add(d[i]<<8|d[i+2]);return s.size>6})()"
)


def keystrokes(watched: Watched) -> float:
    """The time from a key to the answer on the screen."""
    times, page = [], watched.page
    for number in range(20):
        count = page.locator(".tokens [data-place]").count()
        clock = time.perf_counter()
        page.locator("textarea").press_sequentially(" ." if number % 2 else " the")
        watched.until(f"document.querySelectorAll('.tokens [data-place]').length>{count}")
        watched.until("!document.querySelector('.strip.asking')")
        times.append(1000 * (time.perf_counter() - clock))
    return statistics.median(times)


def edits(watched: Watched, address: str) -> float:
    """The time from a key on a bar to the compared distribution."""
    page, times = watched.page, []
    page.goto("about:blank")
    page.goto(address + "#attend?text=" + quote(text_of(63)))
    page.wait_for_selector(".track[role=slider]")
    slider = page.locator(".track[role=slider]").nth(3)
    slider.focus()
    for number in range(10):
        before = page.inner_text(".compared") if page.locator(".compared").count() else ""
        clock = time.perf_counter()
        page.keyboard.press("PageUp" if number % 2 == 0 else "Home")
        shown = "(document.querySelector('.compared')||{innerText:''}).innerText"
        watched.until(f"{shown}!=={json.dumps(before)} && !document.querySelector('.stage.asking')")
        times.append(1000 * (time.perf_counter() - clock))
    return statistics.median(times)


def long_text(browser: Any, address: str) -> dict[str, Any]:
    """Scroll through the map of 4,096 tokens at one pixel for each weight."""
    watched = Watched(browser)
    page = watched.page
    clock = time.perf_counter()
    page.goto(address + "#attend?form=map&text=" + quote(text_of(LONG)))
    page.wait_for_selector(".scroller canvas")
    watched.until(PAINTED)
    first = time.perf_counter() - clock
    for _ in range(4):
        page.click("[aria-label='Larger cells']")
    page.wait_for_timeout(3000)
    page.evaluate("window.long.length = 0")
    box = page.locator(".scroller").bounding_box()
    page.mouse.move(box["x"] + 300, box["y"] + 200)
    for _ in range(60):
        page.mouse.wheel(60, 120)
        page.wait_for_timeout(50)
    page.wait_for_timeout(1000)
    return {
        "first map, 4,085 tokens, s": first,
        "4,085 tokens: MB received": watched.bytes / 1e6,
        "4,085 tokens: longest task while scrolling, ms": max(page.evaluate("window.long"), default=0),
    }


def crowd(address: str, people: int = 20, questions: int = 5) -> dict[str, Any]:
    """Let 20 people ask at once, a new text each time."""
    place, token = urlsplit(address).netloc, address.split("token=")[1]
    cookie = f"regard_lab_{urlsplit(address).port}={token}"
    headers = {"Origin": f"http://{place}", "Cookie": cookie, "Content-Type": "application/json"}
    request = urllib.request.Request(f"http://{place}/api/runs", headers=headers)
    run = json.load(urllib.request.urlopen(request))["runs"][0]["id"]
    times, errors = list[float](), list[str]()

    def person(number: int) -> None:
        for question in range(questions):
            body = json.dumps({"run": run, "text": f"{text_of(60)} {number} {question}"}).encode()
            own = {**headers, "X-Lab-View": f"{number}/read"}
            clock = time.perf_counter()
            asked = urllib.request.Request(f"http://{place}/api/read", body, own)
            answer = json.load(urllib.request.urlopen(asked))
            times.append(time.perf_counter() - clock)
            if answer["state"] != "done":
                errors.append(answer["state"])

    threads = [threading.Thread(target=person, args=(number,)) for number in range(people)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    times.sort()
    return {"20 people, p95, s": times[int(0.95 * len(times))], "20 people, not answered": len(errors)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("run")
    run = parser.parse_args().run
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-background-networking"]
        )
        for name, value in measure(run, browser).items():
            print(f"{name:<48} {value:10.3f}")
        browser.close()


if __name__ == "__main__":
    main()
