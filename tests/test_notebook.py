"""The page in a notebook: a real kernel, a browser that imitates the notebook, and JupyterLab itself."""

import base64
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.page.desk import Desk
from regard.page.notebook import Cell, info_of, view_of_runs

TEXT = "a b a c a b"
BUNDLE = Path(regard.__file__).parent / "page" / "bundle"
chromium = shutil.which("chromium")
in_browser = pytest.mark.skipif(chromium is None, reason="chromium is not installed")
WIDGET, PICTURE = "application/vnd.jupyter.widget-view+json", "image/svg+xml"
SLIDERS = ".track[role=slider]"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("notebook")
    (folder / "text.txt").write_text(f"{TEXT} c b a\n" * 40)
    small = {"layers": 2, "heads": 3, "width": 18, "context": 31, "steps": 7, "batch": 4}
    text = str(folder / "text.txt")
    regard.train("transformer", text=text, tokens="word", hold=0, out=str(folder / "run"), **small)
    return folder


def notebook(*cells: str) -> Any:
    nbformat = pytest.importorskip("nbformat")
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(cell) for cell in cells], metadata=kernel
    )


def test_a_kernel_offers_the_page_and_a_picture(folder: Path):
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("anywidget")
    cells = notebook(
        "import regard, sys",
        f"looked = regard.look('run', '{TEXT}'); looked",
        "regard.lab('run')",
        "regard.lab(regard.load('run'))",
        "looked.record",
        "sys.modules['anywidget'] = None\nlooked",
        "try:\n    regard.lab('run')\nexcept regard.UserError as error:\n    print(error)",
    )
    settings = {"resources": {"metadata": {"path": str(folder)}}, "timeout": 120, "kernel_name": "python3"}
    done = nbclient.NotebookClient(cells, **settings).execute()
    shown = [output for cell in done.cells for output in cell.outputs if output.output_type != "display_data"]
    look, lab, opened, record, without, refused = shown
    for output in (look, lab, opened):
        assert {WIDGET, PICTURE} <= set(output.data)
        assert output.data[PICTURE].startswith("<svg")
        assert "text/html" not in output.data  # a page without scripts would hide the picture
    assert record.data["text/html"].startswith("<svg")
    assert without.data["text/html"].startswith('<iframe srcdoc="&lt;!doctype html&gt;')
    assert refused.text == "the lab in a notebook needs anywidget: pip install 'regard[notebook]'\n"


