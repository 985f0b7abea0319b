"""The shape of the package: imports point one way, and every reader's first look is right."""

import ast
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "regard"
ORDER = [
    "errors", "machine", "ranges", "boundary", "tables", "text", "tokens", "parts", "models", "probabilities",
    "testing", "training", "runs", "inside", "lessons", "serving", "page", "benchmarks",
    "verbs", "endings", "cli",
]  # fmt: skip


def modules():
    for path in PACKAGE.rglob("*.py"):
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if room not in ("__init__", "__main__"):
            yield path, room, ast.parse(path.read_text())


def imported(tree: ast.AST):
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_imports_point_one_way():
    for path, room, tree in modules():
        for name in imported(tree):
            if name.startswith("regard."):
                assert ORDER.index(name.split(".")[1]) <= ORDER.index(room), f"{path} imports {name}"


def test_nothing_below_the_command_line_imports_tyro_or_rich():
    for path, room, tree in modules():
        if room not in ("verbs", "cli"):
            assert not {name.split(".")[0] for name in imported(tree)} & {"tyro", "rich"}, path


def test_files_and_functions_stay_small():
    for path, _, tree in modules():
        assert path.read_text().count("\n") <= 400, path
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                lines = (node.end_lineno or 0) - node.lineno
                # The docstring of a verb is its help, with a line for each option.
                lines -= ast.get_docstring(node, clean=False).count("\n") if ast.get_docstring(node) else 0
                assert lines < 60, f"{path}: {node.name}"


def test_the_readme_shows_every_folder_of_the_package():
    readme = (ROOT / "README.md").read_text()
    for path in PACKAGE.iterdir():
        if path.is_dir() and path.name != "__pycache__":
            assert f"  {path.name}/" in readme, f"{path.name} is not in the README's tree"


def test_no_link_is_part_of_the_repository():
    """A link to a folder of one machine would replace that folder in other checkouts."""
    listed = subprocess.run(["git", "ls-files", "--stage"], cwd=ROOT, capture_output=True, text=True)
    assert [line for line in listed.stdout.splitlines() if line.startswith("120000")] == []
