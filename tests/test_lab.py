"""The lab's server: what it answers, whom it answers, and that its numbers are those of `regard look`."""

import base64
import http.client
import io
import json
import math
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from PIL import Image

import regard

ROOT = Path(__file__).parent.parent
TEXT = "a b a c a b"


@dataclass
class Lab:
    """A running lab, asked as a page asks it."""

    address: str

    @property
    def place(self) -> str:
        return urlsplit(self.address).netloc

    @property
    def token(self) -> str:
        return self.address.split("token=")[1]

    def send(self, path: str, body: bytes | None = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
        """Send a request; a header with an empty value is left out."""
        port = urlsplit(self.address).port
        usual = {"Host": self.place, "Cookie": f"regard_lab_{port}={self.token}"}
        if body is not None:
            usual |= {"Origin": f"http://{self.place}", "Content-Type": "application/json"}
        usual |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection(self.place, timeout=60)
        connection.putrequest("GET" if body is None else "POST", path, skip_host=True)
        for name, value in usual.items():
            if value:
                connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        response = connection.getresponse()
        answer = response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()
        connection.close()
        return answer

    def ask(self, kind: str, question: dict[str, Any], **headers: str) -> Any:
        status, found, body = self.send(f"/api/{kind}", json.dumps(question).encode(), **headers)
        assert status == 200, body
        if found["content-type"] == "application/octet-stream":
            return body
        answer = json.loads(body)
        if answer.get("state") == "working":  # a busy machine: ask again with the ticket
            return self.ask("wait", {"ticket": answer["ticket"]})
        return answer

    def done(self, kind: str, question: dict[str, Any]) -> Any:
        answer = self.ask(kind, question)
        assert answer["state"] == "done", answer
        return answer["result"]

    def pieces(self, kind: str, question: dict[str, Any]) -> tuple[list[Any], Any]:
        """Follow a stream to its end: the pieces, and the result if it has one."""
        status, headers, body = self.send(f"/api/{kind}", json.dumps(question).encode())
        assert status == 200
        assert headers["content-type"].startswith("text/event-stream"), body
        events = [json.loads(line[6:]) for line in body.decode().split("\n\n") if line]
        assert [event["state"] for event in events] == ["working"] * (len(events) - 1) + ["done"], events[-1]
        return [event["result"] for event in events[:-1]], events[-1]["result"]

    def run(self, name: str) -> str:
        status, _, body = self.send("/api/runs")
        assert status == 200
        return next(run["id"] for run in json.loads(body)["runs"] if run["name"] == name)


def start_lab(*arguments: str, cwd: Path) -> tuple[subprocess.Popen[str], Lab]:
    process = subprocess.Popen(
        [sys.executable, "-m", "regard", "lab", "--no-browser", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=cwd, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    return process, Lab(process.stdout.readline().strip())


def stop_lab(process: subprocess.Popen[str]) -> None:
    with process:  # closes its output
        process.terminate()


@pytest.fixture(scope="session")
def lab_runs(tmp_path_factory) -> Path:
    """Small runs in a folder, beside links that leave it or go round in it."""
    folder = tmp_path_factory.mktemp("lab")
    (folder / "text.txt").write_text(f"{TEXT} c b a\n" * 40)
    usual = {"text": str(folder / "text.txt"), "tokens": "word", "hold": 0}
    small = {"layers": 2, "heads": 3, "width": 18, "context": 31, "steps": 7, "batch": 4}
    filmed = {"film": True, "evaluate_every": 3}
    regard.train("transformer", out=str(folder / "runs" / "transformer"), **usual, **small, **filmed)
    senses = {"layers": 1, "heads": 1, "width": 18, "senses": 3, "context": 31, "steps": 3, "batch": 4}
    regard.train("backpack", out=str(folder / "runs" / "backpack"), **usual, **senses)
    regard.train("ngram", out=str(folder / "runs" / "deep" / "ngram"), document="line", **usual)
    regard.export(str(folder / "runs" / "deep" / "ngram"), to=str(folder / "runs" / "counts.arpa"))
    (folder / "labelled.tsv").write_text("good\ta b c\nbad\tc c b a\nodd\tb\n" * 20)
    labels = {"labelled": str(folder / "labelled.tsv"), "steps": 5, "width": 14, "batch": 4, "hold": 0}
    regard.train("classifier", out=str(folder / "runs" / "labels"), **labels)
    seen = {"steps": 2, "width": 10, "batch": 4}
    regard.train("captioner", out=str(folder / "runs" / "captions"), scenes=100, **seen)
    regard.scenes(folder / "images", count=12, size=32)
    own = {"images": str(folder / "images"), "captions": str(folder / "images" / "captions.tsv")}
    regard.train("captioner", out=str(folder / "runs" / "own"), **own, **seen)
    blanks = {"encoder": "transformer", "layers": 2, "heads": 3, "width": 18, "context": 31}
    regard.train("reader", out=str(folder / "runs" / "reader"), **usual, **blanks, steps=5, batch=4)
    outside = tmp_path_factory.mktemp("outside")
    shutil.copytree(folder / "runs" / "transformer", outside / "secret")
    (folder / "runs" / "link").symlink_to(outside / "secret")
    (folder / "runs" / "loop").symlink_to(folder / "runs")
    return folder


@pytest.fixture(scope="session")
def lab(lab_runs) -> Iterator[Lab]:
    process, lab = start_lab("runs", cwd=lab_runs)
    yield lab
    stop_lab(process)


def test_runs_are_listed_below_a_folder(lab):
    _, _, body = lab.send("/api/runs")
    runs = json.loads(body)["runs"]
    assert {(run["name"], run["family"], run["tokens"], run["reads"]) for run in runs} == {
        ("transformer", "transformer", "word", "text"),
        ("deep/ngram", "ngram", "word", "text"),
        ("counts.arpa", "ngram", "word", "text"),
        ("backpack", "backpack", "word", "text"),
        ("labels", "classifier", "word", "labels"),
        ("captions", "captioner", "word", "captions"),
        ("own", "captioner", "word", "captions"),
        ("reader", "reader", "word", "blanks"),
    }


def test_an_arpa_file_is_read_as_its_run(lab):
    texts = [lab.done("read", {"run": lab.run(name), "text": TEXT}) for name in ("deep/ngram", "counts.arpa")]
    first, second = (read["surprisal"][1:] for read in texts)
    assert first == pytest.approx(second, rel=1e-4)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["nowhere"], 2, "no such run"),
        (["empty"], 2, "holds no run"),
        (["--port", "70000"], 2, "--port"),
        (["--host", "no.such.host.invalid"], 2, "--host"),
        (["--host", "192.0.2.1"], 1, "--port"),  # an address of another machine (RFC 5737)
    ],
)
def test_mistakes_on_the_command_line_are_one_line(regard_cli, tmp_path, arguments, code, said):
    (tmp_path / "empty").mkdir()
    done = regard_cli("lab", "--no-browser", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("path", "body", "headers", "status"),
    [
        ("/", None, {"Cookie": ""}, 401),
        ("/api/runs", None, {"Cookie": "regard_lab=x"}, 401),
        ("/api/runs?token=wrong", None, {"Cookie": ""}, 401),
        ("/api/runs", None, {"Host": "evil.example:80"}, 421),
        ("/api/runs", None, {"Host": "localhost"}, 421),
        ("/api/runs", None, {"Origin": "http://evil.example"}, 403),
        ("/api/runs", None, {"Sec_Fetch_Site": "cross-site"}, 403),
        ("/api/read", b"{}", {"Origin": ""}, 403),
        ("/api/read", b"{}", {"Origin": "null"}, 403),
        ("/api/write", b"{}", {"Origin": "http://evil.example"}, 403),
        ("/api/read", b"{}", {"Content_Type": "text/plain"}, 415),
        ("/api/read", b" " * 2_000_001, {}, 413),
        ("/api/nothing", None, {}, 404),
        ("/..%2f..%2fetc/passwd", None, {}, 404),
    ],
)
def test_requests_from_elsewhere_are_refused(lab, path, body, headers, status):
    assert lab.send(path, body, **headers)[0] == status


