"""The experiments of gmlearn_structured on generated data."""

import numpy as np
import pytest

import gmlearn as gm
from gmlearn.registry import registry


@pytest.mark.parametrize("name", ["letters", "scene"])
def test_quick_runs_on_generated_data(name, tmp_path):
    run = gm.Run(name, quick=True, out=tmp_path, show_progress=False)
    registry.get("experiment", name).run(run)
    (_, _, rows), (_, _, curve) = run.tables
    shares = np.array([row[-2] for row in rows])
    assert len(rows) >= 3 and ((shares >= 0.0) & (shares <= 1.0)).all()
    assert len(curve) == 3 and all(path.exists() for *_, path in run.figures)
