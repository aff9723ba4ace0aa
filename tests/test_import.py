"""``import gmlearn`` is light: what is heavy is imported when it is used."""

import subprocess
import sys
from importlib import metadata

import pytest

HEAVY = ("numba", "cvxpy", "matplotlib", "sklearn", "networkx", "scipy.optimize")


def modules_after(code):
    """Which heavy modules a fresh interpreter holds after `code`."""
    probe = f"import sys\n{code}\nprint(','.join(m for m in {HEAVY!r} if m in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", probe], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return [m for m in done.stdout.strip().split(",") if m]


@pytest.mark.parametrize(
    "code",
    [
        "import gmlearn",
        "import gmlearn as gm; gm.CRF(2, 2).add_unary([[0, 1], [1, 0]]).add(gm.Potts([[0, 1]], "
        "0.5))",
        "import gmlearn as gm; dir(gm); gm.__version__",
    ],
)
def test_nothing_heavy_is_imported(code):
    assert modules_after(code) == []


def entry_points():
    return sorted({p.name for p in metadata.entry_points(group="gmlearn")} - {"core"})


@pytest.mark.parametrize("plugin", ["core", *entry_points()])
def test_listing_plugins_imports_nothing_heavy(plugin):
    """Each plugin by itself, so that the one at fault is named."""
    others = ",".join(n for n in entry_points() if n != plugin)
    assert (
        modules_after(
            f"import os; os.environ['GMLEARN_BLOCK_PLUGINS'] = {others!r}\nimport gmlearn as gm; "
            f"gm.plugins()"
        )
        == []
    )


def test_the_probe_sees_what_is_imported():
    assert modules_after("import networkx") == ["networkx"]


def test_every_public_name_exists():
    import gmlearn as gm

    for name in gm.__all__:
        assert getattr(gm, name) is not None
    assert set(gm.__all__) <= set(dir(gm))


def test_an_unknown_name_is_an_attribute_error():
    import gmlearn as gm

    with pytest.raises(AttributeError, match="module 'gmlearn' has no attribute 'Pots'"):
        gm.Pots  # noqa: B018
