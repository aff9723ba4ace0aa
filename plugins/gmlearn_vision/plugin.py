"""What gmlearn_vision registers."""

from __future__ import annotations

import gmlearn as gm

STEREO = (
    "Expected stereo/<scene>/ with left.png, right.png, disparity.png and disparity_right.png for "
    "venus, sawtooth, "
    "poster, bull, tsukuba and teddy: the Middlebury stereo pairs of Scharstein and Szeliski "
    "(IJCV 2002, CVPR 2003)."
)


@gm.hookimpl
def gmlearn_experiments():
    return [
        gm.Experiment(
            "denoise",
            "Learnt V(|a - b|) on generated and (with --data) grey images, with its rivals",
            _denoise,
        ),
        gm.Experiment(
            "stereo",
            "Gradient-modulated Potts term learnt on one scene, tested on others",
            _stereo,
            data=STEREO,
        ),
        gm.Experiment(
            "pn-potts",
            "High-order Pn-Potts costs learnt on 100 grids: objective and test error by pass",
            _pn_potts,
        ),
        gm.Experiment(
            "decompositions",
            "Bound and test error for smaller and larger slaves on frustrated grids",
            _decompositions,
        ),
    ]


def _denoise(run: gm.Run) -> None:
    from gmlearn_vision.denoise_experiment import run_denoise

    run_denoise(run)


def _stereo(run: gm.Run) -> None:
    from gmlearn_vision.stereo_experiment import run_stereo

    run_stereo(run)


def _pn_potts(run: gm.Run) -> None:
    from gmlearn_vision.pn_experiment import run_pn_potts

    run_pn_potts(run)


def _decompositions(run: gm.Run) -> None:
    from gmlearn_vision.decompositions_experiment import run_decompositions

    run_decompositions(run)