# What anywidget gives to the page, with `ask` and `take` instead of a kernel.
HOST = """
<!doctype html><meta charset="utf-8"><body><div id="output" style="width: {width}px"></div>
<script type="module">
  import page from "data:text/javascript;base64,{script}";
  const receivers = new Set();
  const model = {{
    get: (name) => ({{ sheet: {sheet}, start: {start} }})[name],
    send: (message) => void ask(message),
    on: (_, receive) => receivers.add(receive),
    off: (_, receive) => receivers.delete(receive),
  }};
  setInterval(async () => {{
    for (const [message, ...buffers] of await take()) {{
      const bytes = buffers.map((one) => Uint8Array.from(atob(one), (letter) => letter.charCodeAt(0)));
      const views = bytes.map((one) => new DataView(one.buffer));
      for (const receive of receivers) receive(message, views);
    }}
  }}, 20);
  window.close_page = page.render({{ model, el: document.getElementById("output") }});
  window.receivers = receivers;
</script></body>
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


def shown_in_a_cell(browser: Any, folder: Path, start: str, width: int = 900) -> tuple[Any, list[str]]:
    """Show the page of a run as a notebook does."""
    from regard.page.measures import Opened

    run = regard.load(folder / "run")
    desk = Desk(lambda: [info_of(run, "o0", "run")], lambda _: lambda: Opened(run))
    return cell_of(browser, folder, desk, start, width)


def cell_of(browser: Any, folder: Path, desk: Desk, start: str, width: int) -> tuple[Any, list[str]]:
    """Show a page whose answers come from workers, and wait for the page here."""
    answers, errors = queue.Queue[Any](), list[str]()

    def reply(message: dict[str, Any], buffers: list[bytes]) -> None:
        answers.put([message, *(base64.b64encode(buffer).decode() for buffer in buffers)])

    cell = Cell(desk, reply)
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.on("console", lambda message: message.type == "error" and errors.append(message.text))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.expose_function("ask", lambda message: cell.receive(message))
    page.expose_function("take", lambda: [answers.get() for _ in range(answers.qsize())])
    script = base64.b64encode((BUNDLE / "lab.js").read_bytes()).decode()
    sheet = json.dumps((BUNDLE / "lab.css").read_text()).replace("</", "<\\/")
    host = folder / "host.html"
    host.write_text(HOST.format(width=width, script=script, sheet=sheet, start=json.dumps(start)))
    page.goto(host.as_uri())
    return page, errors


@in_browser
def test_a_weight_is_changed_through_the_kernel(browser, folder: Path):
    page, errors = shown_in_a_cell(browser, folder, f"#attend?run=run&text={TEXT.replace(' ', '+')}")
    page.wait_for_selector(SLIDERS)
    slider = page.locator(SLIDERS).nth(3)
    slider.focus()
    page.keyboard.press("End")
    page.wait_for_selector(".compared tbody tr")
    edit = re.compile(r"set layer0.attention at “b” to “a” = 1")
    assert edit.fullmatch(page.locator(".edits li span").inner_text())
    edited = '{"do": "set", "site": "layer0.attention", "rows": [6], "columns": [3], "value": 1}'
    looked = regard.look(folder / "run", TEXT, edit=edited, top=12)
    chances = dict(looked.record.likeliest[-1])
    rows = page.locator(".compared tbody tr")
    for row in rows.all():
        word, after = row.locator("th").inner_text(), row.locator(".number").first.inner_text()
        assert float(after.rstrip("%")) == pytest.approx(100 * chances[word], abs=0.51)
    page.keyboard.press("Control+z")
    page.wait_for_selector(".compared", state="detached")
    assert page.evaluate("location.hash") == ""  # the address is the notebook's
    page.click("text=Map")
    page.wait_for_selector(".scroller canvas")
    page.click("#tab-write")
    page.locator(".toolbar .primary").click()
    page.wait_for_selector(".alternatives button")
    page.evaluate("close_page()")
    assert page.evaluate("document.getElementById('output').childElementCount + receivers.size") == 0
    page.close()
    assert errors == []


@pytest.fixture(scope="module")
def others(folder: Path) -> dict[str, dict[str, Any]]:
    """What `regard.look` gets of a classifier, a masked reader, and a captioner."""
    (folder / "labelled.tsv").write_text("good\ta b c\nbad\tc c b a\nodd\tb\n" * 20)
    small = {"steps": 3, "width": 18, "batch": 4}
    labelled = {"labelled": str(folder / "labelled.tsv"), "hold": 0}
    regard.train("classifier", out=str(folder / "labels"), **labelled, **small)
    blanks = {
        "encoder": "transformer",
        "heads": 3,
        "context": 31,
        "hold": 0,
        "text": str(folder / "text.txt"),
    }
    regard.train("reader", out=str(folder / "reader"), **blanks, **small)
    regard.train("captioner", out=str(folder / "captions"), scenes=100, **small)
    regard.scenes(folder / "images", count=1, size=32)
    return {
        "labels": {"text": "a c b a"},
        "reader": {"text": "a b ___ a"},
        "captions": {"text": "a red ring", "image": folder / "images" / "0.png"},
    }


@in_browser
@pytest.mark.parametrize("name", ["labels", "reader", "captions"])
def test_other_models_are_edited_in_a_cell(browser, folder: Path, others, name: str, monkeypatch):
    monkeypatch.setattr("regard.verbs.look.in_notebook", lambda: True)
    monkeypatch.setattr("regard.verbs.look.has_widgets", lambda: True)
    monkeypatch.setattr("regard.page.notebook.widget", lambda *given: given)
    looked = regard.look(folder / name, **others[name])
    assert looked._is_live()
    desk, start, still = looked._widget()
    assert still.startswith("<svg")
    _, _, still = view_of_runs([folder / name])
    assert still.startswith("<svg")  # the lab of the run, where scripts do not run
    page, errors = cell_of(browser, folder, desk, start, 1100)
    page.wait_for_selector(SLIDERS)
    likeliest = page.locator(".expected .bars tbody th")
    shown = [text.strip("␣▸ ") for text in likeliest.all_inner_texts()]
    site = next(iter(looked.record.weights()))
    if name == "labels":
        assert looked.record.labels is not None
        assert shown == [label for label, _ in looked.record.labels]
    page.locator(".weights input.number").first.fill("0.9")
    page.keyboard.press("Enter")
    page.wait_for_selector(".compared .moved")
    assert page.locator(".edits li span").first.inner_text().startswith(f"set {site}")
    if name == "captions":
        assert page.locator(".scene[aria-checked=true]").get_attribute("aria-label").endswith("0.png")
    page.close()
    assert errors == []


@in_browser
def test_a_narrow_cell_in_a_wide_window(browser, folder: Path):
    page, errors = shown_in_a_cell(browser, folder, "#attend?run=run&text=a+b", width=360)
    page.wait_for_selector(SLIDERS)
    cell = page.locator(".cell")
    assert cell.get_attribute("data-room") == "one"
    assert cell.evaluate("cell => cell.scrollWidth <= 360")
    assert page.evaluate("getComputedStyle(document.body).fontFamily").startswith('"Times')  # no style leaves
    page.close()
    assert errors == []


@pytest.mark.slow
@in_browser
def test_jupyterlab_shows_the_page(browser, folder: Path):
    pytest.importorskip("jupyterlab")
    import nbformat

    cells = notebook("import regard", f"regard.look('run', '{TEXT}')", "regard.lab('run')")
    nbformat.write(cells, folder / "book.ipynb")
    settings = {"token": "t", "root_dir": folder}
    options = ["--no-browser", "--allow-root", "--port=0"]
    options += [f"--ServerApp.{name}={value}" for name, value in settings.items()]
    options += ["--LabApp.expose_app_in_browser=True", "--LabApp.news_url="]
    command = [sys.executable, "-m", "jupyterlab", *options]
    environment = os.environ | {"JUPYTER_RUNTIME_DIR": str(folder / "runtime")}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, env=environment, **quiet) as server:
        try:
            address = _address(folder / "runtime")
            page = browser.new_page(viewport={"width": 1400, "height": 1000})
            errors = list[str]()
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.goto(f"{address}lab/tree/book.ipynb?token=t&reset")
            page.wait_for_selector(".jp-Notebook-ExecutionIndicator[data-status=idle]", timeout=90_000)
            page.wait_for_timeout(4000)  # the notebook's session is not ready as soon as its kernel is idle
            run_all = "void jupyterapp.commands.execute('notebook:run-all-cells')"
            page.evaluate(run_all)
            first = page.locator(".cell").first
            end = time.monotonic() + 90
            while not first.locator(SLIDERS).count() and time.monotonic() < end:
                for button in page.locator(
                    ".jp-Dialog .jp-mod-accept"
                ).all():  # JupyterLab may ask for the kernel
                    button.click()
                    page.wait_for_timeout(4000)
                    page.evaluate(run_all)
                page.wait_for_timeout(300)
            first.locator(SLIDERS).nth(2).focus()
            page.keyboard.press("PageUp")
            first.locator(".compared tbody tr").first.wait_for()
            page.locator(".cell").nth(1).locator(".tokens").wait_for()
            assert page.locator(".jp-Cell").count() == 3  # no key reached the notebook
            assert errors == []
            page.close()
        finally:
            server.terminate()


def _address(runtime: Path) -> str:
    """Wait for JupyterLab, and return its address."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        for info in runtime.glob("jpserver-*.json"):
            address = json.loads(info.read_text())["url"]
            try:
                with urllib.request.urlopen(f"{address}api?token=t", timeout=20):
                    return str(address)
            except OSError:  # the file comes before the server listens
                break
        time.sleep(0.3)
    raise AssertionError("JupyterLab does not answer")
