"""What gmlearn_clustering brings to the toolkit: its hooks."""

from __future__ import annotations

import gmlearn as gm


def _synthetic(run: gm.Run) -> None:
    from gmlearn_clustering.experiments import cluster_synthetic

    cluster_synthetic(run)


def _multiview(run: gm.Run) -> None:
    from gmlearn_clustering.multiview import cluster_multiview

    cluster_multiview(run)


def _demo(run: gm.Run) -> None:
    from gmlearn_clustering.demo import demo

    demo(run)


@gm.hookimpl
def gmlearn_experiments() -> list[gm.Experiment]:
    return [
        gm.Experiment(
            "demo",
            "Define, solve and learn a model of pictures, then learn to cluster",
            _demo,
        ),
        gm.Experiment(
            "cluster-synthetic",
            "Learn to cluster Gaussians with noisy dimensions (Komodakis 2011, Fig. 2)",
            _synthetic,
        ),
        gm.Experiment(
            "cluster-multiview",
            "Learn distances over several descriptors of real images and digits",
            _multiview,
            data="Expected: multiview/{scene15,mfeat,msrcv1,orl}.npz (views and labels), "
            "texture/kth_tips_gray_128.npz (images, labels) and structured/letters.npz (packed "
            "pixels, labels). Scene-15, UCI Multiple Features, "
            "MSRC-v1 and ORL "
            "are published as multi-view collections, KTH-TIPS by the Royal Institute of "
            "Technology, Stockholm, the letters by the MIT Spoken Language Systems Group.",
            options={"distances": ("all", "unsupervised", "supervised")},
        ),
    ]


@gm.hookimpl
def gmlearn_potentials() -> list[type]:
    from gmlearn_clustering.potentials import ExemplarBlock, ExemplarCountBlock

    return [ExemplarBlock, ExemplarCountBlock]


@gm.hookimpl
def gmlearn_losses() -> list[type]:
    from gmlearn_clustering.losses import ClusteringLoss

    return [ClusteringLoss]


@gm.hookimpl
def gmlearn_decompositions() -> list[gm.Decomposition]:
    from gmlearn_clustering.slaves import ExemplarDecomposition

    return [ExemplarDecomposition()]


@gm.hookimpl
def gmlearn_trainers() -> list[gm.Trainer]:
    from gmlearn_clustering.cccp import ConcaveConvex

    return [ConcaveConvex()]


@gm.hookimpl
def gmlearn_solvers() -> list[gm.MapSolver]:
    from gmlearn_clustering.solver import ExemplarSolver

    return [ExemplarSolver()]
