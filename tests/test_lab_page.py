"""The lab in a real browser: every view, by mouse and by keyboard, wide, narrow and dark.

Each visit fails on an error in the console, on a request to another address, and on a page that scrolls
sideways. bench/lab_pictures.py makes the pictures of docs/lab/ in the same way.
"""

import ast
import json
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from test_lab import Lab, lab, lab_runs, start_lab, stop_lab  # noqa: F401

chromium = shutil.which("chromium")
pytestmark = pytest.mark.skipif(chromium is None, reason="chromium is not installed")
AXE = Path(__file__).parent.parent / "page" / "node_modules" / "axe-core" / "axe.min.js"
SLIDERS = ".track[role=slider]"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-background-networking"]
        )
        yield browser
        browser.close()


@pytest.fixture
def visit(browser, lab) -> Iterator[Callable[..., Any]]:  # noqa: F811
    """Open the lab at a link. At the end, check the console, the addresses and the width."""
    errors, asked, pages = list[str](), list[str](), list[Any]()

    def go(link: str = "", width: int = 1280, height: int = 860, dark: bool = False, at: Lab = lab) -> Any:
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
        )
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = context.new_page()
        page.on("console", lambda message: message.type == "error" and errors.append(message.text))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("dialog", lambda dialog: errors.append(dialog.message))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(at.address + link)
        page.set_default_timeout(20_000)
        page.wait_for_selector("#view")
        if page.locator(".hints button").count():
            page.click(".hints button")
        pages.append((page, at))
        return page

    yield go
    for page, at in pages:
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "sideways scroll"
        assert {url.split("/")[2] for url in asked} <= {at.place}
        page.context.close()
    assert [error for error in errors if "expected by the test" not in error] == []


def until(page: Any, expression: str, arg: Any = None) -> None:
    """Wait until an expression is true. (The page's policy forbids what Playwright's own waiting does.)"""
    end = time.monotonic() + 20
    while not page.evaluate(expression, arg):
        assert time.monotonic() < end, expression
        page.wait_for_timeout(30)


def words(page: Any, selector: str) -> list[str]:
    return page.locator(selector).all_inner_texts()


def link(text: str, view: str = "read", runs: tuple[str, ...] = ("transformer",), **more: str) -> str:
    from urllib.parse import urlencode

    pairs = [*(("run", run) for run in runs), ("text", text), *more.items()]
    return f"#{view}?{urlencode(pairs)}"


def accessible(page: Any) -> None:
    """Run axe, if the page's development tools are installed."""
    if AXE.exists():
        page.evaluate(AXE.read_text())
        found = page.evaluate("axe.run().then(result => result.violations)")
        assert [(one["id"], one["nodes"][0]["html"]) for one in found] == []


def test_reading_follows_typing(visit):
    page = visit("#read?run=transformer")
    page.fill("textarea", "a b")
    until(page, "document.querySelectorAll('.tokens [data-place]').length === 3")
    page.locator("textarea").press_sequentially(" c a")
    until(page, "document.querySelectorAll('.tokens [data-place]').length === 5")
    assert words(page, ".tokens [data-place]") == ["a", "b", "c", "a", "…"]
    page.hover('.tokens [data-place="2"]')
    assert words(page, ".expected .facts dd")[0] == "b"
    assert words(page, ".expected .here th") == ["b"]
    page.fill("textarea", "")
    page.wait_for_selector(".empty")
    accessible(page)


def test_the_keyboard_reaches_everything(visit):
    page = visit(link("a b a c"))
    page.focus("#tab-read")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(SLIDERS)
    slider = page.locator(SLIDERS).nth(1)
    slider.focus()
    before = float(slider.get_attribute("aria-valuenow"))
    page.keyboard.press("PageUp")
    until(
        page,
        "([all, was]) => Math.abs(document.querySelectorAll(all)[1].ariaValueNow - was - 0.1) < 0.002",
        [SLIDERS, before],
    )
    page.wait_for_selector(".compared tbody tr")
    page.keyboard.press("Control+z")
    page.wait_for_selector(".changes .muted")
    page.locator('.from [aria-selected="true"]').focus()
    page.keyboard.press("ArrowUp")
    assert words(page, ".from .chosen") == ["a"]
    page.keyboard.press("Shift+ArrowUp")
    assert len(words(page, ".from .chosen")) == 2
    page.focus("#tab-attend")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#view[data-view=write]")


