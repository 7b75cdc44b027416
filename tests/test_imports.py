"""The house's rules about imports, checked in the source and in fresh processes."""

from __future__ import annotations

import ast
import subprocess
import sys
import time
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src" / "kshot"
# Imports point up this list only (design: "the house").
ROOMS = [
    "errors", "files", "assets", "datasets", "training", "backbones", "features", "concepts", "inference",
    "classifier", "evaluation", "photos", "plots", "experiments", "cli", "serve",
]  # fmt: skip
FILES = sorted(
    path for path in SOURCE.rglob("*.py") if path.parent != SOURCE or path.stem not in ("__init__", "__main__")
)


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(path: Path, *, top_level: bool = False) -> set[str]:
    """Give the modules a file imports, those for type checkers only left out."""
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    found: set[str] = set()
    nodes = tree.body if top_level else list(ast.walk(tree))
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def in_fresh_process(code: str) -> str:
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return result.stdout.strip()


def test_every_room_is_known() -> None:
    assert {room_of(path) for path in FILES} <= set(ROOMS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_up_the_list_of_rooms(path: Path) -> None:
    rank = ROOMS.index(room_of(path))
    for module in imported(path):
        parts = module.split(".")
        if parts[0] == "kshot" and len(parts) > 1 and parts[1] in ROOMS:
            assert ROOMS.index(parts[1]) <= rank, f"{path.name} imports {module} from a room below its own"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_torch_and_jax_stay_in_their_rooms(path: Path) -> None:
    roots = {module.split(".")[0] for module in imported(path)}
    if room_of(path) != "training":
        assert not roots & {"torch", "lightning_fabric"}
    if room_of(path) != "inference":
        assert not roots & {"jax", "jaxlib", "blackjax"}
    top = {module.split(".")[0] for module in imported(path, top_level=True)}
    assert not top & {"jax", "blackjax"} or path == SOURCE / "inference" / "nuts.py"


def test_import_kshot_loads_nothing_heavy() -> None:
    heavy = ["torch", "jax", "sklearn", "scipy", "pandas", "matplotlib", "onnxruntime", "onnx", "PIL", "typer", "rich"]
    loaded = in_fresh_process(f"import kshot, sys; print([name for name in {heavy} if name in sys.modules])")
    assert loaded == "[]"


def test_the_concepts_need_numpy_alone() -> None:
    heavy = ["torch", "jax", "sklearn", "scipy", "pandas", "matplotlib"]
    code = f"import kshot, sys; kshot.GaussianPrior; print([name for name in {heavy} if name in sys.modules])"
    assert in_fresh_process(code) == "[]"


def test_import_kshot_costs_under_a_tenth_of_a_second_more_than_numpy() -> None:
    code = "import numpy, time; start = time.perf_counter(); import kshot; print(time.perf_counter() - start)"
    # The best of five: what else the machine does must not decide.
    assert min(float(in_fresh_process(code)) for _ in range(5)) < 0.1


def test_every_public_name_is_there_and_unknown_ones_are_not() -> None:
    import kshot

    for name in kshot.__all__:
        assert getattr(kshot, name) is not None
    assert set(kshot.__all__) <= set(dir(kshot))
    with pytest.raises(AttributeError, match="no attribute 'Gaussian'"):
        kshot.Gaussian  # noqa: B018


def test_rooms_are_there_in_a_process_that_imported_kshot_alone() -> None:
    names = ["inference.NUTS", "inference.LaplaceApproximation", "concepts.Normalisation", "evaluation"]
    for name in names:
        printed = in_fresh_process(f"import kshot; print(kshot.{name}.__name__)")
        assert printed.split(".")[-1] == name.split(".")[-1]


def test_help_does_not_wait_for_heavy_imports() -> None:
    start = time.perf_counter()
    code = "import sys; from kshot.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
    heavy = ["torch", "jax", "sklearn", "scipy", "pandas", "matplotlib", "onnxruntime"]
    printed = in_fresh_process(code + f"print([name for name in {heavy} if name in sys.modules])")
    assert printed.endswith("[]")
    assert time.perf_counter() - start < 10
