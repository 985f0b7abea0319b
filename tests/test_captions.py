"""Captions of images: scenes, image files, regions, training, the pointing game, looking and editing."""

import itertools
import json
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from regard.errors import UserError
from regard.inside.image_pictures import overlays
from regard.models.given import Images
from regard.parts.regions import Grid, Regions, make_grid
from regard.probabilities.captioning import right_regions
from regard.text import captions, images, scenes
from regard.text.scenes import COLOURS, Box, Scene, Shape

SMALL = {"scenes": 100, "width": 16, "steps": 6, "batch": 4, "evaluate_every": 3}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Five scenes as files, and runs that have hardly learned: on these files, and on given features."""
    made = tmp_path_factory.mktemp("captions")
    regard.scenes(made / "scenes", count=30, size=64)
    table = made / "scenes" / "captions.tsv"
    small = {name: value for name, value in SMALL.items() if name != "scenes"}
    regard.train(
        "captioner", images=made / "scenes", captions=table, out=str(made / "run"), side=32, **small,
        boxes=made / "scenes" / "boxes.tsv",
    )  # fmt: skip
    generator = np.random.default_rng(3)
    names = [line.split("\t")[0] for line in table.read_text().splitlines()]
    arrays = {name: generator.normal(size=(generator.integers(1, 6), 7)) for name in names}
    np.savez(made / "features.npz", **arrays)
    regard.train(
        "captioner", features=made / "features.npz", captions=table, out=str(made / "given"), **small
    )
    return made


def spoken(scene: Scene) -> str:
    """The caption, from the definition: left to right, with the larger of the two distances."""
    words = []
    for number, shape in enumerate(scene.shapes):
        if number:
            before = scene.shapes[number - 1]
            assert shape.x - before.x >= scenes.APART
            right, down = shape.x - before.x, shape.y - before.y
            assert abs(abs(right) - abs(down)) >= scenes.CLEAR
            words.append("left of" if right > abs(down) else "above" if down > 0 else "below")
        words.append(f"a {shape.colour} {shape.name}")
    return " ".join(words)


def test_a_scene_has_one_right_caption_and_a_box_for_each_word():
    for scene in scenes.make_scenes(50, seed=5):
        assert scene.caption() == spoken(scene)
        words = scene.caption().split()
        named = [(words[box.word], box.kind) for box in scene.boxes()]
        pairs = [((shape.colour, "colour"), (shape.name, "shape")) for shape in scene.shapes]
        assert named == [item for pair in pairs for item in pair]


def test_a_shape_is_drawn_in_its_box_and_in_its_colour():
    for name in scenes.SHAPES:
        scene = Scene((Shape("green", name, 0.4, 0.6, 0.2),), (0,))
        (picture,) = scenes.draw([scene], 60)
        drawn_YX = (picture != int(scenes.PAPER)).any(2)
        rows, columns = np.flatnonzero(drawn_YX.any(1)), np.flatnonzero(drawn_YX.any(0))
        # The box is (0.2, 0.4) to (0.6, 0.8): pixels 12 to 35 and 24 to 47; edges are one pixel wide.
        assert columns.min() in range(12, 15)
        assert columns.max() in range(33, 36)
        assert rows.min() in range(24, 27)
        assert rows.max() in range(45, 48)
        inside = picture[drawn_YX]
        assert (inside == COLOURS["green"]).all(1).sum() > 0.5 * len(inside)


def test_the_last_shape_lies_on_top():
    shapes = (Shape("red", "square", 0.4, 0.5, 0.2), Shape("blue", "square", 0.5, 0.5, 0.2))
    for order, colour in (((0, 1), "blue"), ((1, 0), "red")):
        assert tuple(scenes.draw([Scene(shapes, order)], 40)[0][20, 18]) == COLOURS[colour]


def test_training_never_sees_the_combinations_of_the_test():
    def kinds(scene: Scene) -> list[tuple[str, str]]:
        return [(shape.colour, shape.name) for shape in scene.shapes]

    seen = {frozenset(pair) for scene in scenes.make_scenes(400, 1) for pair in _pairs(kinds(scene))}
    for scene in scenes.make_scenes(60, 3, unseen=True):
        own = kinds(scene)
        assert not {frozenset(pair) for pair in itertools.pairwise(own)} & seen
    assert scenes.unseen_combinations().mean() == pytest.approx(3 / 30)


def _pairs(items: list) -> list[tuple]:
    return [(first, second) for place, first in enumerate(items) for second in items[place + 1 :]]


@pytest.mark.parametrize("mode", ["L", "LA", "P", "RGBA", "CMYK", "1", "I;16"])
def test_other_modes_are_converted(tmp_path, mode):
    path = tmp_path / ("image.tif" if mode in ("CMYK", "I;16") else "image.png")
    if mode == "I;16":
        Image.fromarray(np.full((4, 6), 40000, np.uint16)).save(path)
    else:
        Image.new("RGB", (6, 4), (255, 255, 255)).convert(mode).save(path)
    pixels = np.asarray(images.open_image(path))
    assert pixels.shape == (4, 6, 3)
    assert (pixels == (round(40000 / 65535 * 255 - 0.5) if mode == "I;16" else 255)).all()


def test_transparent_pixels_are_white_and_a_turned_photo_stands_upright(tmp_path):
    Image.new("RGBA", (3, 2), (255, 0, 0, 0)).save(tmp_path / "clear.png")
    assert (np.asarray(images.open_image(tmp_path / "clear.png")) == 255).all()
    exif = Image.Exif()
    exif[images.ORIENTATION] = 6
    Image.new("RGB", (6, 4)).save(tmp_path / "turned.jpg", exif=exif)
    assert images.open_image(tmp_path / "turned.jpg").size == (4, 6)
    assert images.image_size(tmp_path / "turned.jpg") == (4, 6)


def test_an_image_keeps_its_shape_in_the_frame():
    fitted = images.fit(Image.new("RGB", (40, 10), "white"), 16, 20)
    assert fitted.filled == (5, 20)
    assert (fitted.pixels[:5] == 255).all()
    assert (fitted.pixels[5:] == 0).all()
    assert images.frame_of([(40, 10), (10, 20)], 64) == (20, 40)
    assert images.frame_of([(400, 100), (100, 200)], 64) == (32, 64)


def bomb(path: Path) -> None:
    """A PNG whose header promises 50,000 x 50,000 pixels."""
    header = struct.pack(">IIBBBBB", 50_000, 50_000, 8, 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n"
    for kind, content in ((b"IHDR", header), (b"IDAT", zlib.compress(bytes(100))), (b"IEND", b"")):
        data += struct.pack(">I", len(content)) + kind + content
        data += struct.pack(">I", zlib.crc32(kind + content))
    path.write_bytes(data)


def truncated(path: Path) -> None:
    generator = np.random.default_rng(1)
    Image.fromarray(generator.integers(0, 255, (64, 64, 3), np.uint8)).save(path)
    path.write_bytes(path.read_bytes()[:2000])


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda path: None, "no such image file"),
        (truncated, "damaged or cut off"),
        (lambda path: path.write_text("no image"), "is not an image"),
        (lambda path: path.write_bytes(b""), "is not an image"),
        (bomb, "pixels"),
        (lambda path: path.mkdir(), "cannot be read"),
    ],
)
def test_a_bad_image_is_one_line(tmp_path, folder, spoil, says):
    spoil(tmp_path / "bad.png")
    with pytest.raises(UserError, match=says) as caught:
        regard.caption(folder / "run", tmp_path / "bad.png")
    assert str(caught.value).startswith(str(tmp_path / "bad.png"))
    (tmp_path / "table.tsv").write_text("bad.png\ta bad image\n")
    with pytest.raises(UserError, match=r"^\S*table\.tsv: line 1: \S*bad\.png: "):
        regard.train("captioner", images=tmp_path, captions=tmp_path / "table.tsv", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("0.png a red circle\n", r"line 1 has 1 column; write: file TAB caption"),
        ("0.png\ta\n\n0.png\ta\tb\n", r"line 3 has 3 columns"),
        ("0.png\t \n", r"line 1 has an empty column"),
        ("../out.png\ta\n", r"line 1 names \.\./out\.png, which lies outside"),
        ("/etc/out.png\ta\n", r"line 1 names /etc/out\.png, which lies outside"),
        ("\n", r"holds no captions"),
    ],
)
def test_a_bad_table_names_its_line(tmp_path, table, says):
    (tmp_path / "in").mkdir()
    for name in ("in/0.png", "out.png"):
        Image.new("RGB", (8, 8)).save(tmp_path / name)
    (tmp_path / "table.tsv").write_text(table)
    with pytest.raises(UserError, match=says):
        captions.read(tmp_path / "in", tmp_path / "table.tsv")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("1\t0\t0\t0\t4", "line 1 is not a box"),
        ("1\tred\t0\t0\t4\t4", "line 1 is not a box"),
        ("2\t0\t0\t0\t4\t4", "word 0 of line 2"),
        ("1\t2\t0\t0\t4\t4", "word 2 of line 1"),
        ("1\t0\t4\t0\t4\t4", "does not lie in the image"),
        ("1\t0\t0\t0\t9\t4", r"does not lie in the image \(8 x 8\)"),
    ],
)
def test_a_bad_box_names_its_line(tmp_path, line, says):
    Image.new("RGB", (8, 8)).save(tmp_path / "0.png")
    (tmp_path / "table.tsv").write_text("0.png\tred circle\n")
    (tmp_path / "boxes.tsv").write_text(f"{line}\n")
    with pytest.raises(UserError, match=says):
        captions.read(tmp_path, tmp_path / "table.tsv", boxes=tmp_path / "boxes.tsv")


def test_what_does_not_go_together_is_refused(tmp_path, folder):
    table = folder / "scenes" / "captions.tsv"
    for given in ({"images": folder / "scenes"}, {"captions": table}):
        with pytest.raises(UserError, match="give both"):
            regard.train("captioner", out=tmp_path / "run", **given)
    np.savez(tmp_path / "other.npz", image=np.zeros((2, 5)))
    with pytest.raises(UserError, match="features of shape"):
        regard.caption(folder / "given", tmp_path / "other.npz")
    (tmp_path / "bad.npz").write_bytes(b"PK no archive")
    with pytest.raises(UserError, match=r"bad\.npz"):
        regard.caption(folder / "given", tmp_path / "bad.npz")
    for verb in (regard.generate, regard.translate, regard.score):
        with pytest.raises(UserError, match=r"captions images|does not translate|regard caption"):
            verb(folder / "run")
    with pytest.raises(UserError, match="a captioner is measured on"):
        regard.evaluate(folder / "run", text="book.txt")
    with pytest.raises(UserError, match="does not caption images"):
        regard.caption(regard.train("ngram", out=str(tmp_path / "ngram"), order=1).run, "0.png")


def test_a_region_sees_its_own_part_of_the_image_and_one_pixel_around_it():
    grid = make_grid((3, 16, 16), 4, "grid")
    assert grid == Grid(16, 16, 4)
    torch.manual_seed(2)
    regions = Regions((3, 16, 16), grid, "grid", 8)
    image = torch.randn(1, 3, 16, 16, requires_grad=True)
    vectors_BRD, there_BR = regions(image)
    assert bool(there_BR.all())
    (gradient,) = torch.autograd.grad(vectors_BRD[0, 5].square().sum(), image)
    seen = gradient[0].abs().sum(0) > 0
    # Region 5 is row 1, column 1: pixels 4 to 7, and one more on each side.
    expected = torch.zeros(16, 16, dtype=torch.bool)
    expected[3:9, 3:9] = True
    assert torch.equal(seen, expected)


def test_regions_outside_an_image_are_hidden():
    regions = Regions((3, 8, 12), make_grid((3, 8, 12), 4, "patches"), "patches", 5)
    image = torch.zeros(1, 3, 8, 12)
    image[:, :, :, 5:] = torch.nan
    _, there_BR = regions(image)
    assert there_BR.tolist() == [[True, True, False, True, True, False]]


def test_the_default_patch_makes_at_most_a_hundred_regions():
    sizes = {(3, 32, 32): 4, (3, 12, 52): 4, (3, 64, 64): 8, (3, 64, 128): 16}
    assert {size: make_grid(size, None, "grid").patch for size in sizes} == sizes  # type: ignore[union-attr]
    with pytest.raises(UserError, match="power of 2"):
        make_grid((3, 32, 32), 6, "grid")


def test_a_region_is_right_if_a_quarter_of_it_lies_in_the_box():
    given = Images((3, 8, 8), grid=Grid(8, 8, 4))
    whole = (8, 8)
    assert right_regions(given, whole, Box(0, 0.0, 0.0, 0.5, 0.5)).tolist() == [True, False, False, False]
    # 2 of 4 pixels in width, 2 of 4 in height: exactly a quarter; then a little less.
    assert right_regions(given, whole, Box(0, 0.0, 0.0, 0.75, 0.75)).tolist() == [True] * 4
    assert right_regions(given, whole, Box(0, 0.0, 0.0, 0.74, 0.74)).tolist() == [True, True, True, False]
    # A tiny box: the region that holds most of it.
    assert right_regions(given, whole, Box(0, 0.6, 0.1, 0.65, 0.15)).tolist() == [False, True, False, False]
    # An image that fills the upper half of the frame: its lower edge is at 4 pixels.
    assert right_regions(given, (4, 8), Box(0, 0.0, 0.0, 1.0, 1.0)).tolist() == [True, True, False, False]


def test_a_run_is_measured_on_its_own_held_out_images_and_on_others(folder):
    own = regard.evaluate(folder / "run")
    assert own.images == own.captions == 3
    named = {"images": folder / "scenes", "captions": folder / "scenes" / "captions.tsv"}
    whole = regard.evaluate(folder / "run", **named, boxes=folder / "scenes" / "boxes.tsv")
    assert whole.images == 30
    found = whole.to_json()
    assert found["pointing_words"] == len((folder / "scenes" / "boxes.tsv").read_text().splitlines())
    assert 0 <= found["pointing"] <= 1
    assert 0 < found["pointing_mass"] < 1
    assert 0 < found["pointing_chance"] < 0.5
    assert found["pointing"] == pytest.approx((found["pointing_colour"] + found["pointing_shape"]) / 2)
    assert "pointing" not in regard.evaluate(folder / "run", **named).to_json()
    assert regard.evaluate(folder / "given").to_json()["images"] == 3


def test_built_in_scenes_are_the_same_again(tmp_path):
    trained = regard.train("captioner", out=str(tmp_path / "run"), **SMALL)
    assert regard.evaluate(tmp_path / "run").to_json()["pointing"] == trained.figures["pointing"]
    assert trained.run.config.texts.test[0].pairs == captions.TEST


def test_a_stopped_training_goes_on_with_the_same_bits(tmp_path, folder, monkeypatch):
    from regard.training import loop

    table = folder / "scenes" / "captions.tsv"
    options = {"images": str(folder / "scenes"), "captions": str(table), "width": 8, "batch": 4}
    options |= {"steps": 6, "evaluate_every": 2}
    whole = regard.train("captioner", out=str(tmp_path / "whole"), **options)
    calls = []

    def stop(*arguments):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return next_batch(*arguments)

    next_batch = loop.next_batch
    monkeypatch.setattr(loop, "next_batch", stop)
    with pytest.raises(KeyboardInterrupt):
        regard.train("captioner", out=str(tmp_path / "run"), **options)
    again = regard.train("captioner", out=str(tmp_path / "run"), resume=True)
    for name, tensor in whole.run.model.tensors().items():
        assert torch.equal(tensor, again.run.model.tensors()[name]), name


def test_caption_gives_weights_over_regions_and_edits_change_them(folder):
    found = regard.caption(folder / "run", sorted((folder / "scenes").glob("*.png"))[:2], count=2)
    assert len(found) == 2
    assert [len(best) for best in found] == [2, 2]
    assert found.regions == Grid(32, 32, 4).boxes()
    weights_HTR = found[0][0].attention["attention"]
    assert weights_HTR.shape == (1, len(found[0][0].tokens), 64)
    torch.testing.assert_close(weights_HTR.sum(2), torch.ones(weights_HTR.shape[:2]))
    best = int(weights_HTR[0, 1].argmax())
    hidden = regard.caption(
        folder / "run",
        folder / "scenes" / "00.png",
        edit=json.dumps({"do": "zero", "site": "attention", "columns": [best]}),
    )
    assert hidden.images[0].before is not None
    assert hidden.images[0].before[0].attention["attention"][0, 1].argmax() == best
    assert float(hidden[0][0].attention["attention"][:, :, best].abs().max()) == 0
    moved = regard.caption(
        folder / "run",
        folder / "scenes" / "00.png",
        edit=json.dumps({"do": "move", "site": "attention", "source": best, "to": 7}),
    )
    assert float(moved[0][0].attention["attention"][:, :, best].abs().max()) == 0
    assert "before" in moved.to_json()["captions"][0]


def test_given_features_are_captioned_by_name(folder):
    found = regard.caption(folder / "given", f"{folder / 'features.npz'}:00.png")
    assert [image.image for image in found.images] == [f"{folder / 'features.npz'}:00.png"]
    assert found.regions is None
    everything = regard.caption(folder / "given", folder / "features.npz", beam=1)
    assert len(everything) == 30
    looked = regard.look(folder / "given", image=f"{folder / 'features.npz'}:00.png")
    assert looked.record.image is None
    assert looked.record.maps["attention"].numbers.shape[2] == len(looked.record.given or [])


def test_looking_lays_the_weights_over_the_image(folder, tmp_path):
    text = "a red circle left of a blue square"
    looked = regard.look(folder / "run", text, image=folder / "scenes" / "00.png", out=tmp_path / "look.svg")
    record = looked.record
    assert record.tokens[1:-1] == text.split()
    assert record.image is not None
    assert len(record.image.boxes) == len(record.given or []) == 64
    svg = (tmp_path / "look.svg").read_text()
    assert svg == overlays(record, f"captioner · {folder / 'run'}")
    assert svg.count('href="#whole"') == len(text.split()) + 1
    assert svg.count("data:image/png") == 1
    assert looked.to_json()["image"]["columns"] == 8
    for name in ("look.png", "look.json", "look.tsv"):
        regard.look(folder / "run", text, image=folder / "scenes" / "00.png", out=tmp_path / name)
    with pytest.raises(UserError, match="name the image"):
        regard.look(folder / "run", text)
    with pytest.raises(UserError, match="not for captioners"):
        regard.look(folder / "run", text, image=folder / "scenes" / "00.png", target="un")


def test_the_file_shows_the_image_under_the_weights(folder, tmp_path, open_page):
    page = tmp_path / "look.html"
    edit = json.dumps({"do": "zero", "site": "attention", "columns": [0]})
    regard.look(folder / "run", "a red circle", image=folder / "scenes" / "00.png", edit=edit, out=page)
    opened = open_page(page, ".over-image img")
    pixels = "canvas => canvas.toDataURL()"

    def veil(word: str) -> str:
        opened.locator(".panel", has_text=word).click()
        opened.wait_for_timeout(100)
        return opened.locator(".looked-at .image canvas").evaluate(pixels)

    assert veil("red") != veil("circle")
    opened.locator('[data-region="9"]').hover()
    assert "region 9" in opened.locator("figcaption").inner_text()
    opened.get_by_role("radio", name="Before").click()
    assert opened.locator(".compared").count() == 0


def test_the_command_line_captions_images(regard_cli, folder):
    image = folder / "scenes" / "00.png"
    done = regard_cli("caption", folder / "run", image, "--json")
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["captions"]
    assert found["image"] == str(image)
    assert found["captions"][0]["text"] == regard.caption(folder / "run", image)[0][0].text
    done = regard_cli("caption", folder / "run", "missing.png")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_the_captioner_learns_to_name_shapes_where_they_are(tmp_path):
    trained = regard.train("captioner", out=str(tmp_path / "run"), scenes=4000, steps=900)
    assert trained.figures["bleu"] > 80
    assert trained.figures["pointing"] > 0.9