def test_a_weight_that_has_not_arrived_is_not_changed(visit):
    page = visit(link("a b a c"))
    held = list[Any]()
    page.route("**/api/rows", lambda route: held.append(route))
    page.focus("#tab-read")
    with page.expect_request("**/api/rows"):
        page.keyboard.press("ArrowRight")
    page.wait_for_selector(".weights .track")
    assert page.locator(SLIDERS).count() == 0
    for route in held:
        route.continue_()
    page.unroute("**/api/rows")
    page.wait_for_selector(SLIDERS)


def test_a_weight_is_dragged_and_everything_follows(visit):
    page = visit(link("a b a c a b", "attend", site="layer1.attention", head="2"))
    page.wait_for_selector(SLIDERS)
    before = words(page, ".expected .number")
    box = page.locator(SLIDERS).nth(3).bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 2, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.4, middle, steps=5)
    page.mouse.move(box["x"] + box["width"] * 0.75, middle, steps=5)
    page.mouse.up()
    for _ in range(5):  # the bar stays where it was let go
        assert float(page.locator(SLIDERS).nth(3).get_attribute("aria-valuenow")) > 0.7
    page.wait_for_selector(".compared .moved")
    until(page, "document.querySelector('.compared .moved').textContent.includes('moved')")
    until(
        page,
        "q => Math.abs([...document.querySelectorAll(q)].reduce((s, e) => s + +e.ariaValueNow, -1)) < 0.01",
        SLIDERS,
    )
    weight = float(page.locator(SLIDERS).nth(3).get_attribute("aria-valuenow"))
    assert weight == pytest.approx(0.75, abs=0.02)
    assert len(words(page, ".edits li")) == 1  # a drag is one change
    page.click("text=Copy as command")
    command = page.evaluate("navigator.clipboard.readText()")
    assert command.startswith("regard look 'runs/transformer' --text 'a b a c a b' --edit ")
    (edit,) = json.loads(command.split("--edit ")[1].strip("'"))
    assert (edit["do"], edit["heads"], edit["rows"], edit["columns"]) == ("set", [2], [6], [3])
    page.click("text=Undo")
    page.wait_for_selector(".expected > .bars")
    assert words(page, ".expected .number") == before
    page.click("text=Redo")
    page.wait_for_selector(".compared")
    page.locator(".mute").nth(0).click()
    until(page, "document.querySelectorAll('.edits li').length === 2")
    accessible(page)
    page.wait_for_timeout(300)  # the address follows
    restored = visit(page.evaluate("location.hash"))
    until(restored, "document.querySelectorAll('.edits li').length === 2")
    assert words(restored, ".edits li") == words(page, ".edits li")
    page.click("text=Reset")
    page.wait_for_selector(".changes .muted")


def test_the_shown_distribution_is_the_models(visit, lab):  # noqa: F811
    edits = [{"do": "move", "site": "layer1.attention", "rows": [3], "source": 0, "to": 1, "share": 1.0}]
    page = visit(link("a b a", "attend", edit=json.dumps(edits)))
    page.wait_for_selector(".compared tbody tr")
    of = {"run": lab.run("transformer"), "text": "a b a", "edits": edits}
    wanted = lab.done("next", {"of": of, "place": 3, "top": 12})["chances"]
    assert words(page, ".compared tbody th") == [one["token"] for one in wanted]


def test_the_copied_command_repeats_what_the_page_shows(visit, lab_runs):  # noqa: F811
    edits = [{"do": "silence", "site": "layer0.attention", "heads": [1]}]
    page = visit(link("a b 'a'", "attend", edit=json.dumps(edits)))
    page.wait_for_selector(".compared tbody tr")
    shown = words(page, ".compared tbody th")
    page.click("text=Copy as command")
    program, *arguments = shlex.split(page.evaluate("navigator.clipboard.readText()"))
    assert program == "regard"
    done = subprocess.run(
        [sys.executable, "-m", "regard", *arguments, "--json"], cwd=lab_runs, capture_output=True, check=True
    )
    likeliest = [one["token"] for one in json.loads(done.stdout)["likeliest"][-1]]
    assert shown[: len(likeliest)] == likeliest
    page.click("text=Copy as Python")
    code = page.evaluate("navigator.clipboard.readText()")
    code += "print([token for token, _ in looked.record.likeliest[-1]])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=lab_runs, capture_output=True, check=True, text=True
    )
    assert ast.literal_eval(done.stdout) == likeliest