def test_the_token_becomes_a_strict_cookie(lab):
    status, headers, body = lab.send(f"/?token={lab.token}", Cookie="")
    assert status == 200
    assert {"HttpOnly", "SameSite=Strict"} <= set(headers["set-cookie"].split("; "))
    assert b"<script type" in body
    assert b"<script>" not in body  # the policy allows no inline script
    policy = headers["content-security-policy"]
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize(
    ("kind", "question", "said"),
    [
        ("read", {}, "run"),
        ("read", {"run": "r0"}, "text"),
        ("read", {"run": "../..", "text": "a"}, "not in the list"),
        ("read", {"run": "r0", "text": "a" * 100_001}, "text"),
        ("read", {"run": "r0", "text": "a", "path": "/etc"}, "not known"),
        ("read", {"run": "r0", "text": ""}, "give some text"),
        ("rows", {"of": {"run": "r0", "text": "a"}, "site": "nowhere", "rows": [0]}, "nowhere"),
        ("tile", {"of": {"run": "r0", "text": "a"}, "site": "x", "head": 0, "row": 0, "column": 0,
                  "rows": 0, "columns": 1}, "rows"),
        ("write", {"run": "r0", "prompt": "a", "length": 100_000}, "length"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(lab, kind, question, said):
    question = json.loads(json.dumps(question).replace('"r0"', f'"{lab.run("transformer")}"'))
    answer = lab.ask(kind, question)
    assert answer["state"] == "failed"
    assert said in answer["error"]
    assert "\n" not in answer["error"]


def test_the_page_knows_the_messages_of_the_server():
    source = subprocess.run(
        [sys.executable, "page/protocol.py"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert (ROOT / "page" / "src" / "protocol.ts").read_text() == source.stdout


def test_a_reading_is_that_of_look(lab, lab_runs):
    run = lab_runs / "runs" / "transformer"
    read = lab.done("read", {"run": lab.run("transformer"), "text": TEXT, "top": 3})
    record = regard.look(str(run), TEXT, top=3).record
    assert read["tokens"] == record.tokens
    assert read["ranks"] == record.ranks
    assert read["surprisal"][1:] == pytest.approx(record.surprisal[1:], rel=1e-5)
    for place, likeliest in enumerate(record.likeliest):
        assert [token for token, _ in read["likeliest"][place]] == [token for token, _ in likeliest]


def test_ranks_count_the_tokens_above(lab):
    read = lab.done("read", {"run": lab.run("transformer"), "text": TEXT, "top": 100})
    for place, token in enumerate(read["tokens"][1:]):
        names = [name for name, _ in read["likeliest"][place]]
        assert names[read["ranks"][place + 1] - 1] == token


SITE = "layer1.attention"
EDITS: dict[str, dict[str, Any]] = {
    "set": {"rows": [3], "columns": [1], "value": 0.7, "heads": [2]},
    "scale": {"rows": [2, 5], "columns": [0], "by": 3.0},
    "zero": {"columns": [1]},
    "mean": {},
    "uniform": {"rows": [5]},
    "permute": {"columns": [0, 1, 2], "order": [2, 0, 1]},
    "move": {"rows": [5], "source": 0, "to": 4, "share": 0.5},
    "silence": {"heads": [1]},
    "shift": {"site": f"{SITE}.scores", "columns": [2], "by": 1.5},
    "patch": {"site": "layer0.residual", "rows": [1], "text": "c b"},
    "swap": {"site": f"{SITE}.value", "heads": [0, 2]},
    "project": {"site": "layer0.residual", "direction": [1.0] + [0.0] * 17},
    "steer": {"site": "layer0.residual", "direction": [0.5, -0.5] * 9, "by": 2.0},
}


def test_every_kind_of_edit_has_a_case():
    from regard.parts.edit_kinds import EDITS as KINDS

    assert set(EDITS) == set(KINDS)


@pytest.mark.parametrize("kind", EDITS)
def test_distributions_under_an_edit_are_those_of_look(lab, lab_runs, kind):
    edits = [{"do": kind, "site": SITE, **EDITS[kind]}]
    looked = regard.look(str(lab_runs / "runs" / "transformer"), TEXT, top=100, edit=json.dumps(edits))
    assert looked.before is not None
    of = {"run": lab.run("transformer"), "text": TEXT, "top": 100, "edits": edits}
    read = lab.done("read", of)
    assert read["surprisal"][1:] == pytest.approx(looked.record.surprisal[1:], rel=1e-5)
    assert read["before"][1:] == pytest.approx(looked.before.surprisal[1:], rel=1e-5)
    moved = 0.0
    for place in range(len(read["tokens"])):
        answer = lab.done("next", {"of": of, "place": place, "top": 100})
        after, before = dict(looked.record.likeliest[place]), dict(looked.before.likeliest[place])
        for chance in answer["chances"]:
            assert chance["after"] == pytest.approx(after[chance["token"]], rel=1e-5, abs=1e-9)
            assert chance["before"] == pytest.approx(before[chance["token"]], rel=1e-5, abs=1e-9)
        total = sum(abs(after[name] - before[name]) for name in after) / 2
        assert answer["moved"] == pytest.approx(total, rel=1e-4, abs=1e-7)
        moved += total
    assert moved > 1e-6  # the edit has an effect, so that the comparison says something


def test_rows_and_tiles_are_those_of_the_record(lab, lab_runs):
    edits = [{"do": "set", "site": SITE, **EDITS["set"]}]
    record = regard.look(str(lab_runs / "runs" / "transformer"), TEXT, edit=json.dumps(edits)).record
    weights_HQK = record.map(SITE).numbers
    of = {"run": lab.run("transformer"), "text": TEXT, "edits": edits}
    rows = lab.done("rows", {"of": of, "site": SITE, "rows": [3, 6]})["numbers"]
    for head in range(3):
        for place, row in enumerate((3, 6)):
            assert rows[head][place] == pytest.approx(weights_HQK[head, row].tolist(), abs=1e-6)
    assert rows[2][0][1] == pytest.approx(0.7, abs=1e-6)
    tile = {"of": of, "site": SITE, "head": 2, "row": 2, "column": 1, "rows": 4, "columns": 5}
    found = list(lab.ask("tile", tile))
    wanted = (weights_HQK[2, 2:6, 1:6].sqrt() * 255).round().int().flatten().tolist()
    assert found == wanted
    found = list(lab.ask("tile", {**tile, "gain": 4.0}))
    assert found == (
        ((weights_HQK[2, 2:6, 1:6] * 4).clamp(max=1).sqrt() * 255).round().int().flatten().tolist()
    )
    found = list(lab.ask("tile", {**tile, "head": -1}))
    mean_QK = weights_HQK.mean(0)[2:6, 1:6]
    assert found == (mean_QK.sqrt() * 255).round().int().flatten().tolist()
    mosaic = lab.ask("mosaic", {"of": of, "sites": ["layer0.attention", SITE], "size": 4})
    assert len(mosaic) == 2 * 3 * 4 * 4
    block = weights_HQK[2, 2:4, 0:2].max().sqrt() * 255  # 7 positions in 4 blocks of 2
    assert mosaic[(3 + 2) * 16 + 4] == int(block.round())


def test_writing_is_that_of_generate_and_goes_on_from_a_choice(lab, lab_runs):
    def write(**more: Any) -> list[dict[str, Any]]:
        question = {"run": lab.run("transformer"), "prompt": "a b", "length": 6, "temperature": 0.0, **more}
        return lab.pieces("write", question)[0]

    pieces = write()
    (text,) = regard.generate(str(lab_runs / "runs" / "transformer"), "a b", length=6, temperature=0.0)
    assert "".join(piece["text"] for piece in pieces if not piece["ended"]) == text
    for piece in pieces:
        assert piece["likeliest"][0][0] == piece["id"]  # temperature 0 takes the likeliest
    rest = write(ids=[pieces[0]["id"]], length=5)
    assert [piece["id"] for piece in rest] == [piece["id"] for piece in pieces[1:]]
    other = pieces[0]["likeliest"][1][0]
    assert write(ids=[other], length=1)[0]["likeliest"] != rest[0]["likeliest"]


def test_an_ngram_shows_its_orders(lab):
    read = lab.done("read", {"run": lab.run("deep/ngram"), "text": TEXT})
    assert read["sites"] == []
    assert read["terms_of"] == "probability"
    for place in range(1, len(read["tokens"])):
        total = sum(value for _, value in read["terms"][place])
        assert total == pytest.approx(math.exp(-read["surprisal"][place]), rel=1e-4)


def test_labels_under_an_edit_are_those_of_look(lab, lab_runs):
    edits = [{"do": "set", "site": "pooling", "rows": [0], "columns": [1], "value": 0.9}]
    looked = regard.look(str(lab_runs / "runs" / "labels"), "a c b", edit=json.dumps(edits))
    assert looked.before is not None
    read = lab.done("read", {"run": lab.run("labels"), "text": "a c b", "edits": edits})
    found = read["labels"]
    after, before = dict(looked.record.labels or ()), dict(looked.before.labels or ())
    assert {one["token"]: one["after"] for one in found["chances"]} == pytest.approx(after)
    assert {one["token"]: one["before"] for one in found["chances"]} == pytest.approx(before)
    moved = sum(abs(after[name] - before[name]) for name in after) / 2
    assert found["moved"] == pytest.approx(moved)
    assert moved > 1e-6
    (site,) = [one for one in read["sites"] if one["name"] == "pooling"]
    assert (site["row_side"], site["causal"], read["tokens"]) == ("whole", False, ["a", "c", "b"])


def test_a_caption_under_an_edit_is_that_of_look(lab, lab_runs, tmp_path):
    """The scenes of the lab are those that `regard scenes` writes, to the last digit of every weight."""
    regard.scenes(tmp_path / "scenes", count=12, unseen=True)
    run, image = str(lab_runs / "runs" / "captions"), tmp_path / "scenes" / "07.png"
    edits = [{"do": "zero", "site": "regions", "rows": [9, 10]}]
    (caption,) = regard.caption(run, image, edit=json.dumps(edits))[0]
    of = {"run": lab.run("captions"), "text": "", "scene": 7, "edits": edits}
    own = lab.done("read", of)
    assert own["tokens"][1:] == caption.tokens  # the model captions what it still sees
    of["target"] = "a red ring"
    read = lab.done("read", of)
    looked = regard.look(run, "a red ring", image=image, edit=json.dumps(edits))
    assert read["surprisal"][1:] == pytest.approx(looked.record.surprisal[1:], rel=1e-5)
    assert looked.before is not None
    assert read["before"][1:] == pytest.approx(looked.before.surprisal[1:], rel=1e-5)
    (site,) = [one["name"] for one in read["sites"] if one["holds"] == "weights"]
    rows = lab.done("rows", {"of": of, "site": site, "rows": [1]})["numbers"]
    assert rows[0][0] == pytest.approx(looked.record.map(site).numbers[0, 1].tolist(), abs=1e-6)
    assert looked.record.image is not None
    assert read["image"]["boxes"] == [list(box) for box in looked.record.image.boxes]
    scenes = lab.done("scenes", {"run": lab.run("captions")})["scenes"]
    assert [one["caption"] for one in scenes] == [
        line.split("\t")[1] for line in (tmp_path / "scenes" / "captions.tsv").read_text().splitlines()
    ]


def test_a_captioner_sees_images_of_its_own_data_and_added_files(lab, lab_runs):
    run = lab.run("own")
    (first, *rest) = lab.done("scenes", {"run": run})["scenes"]
    assert first["id"] == "own-0"
    assert Path(first["file"]).parent == lab_runs / "images"
    assert [one["file"] is None for one in rest] == [
        True
    ] * 12  # a tenth of 12 images is held out; 12 are drawn
    read = lab.done("read", {"run": run, "text": "", "scene": "own-0", "target": "a red ring"})
    looked = regard.look(str(lab_runs / "runs" / "own"), "a red ring", image=first["file"])
    assert read["surprisal"][1:] == pytest.approx(looked.record.surprisal[1:], rel=1e-5)
    assert lab.done("read", {"run": run, "text": ""}) == lab.done(
        "read", {"run": run, "text": "", "scene": "own-0"}
    )
    file = (lab_runs / "images" / "07.png").read_bytes()
    question = {"run": lab.run("captions"), "name": "<b>07.png", "data": base64.b64encode(file).decode()}
    added = lab.done("add", question)
    assert (added["caption"], added["id"][:5]) == ("<b>07.png", "file-")
    assert lab.done("scenes", {"run": lab.run("captions")})["scenes"][0] == added
    of = {"run": lab.run("captions"), "text": "", "scene": added["id"], "target": "a red ring"}
    looked = regard.look(
        str(lab_runs / "runs" / "captions"), "a red ring", image=lab_runs / "images" / "07.png"
    )
    assert lab.done("read", of)["surprisal"][1:] == pytest.approx(looked.record.surprisal[1:], rel=1e-5)


@pytest.mark.parametrize(
    ("run", "data", "said"),
    [
        ("captions", "!!!", "did not arrive as it was sent"),
        ("captions", "cut", "damaged or cut off"),
        ("captions", base64.b64encode(b"no image").decode(), "is not an image"),
        ("captions", "wide", "give a smaller copy"),
        ("transformer", "", "does not caption images"),
    ],
)
def test_what_is_no_image_of_a_bounded_size_is_refused(lab, run, data, said):
    if data in ("wide", "cut"):  # a small file that describes many pixels, and half of a file
        held = io.BytesIO()
        Image.new("1", (2048, 2048) if data == "wide" else (64, 64)).save(held, "PNG")
        data = base64.b64encode(held.getvalue()[: None if data == "wide" else 50]).decode()
    answer = lab.ask("add", {"run": lab.run(run), "name": "x.png", "data": data})
    assert answer["state"] == "failed"
    assert said in answer["error"]


def test_blanks_are_those_of_look_and_their_doubts_those_of_doubt(lab, lab_runs):
    run, text = str(lab_runs / "runs" / "reader"), "a b ___ c"
    edits = [{"do": "uniform", "site": "layer1.attention", "rows": [2]}]
    of = {"run": lab.run("reader"), "text": text, "edits": edits}
    looked = regard.look(run, text, edit=json.dumps(edits), top=3)
    assert looked.before is not None
    read = lab.done("read", {**of, "top": 3})
    assert read["fills"]
    assert [name for name, _ in read["likeliest"][2]] == [name for name, _ in looked.record.likeliest[2]]
    next = lab.done("next", {"of": of, "place": 2, "top": 100})
    after, before = ({one["token"]: one[when] for one in next["chances"]} for when in ("after", "before"))
    for record, chances in ((looked.record, after), (looked.before, before)):
        assert [chances[name] for name, _ in record.likeliest[2]] == pytest.approx(
            [p for _, p in record.likeliest[2]], rel=1e-5
        )
    stages, doubted = lab.pieces("doubt", {"of": of, "place": 2})
    assert [stage["about"] for stage in stages][-1] == "the scores are judged"
    own = regard.doubt(run, text, edit=json.dumps(edits))
    assert (doubted["words"], doubted["target"]) == (own.words, own.target)
    assert doubted["own"] == pytest.approx(own.attributions[0].scores, abs=1e-6)
    assert [one["divergence"] for one in doubted["moved"]] == pytest.approx(
        [one.divergence for one in own.moved], abs=1e-3
    )
    assert "no blank at position 1" in lab.ask("next", {"of": of, "place": 1})["error"]


@pytest.mark.parametrize(
    ("run", "more", "said"),
    [
        ("captions", {"text": "", "scene": 12}, "not among those of this run"),
        ("captions", {"text": "", "scene": "own-0"}, "not among those of this run"),
        ("labels", {"text": " "}, "give some text"),
    ],
)
def test_what_a_model_cannot_read_is_one_line(lab, run, more, said):
    answer = lab.ask("read", {"run": lab.run(run), **more})
    assert answer["state"] == "failed"
    assert said in answer["error"]


@pytest.mark.parametrize(
    "edits", [[], [{"do": "silence", "site": SITE, "heads": [1]}]], ids=["plain", "edited"]
)
def test_doubts_are_those_of_doubt(lab, lab_runs, edits):
    run, edit = str(lab_runs / "runs" / "transformer"), json.dumps(edits) if edits else None
    doubted = regard.doubt(run, TEXT, position=4, edit=edit)
    of = {"run": lab.run("transformer"), "text": TEXT, "edits": edits}
    stages, found = lab.pieces("doubt", {"of": of, "place": 4})
    done = [stage["done"] for stage in stages]  # the search tells every tenth of its 300 steps
    assert done == pytest.approx([0.8 * step / 30 for step in range(30)] + [0.8, 0.9])
    assert (found["words"], found["target"]) == (doubted.words, doubted.target)
    assert found["probability"] == pytest.approx(doubted.probability)
    moved = [(one.name, one.divergence, one.most) for one in doubted.moved]
    assert [(one["name"], one["divergence"], one["most"]) for one in found["moved"]] == [
        (name, pytest.approx(divergence, rel=1e-4), pytest.approx(most)) for name, divergence, most in moved
    ]
    assert found["farthest"] == pytest.approx(doubted.moved_words, abs=1e-4)
    methods = {one["name"]: one for one in found["methods"]}
    for attribution, judgement in zip(doubted.attributions, doubted.judgements, strict=False):
        assert methods[attribution.method]["scores"] == pytest.approx(attribution.scores, abs=1e-5)
        judged = methods[judgement.method]["comprehensiveness"]
        assert judged == pytest.approx(judgement.comprehensiveness, abs=1e-5)


def test_a_least_change_is_that_of_doubt_and_says_the_word(lab, lab_runs):
    run = str(lab_runs / "runs" / "transformer")
    likeliest = regard.look(run, TEXT).record.likeliest[-1]
    say = likeliest[1][0]
    doubted = regard.doubt(run, TEXT, say=say)
    of = {"run": lab.run("transformer"), "text": TEXT}
    stages, found = lab.pieces("say", {"of": of, "place": 6, "say": say})
    assert len(stages) == len(doubted.changes)
    moved = [one.moved for one in doubted.changes]
    assert [one["moved"] for one in found["changes"]] == [
        None if own is None else pytest.approx(own, rel=1e-4) for own in moved
    ]
    reached = [one for one in found["changes"] if one["moved"] is not None]
    for one in reached:
        after = lab.done("next", {"of": {**of, "edits": one["edits"]}, "place": 6})["chances"]
        assert after[0]["token"] == say
    body = lab.send("/api/say", json.dumps({"of": of, "place": 6, "say": "zebra"}).encode())[2]
    assert b'"failed"' in body.split(b"\n\n")[-2]
    assert b"zebra" in body


def test_heads_and_forgetting_are_those_of_the_verbs(lab, lab_runs):
    run = str(lab_runs / "runs" / "transformer")
    _, found = lab.pieces("heads", {"run": lab.run("transformer")})
    report = regard.heads(run)
    assert [(one["site"], one["label"]) for one in found["heads"]] == [
        (head.site, head.label) for head in report.heads
    ]
    assert [one["head"] for one in found["heads"]] == [0, 1, 2, 0, 1, 2]
    for one, head in zip(found["heads"], report.heads, strict=True):
        scores = {score["kind"]: score["value"] for score in one["scores"]}
        assert scores == pytest.approx({kind: score.value for kind, score in head.scores.items()})
    stages, found = lab.pieces("forget", {"run": lab.run("transformer")})
    (forgot,) = regard.forget(run).results
    assert [stage["done"] for stage in stages] == sorted(stage["done"] for stage in stages)
    assert dict(map(tuple, found["reach"])) == pytest.approx(forgot.reach)
    assert [one["rise"] for one in found["rises"]] == pytest.approx(
        [one.rise for one in forgot.rises], abs=1e-6
    )
    assert found["loss"] == pytest.approx(forgot.loss)


def test_senses_are_those_of_the_verb(lab, lab_runs):
    edits = [{"do": "scale", "site": "senses", "heads": [1], "words": ["b"], "by": 2.5}]
    of = {"run": lab.run("backpack"), "text": "a b", "edits": edits}
    found = lab.done("senses", {"of": of, "word": "b", "place": 2, "top": 3})
    run = str(lab_runs / "runs" / "backpack")
    senses = regard.senses(run, ["b"], text="a b", top=3, edit=json.dumps(edits))
    assert senses.contributions is not None
    for one, own in zip(found["senses"], senses.senses[0], strict=True):
        assert [(name, pytest.approx(score)) for name, score in own.says] == list(map(tuple, one["says"]))
        assert [name for name, _ in one["alike"]] == [name for name, _ in own.alike]
    assert found["tokens"] == senses.contributions.tokens
    assert found["terms"] == [
        pytest.approx(row, abs=1e-6) for row in senses.contributions.values_TLT[2].tolist()
    ]
    answer = lab.ask(
        "senses", {"of": {**of, "run": lab.run("transformer"), "edits": []}, "word": "b", "place": 2}
    )
    assert "has no senses" in answer["error"]


def test_a_finished_training_shows_its_record_and_its_film(lab, lab_runs):
    folder = lab_runs / "runs" / "transformer"
    found = lab.done("trained", {"run": lab.run("transformer")})
    assert [step for step, _, _ in found["losses"]] == [3, 6, 7]
    assert found["frames"] == [0, 3, 6, 7]
    film = regard.film(str(folder))
    assert [frame.step for frame in film.frames] == found["frames"]
    of = {"run": lab.run("transformer"), "text": TEXT}
    reads = [lab.done("read", {**of, "step": step}) for step in found["frames"]]
    before, after = reads[0]["surprisal"][1:], reads[-1]["surprisal"][1:]
    assert before != pytest.approx(after)
    assert after == pytest.approx(lab.done("read", of)["surprisal"][1:], rel=1e-5)  # the last one is the best
    maps = [lab.ask("mosaic", {"of": {**of, "step": step}, "sites": [SITE], "size": 8}) for step in (0, 7)]
    assert maps[0] != maps[1]
    answer = lab.ask("read", {**of, "step": 5})
    assert "no weights of step 5" in answer["error"]


def test_lessons_are_those_of_the_verb(lab):
    course = lab.done("course", {})["lessons"]
    assert {one["name"]: one["about"] for one in course} == regard.lesson()
    for name in ("attention", "bottleneck", "walk"):
        page, own = lab.done("lesson", {"name": name}), regard.lesson(name)
        assert [step["title"] for step in page["steps"]] == [step.title for step in own.steps]
        assert [step["says"] for step in page["steps"]] == [step.says for step in own.steps]
        settings = {given["name"]: given["value"] for given in page["inputs"]}
        assert lab.done("lesson", {"name": name, "inputs": settings}) == page  # what it writes, it reads
    changed = lab.done("lesson", {"name": "attention", "inputs": {"q": "5,0"}})
    assert changed["steps"][0]["values"][0][1] == "[5, 5, 0, 5]"
    for inputs, said in ({"q": "x"}, "is written like"), ({"nothing": "1"}, "its inputs are"):
        answer = lab.ask("lesson", {"name": "attention", "inputs": inputs})
        assert answer["state"] == "failed"
        assert said in answer["error"]
