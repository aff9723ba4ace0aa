"""What gmlearn_mlca registers."""

from __future__ import annotations

import gmlearn as gm

HORSES = (
    "Expected segmentation/weizmann_horses_h100.npz with arrays image_00 (H, W, 3), mask_00 (H, "
    "W), ...: "
    "the Weizmann horses of Borenstein and Ullman (2002), resized to height 100."
)


@gm.hookimpl
def gmlearn_potentials():
    from gmlearn_mlca.potentials import KMeansEnergy, PartitionDistance

    return [KMeansEnergy, PartitionDistance]


@gm.hookimpl
def gmlearn_decompositions():
    from gmlearn_mlca.slaves import SpectralDecomposition

    return [SpectralDecomposition()]


@gm.hookimpl
def gmlearn_solvers():
    from gmlearn_mlca.solver import SpectralSolver

    return [SpectralSolver()]


@gm.hookimpl
def gmlearn_losses():
    from gmlearn_mlca.losses import PartitionLoss

    return [PartitionLoss]


@gm.hookimpl
def gmlearn_trainers():
    from gmlearn_mlca.training import ClosedForm

    return [ClosedForm()]


@gm.hookimpl
def gmlearn_experiments():
    return [
        gm.Experiment(
            "mlca-synthetic",
            "Closed-form metric learning on the two-layer categories, with its rivals",
            _synthetic,
        ),
        gm.Experiment(
            "mlca-segmentation",
            "Foreground and background of horses under a learnt metric, with its rivals",
            _segmentation,
            data=HORSES,
        ),
        gm.Experiment(
            "mlca-transfer",
            "Learnt metrics on data sets with clusters of their own, and on unseen classes",
            _transfer,
        ),
    ]


def _synthetic(run: gm.Run) -> None:
    from gmlearn_mlca.synthetic_experiment import run_synthetic

    run_synthetic(run)


def _transfer(run: gm.Run) -> None:
    from gmlearn_mlca.transfer import run_transfer

    run_transfer(run)


def _segmentation(run: gm.Run) -> None:
    from gmlearn_mlca.segmentation_experiment import run_segmentation

    run_segmentation(run)