@pytest.mark.slow
def test_without_runs_the_lab_trains_one(browser, tmp_path):
    process, own = start_lab(cwd=tmp_path)
    page = browser.new_page()
    try:
        page.goto(own.address)
        page.wait_for_selector(".curve polyline[points]:not([points=''])", state="attached", timeout=90_000)
        page.wait_for_selector(".tokens", timeout=180_000)
        assert words(page, ".chip") == ["runs/lab"]
        accessible(page)
    finally:
        page.close()
        stop_lab(process)
    assert (tmp_path / "runs" / "lab" / "config.json").exists()


def test_map_and_mosaic(visit):
    page = visit(link("a b a c a b", "attend", form="map"), dark=True)
    page.wait_for_selector(".scroller canvas")
    page.focus(".scroller")
    page.keyboard.press("ArrowRight")
    until(page, "document.querySelector('.readout').textContent.includes('≈')")
    assert "b → a" in page.inner_text(".readout")
    pixels = "c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer"
    colours = page.eval_on_selector(".scroller canvas", f"c => new Set(new Uint32Array({pixels})).size")
    assert colours > 8
    accessible(page)
    page.click("text=All")
    page.wait_for_selector(".piece canvas")
    assert len(words(page, ".piece")) == 6
    page.locator(".piece .mute").nth(4).click()
    page.wait_for_selector(".piece.silent")
    accessible(page)
    page.locator(".piece .open").nth(5).click()
    page.wait_for_selector(".arcs")
    assert words(page, ".heads .head > :first-child[aria-pressed=true]") == ["2"]


def test_two_models_and_the_ladder(visit):
    page = visit(link("a b a c"))
    page.click("text=Choose models")
    page.get_by_label("Compare deep/ngram").check()
    page.keyboard.press("Escape")
    page.wait_for_selector(".ladder tbody tr")
    head = page.locator(".ladder thead button")
    head.nth(1).click()
    column = [float(cell.removeprefix("●")) for cell in words(page, ".ladder tbody td:nth-child(2)")]
    assert column == sorted(column, reverse=True)
    accessible(page)
    page.click("#tab-attend")
    page.wait_for_selector(".arcs")
    page.click("text=Choose models")
    accessible(page)
    page.locator(".run button", has_text="deep/ngram").click()
    page.wait_for_selector(".orders tbody tr")
    assert len(words(page, ".orders tbody tr")) == 4
    accessible(page)


def test_a_classifier_shows_its_pooling_and_its_labels(visit):
    page = visit(link("a c b a", "attend", ("labels",)))
    page.wait_for_selector(SLIDERS)
    assert words(page, ".pooled .token") == ["a", "c", "b", "a"]
    before = words(page, ".labels .number")
    page.locator(".weights input.number").nth(1).fill("0.9")
    page.keyboard.press("Enter")
    page.wait_for_selector(".labels .moved")
    assert len(words(page, ".labels tbody tr")) == 3
    accessible(page)
    page.click("text=Undo")
    page.wait_for_selector(".labels > .bars")
    assert words(page, ".labels .number") == before
    page.click("#tab-read")
    page.wait_for_selector(".strip .tokens")
    accessible(page)


def test_a_captioner_shows_its_weights_over_the_image_and_hides_regions(visit):
    page = visit(link("", "attend", ("captions",), scene="3"), width=360, height=740, dark=True)
    page.wait_for_selector(".regions [role=option]")
    page.wait_for_selector(".scene[aria-checked=true]")
    assert len(words(page, ".regions [role=option]")) == 64
    assert len(words(page, ".panel")) == len(words(page, ".panel .word"))
    page.locator(".regions [data-region='0']").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.click("text=Hide the region")
    page.wait_for_selector(".regions .gone")
    assert "region 8" in page.inner_text(".edits li")
    page.wait_for_selector(".compared .moved")
    accessible(page)
    page.locator(".scene[aria-checked=true]").focus()
    page.keyboard.press("ArrowRight")
    until(page, "document.querySelector('.scene[aria-checked=true]').dataset.scene === '4'")
    page.wait_for_timeout(300)
    assert "scene=4" in page.evaluate("location.hash")


