"""docs/lectures.md says what its commands say."""

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def lectures():
    if str(ROOT / "bench") not in sys.path:
        sys.path.append(str(ROOT / "bench"))  # its items are a file beside it
    spec = importlib.util.spec_from_file_location("lectures", ROOT / "bench" / "lectures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["lectures"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # trainings report what they hold out
def test_the_audit_says_what_its_commands_say():
    module = lectures()
    assert module.differences(module.page(), (ROOT / "docs" / "lectures.md").read_text("utf-8")) == []


def test_differences_are_found():
    module = lectures()
    page = "| item | `regard lesson x` | loss: 0.5; likeliest: David 1e-07 |\n| b | c | word |"
    assert module.differences(page, page) == []
    assert module.differences(page.replace("0.5", "0.51"), page) == []  # within the tolerance
    assert module.differences(page.replace("0.5", "0.6"), page)
    assert module.differences(page.replace("David", "Olga"), page)
    assert module.differences(page.splitlines()[0], page)


def test_the_page_has_every_item():
    module = lectures()
    page = (ROOT / "docs" / "lectures.md").read_text("utf-8")
    for items in module.LECTURES.values():
        for one in items:
            assert f"| {one.says.replace('|', chr(92) + '|')} | `regard {one.command}` |" in page