def test_a_masked_reader_shows_its_blanks_and_their_doubt(visit):
    page = visit(link("a ___ a c", "read", ("reader",)))
    page.wait_for_selector(".expected .bars")
    assert words(page, ".token.after") == ["___"]
    assert words(page, ".strip .sum") == ["1 blank"]
    likeliest = words(page, ".expected .bars th")
    accessible(page)
    page.click("#tab-attend")
    page.wait_for_selector(SLIDERS)
    assert words(page, ".from .chosen") == ["___"]
    page.locator(".weights input.number").nth(2).fill("0.9")
    page.keyboard.press("Enter")
    page.wait_for_selector(".compared .moved")
    assert set(words(page, ".compared tbody th")) == set(likeliest)
    page.click("text=Undo")
    page.wait_for_selector(".expected > .bars")
    page.click("text=How far can the attention move?")
    page.wait_for_selector(".gauges tbody tr")
    assert words(page, ".doubt .bars.two tbody th") == ["a", "a", "c"]
    accessible(page)
    page.locator(".say .buttons button").first.click()
    page.wait_for_selector(".say .moves, .say .note")
    page.fill("textarea", "a b")
    page.wait_for_selector(".empty >> text=Write ___")


def test_an_image_file_is_added_and_one_of_the_runs_own_is_chosen(visit, lab_runs):  # noqa: F811
    page = visit(link("", "attend", ("own",)))
    page.wait_for_selector(".scene[aria-checked=true]")
    assert page.get_attribute(".scene[aria-checked=true]", "data-scene") == "own-0"
    assert page.locator(".scene").count() == 13
    page.wait_for_selector(".regions [role=option]")
    page.set_input_files("input[type=file]", lab_runs / "images" / "07.png")
    until(page, "document.querySelector('.scene[aria-checked=true]')?.dataset.scene.startsWith('file-')")
    page.wait_for_selector(SLIDERS)
    accessible(page)
    page.locator(".weights input.number").first.fill("0.8")
    page.keyboard.press("Enter")
    page.wait_for_selector(".compared .moved")
    page.click("text=Copy as command")
    assert "--image '07.png' " in page.evaluate("navigator.clipboard.readText()")
    page.set_input_files("input[type=file]", lab_runs / "text.txt")
    page.wait_for_selector("[role=alert] >> text=is not an image")


def test_a_large_image_is_made_smaller_before_it_is_sent(visit, tmp_path):
    from PIL import Image

    noise = Image.effect_noise((2600, 1300), 80).convert("RGB")
    noise.save(tmp_path / "large.png")  # above the bytes of a question
    page = visit(link("", "attend", ("captions",)))
    page.wait_for_selector(".scene[aria-checked=true]")
    page.set_input_files("input[type=file]", tmp_path / "large.png")
    until(page, "document.querySelector('.scene[aria-checked=true]')?.dataset.scene.startsWith('file-')")
    page.wait_for_selector(".regions [role=option]")


def test_a_link_to_a_run_that_is_not_here_says_so(visit):
    edit = json.dumps([{"do": "zero", "site": "layer7.attention"}])
    page = visit(link("a b", "read", ("gone",), edit=edit))
    page.wait_for_selector(".note >> text=gone, which is not among the runs here")
    page.wait_for_selector(".tokens")
    assert page.locator(".pill").count() == 0  # its changes are not those of another run


@pytest.mark.parametrize("form", ["arcs", "map"])
def test_gold_links_are_drawn_in_the_file(browser, tmp_path, form):
    import regard

    run = Path(regard.__file__).parent / "lessons" / "runs" / "translator-transformer"
    gold, out = "0-0 1-2 2-1 3-3 3-4", tmp_path / "look.html"
    regard.look(run, "The tall cat sees you", target="El gato alto te ve", gold=gold, out=out)
    page, errors = browser.new_page(viewport={"width": 1280, "height": 860}), list[str]()
    page.on("console", lambda message: message.type == "error" and errors.append(message.text))
    page.goto(f"{out.as_uri()}#attend?form={form}")
    page.wait_for_selector(".note >> text=Gold links")
    if form == "arcs":
        assert page.locator(".lines .gold").count() == 5
    else:
        page.wait_for_timeout(500)
        wanted = page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--gold').trim()")
        pixels = "c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer"
        found = page.eval_on_selector(".scroller canvas", f"c => [...new Uint32Array({pixels})]")
        red, green, blue = (int(wanted[at : at + 2], 16) for at in (1, 3, 5))
        assert found.count(0xFF << 24 | blue << 16 | green << 8 | red) > 100
    accessible(page)
    page.close()
    assert errors == []


def test_a_prediction_is_doubted_and_made_to_say_another_word(visit):
    page = visit(link("a b a c a b"))
    page.locator('.tokens [data-place="5"]').click()
    page.click("text=How far can the attention move?")
    page.wait_for_selector(".gauges tbody tr")
    assert page.locator('[data-place="5"]').get_attribute("aria-selected") == "true"
    assert words(page, ".doubt .bars.two tbody th") == ["a", "b", "a", "c"]
    accessible(page)
    page.locator(".say .buttons button").first.click()
    page.wait_for_selector(".say .moves, .say .note")
    assert page.locator(".say .primary").count() or "highest probability" in page.inner_text(".say")
    if page.locator(".say .primary").count():
        page.click("text=Make this change")
        page.wait_for_selector(".pill")


def test_heads_are_found_by_label(visit):
    page = visit(link("a b a c a b", "attend", form="mosaic"), width=360, height=740)
    page.click("text=What does each head do?")
    page.wait_for_selector(".piece .tag")
    assert len(words(page, ".piece .tag")) == 6
    last = page.locator(".found-heads .buttons button").last
    many = int(last.inner_text().rsplit(" ", 1)[1])
    last.click()
    assert len(words(page, ".piece")) == many
    accessible(page)


def test_forgetting_is_drawn_for_several_models(visit):
    page = visit(link("a b", "memory", ("transformer", "deep/ngram")), dark=True)
    page.wait_for_selector(".lines-chart polyline")
    until(page, "document.querySelectorAll('.memory .note').length === 2")
    assert "transformer" in page.inner_text(".memory .charts")
    accessible(page)


def test_a_sense_is_made_stronger(visit):
    page = visit(link("a b", "senses", ("backpack",)))
    page.wait_for_selector(".sense input")
    assert len(words(page, ".sense")) == 3
    page.locator(".sense input").nth(1).focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".sense.changed")
    page.wait_for_selector(".compared .moved")
    assert words(page, ".edits li span") == ["scale senses head 1 of “b” by 1.1"]
    accessible(page)
    page.keyboard.press("Control+z")
    page.wait_for_selector(".changes .muted")


def test_the_film_of_a_training(visit):
    page = visit(link("a b a c", "trained"), dark=True)
    until(page, "document.querySelector('.reel [role=status]')?.textContent.startsWith('step 7, loss')")
    assert len(words(page, ".film .piece")) == 6
    last = words(page, ".next-word .number")
    page.locator(".reel input").focus()
    page.keyboard.press("Home")
    until(page, "document.querySelector('.reel [role=status]').textContent.startsWith('step 0')")
    numbers = "String([...document.querySelectorAll('.next-word .number')].map(e => e.textContent))"
    until(page, f"last => {numbers} !== last", ",".join(last))
    accessible(page)


def test_a_lesson_follows_its_inputs(visit):
    page = visit("#lessons?lesson=attention")
    page.wait_for_selector(".step math")
    page.locator(".asked .quiet").first.click()
    page.wait_for_selector(".reason:not(:empty)")
    page.get_by_label("q, row 1, column 1", exact=True).fill("5")
    page.keyboard.press("Tab")
    until(page, "document.querySelector('.step .asked')?.textContent.includes('[5, 1]')")
    accessible(page)
    page.wait_for_timeout(300)
    restored = visit(page.evaluate("location.hash"), width=360, height=740, dark=True)
    until(restored, "document.querySelector('.step .asked')?.textContent.includes('[5, 1]')")
    restored.locator("nav select").select_option("walk")
    until(restored, "document.querySelector('article h2')?.textContent === 'walk'")
    accessible(restored)


def test_writing_stops_and_goes_on_from_another_token(visit):
    page = visit(link("a b", "write"))
    page.click("text=Write >> nth=-1")
    page.wait_for_selector(".alternatives button")
    until(page, "!document.querySelector('.toolbar .primary').textContent.includes('Stop')")
    page.locator('.tokens [data-place="0"]').click()
    other = page.locator(".alternatives button").nth(1)
    name = other.locator(".name").inner_text()
    other.click()
    until(
        page, "name => document.querySelector('.tokens [data-place=\"0\"]')?.textContent === name", arg=name
    )
    until(page, "!document.querySelector('.toolbar .primary').textContent.includes('Stop')")
    accessible(page)


@pytest.mark.parametrize("view", ["read", "attend", "write", "doubt", "memory"])
def test_narrow_and_dark(visit, view):
    page = visit(link("a b a c a b", view), width=360, height=740, dark=True)
    shown = {
        "read": ".tokens",
        "attend": SLIDERS,
        "write": ".toolbar",
        "doubt": ".gauges",
        "memory": ".curve",
    }
    page.wait_for_selector(shown[view])
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    tab, tabs = page.locator(f"#tab-{view}").bounding_box(), page.locator(".tabs").bounding_box()
    assert tab["x"] + tab["width"] <= tabs["x"] + tabs["width"] - 27  # the strip fades at its end
    accessible(page)


def test_hostile_text_is_text(visit):
    hostile = "<img src=x onerror=alert(1)> </script> \u202e &amp; {{x}} a"
    page = visit(link(hostile))
    page.wait_for_selector(".tokens")
    assert page.locator("#lab img").count() == 0
    assert page.input_value("textarea") == hostile


def test_a_saved_view_opens_offline(visit, browser, tmp_path):
    edits = [{"do": "silence", "site": "layer0.attention", "heads": [1]}]
    view = {"site": "layer1.attention", "head": "2", "edit": json.dumps(edits)}
    page = visit(link("a b a c a b", "attend", ("transformer", "deep/ngram"), **view))
    page.wait_for_selector(".compared tbody tr")
    shown = words(page, ".compared tr")
    weights = words(page, ".weights .line .difference")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save").click()
    download.value.save_as(tmp_path / "saved.html")
    saved, asked = browser.new_page(viewport={"width": 1280, "height": 860}), list[str]()
    saved.on("console", lambda message: asked.append(message.text))
    saved.on("request", lambda request: asked.append(request.url))
    saved.goto((tmp_path / "saved.html").as_uri())
    saved.wait_for_selector(".compared tbody tr")
    assert words(saved, ".compared tr") == shown
    saved.wait_for_selector(".weights .line .number:not(:empty)")
    assert words(saved, ".weights .line .difference") == weights
    accessible(saved)
    saved.get_by_role("radio", name="Before").click()
    saved.wait_for_selector(".expected > .bars")
    saved.get_by_role("radio", name="After").click()
    saved.click("#tab-read")
    saved.wait_for_selector(".ladder tbody tr")  # both models were saved
    saved.set_viewport_size({"width": 360, "height": 640})
    until(saved, "document.documentElement.scrollWidth <= 360")
    saved.close()
    assert [one for one in asked if not one.startswith(("file:", "data:"))] == []


def test_a_lab_that_goes_and_comes_back(browser, lab_runs):  # noqa: F811
    process, own = start_lab("runs", "--port", "0", cwd=lab_runs)
    port = own.place.split(":")[1]
    page = browser.new_page()
    try:
        page.goto(own.address + link("a b"))
        page.wait_for_selector(".tokens")
        stop_lab(process)
        page.fill("textarea", "a b a")
        page.wait_for_selector("[role=alert] >> text=does not answer")
        process, own = start_lab("runs", "--port", port, cwd=lab_runs)
        page.wait_for_selector("[role=alert] >> text=started again")
    finally:
        page.close()
        stop_lab(process)
