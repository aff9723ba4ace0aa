"""What this plugin brings to gmlearn."""

import gmlearn as gm


@gm.hookimpl
def gmlearn_potentials():
    from gmlearn_groupfs.potential import ClusterLoss

    return [ClusterLoss]


@gm.hookimpl
def gmlearn_slave_solvers():
    from gmlearn_groupfs.potential import AssignmentSolver

    return [AssignmentSolver()]


@gm.hookimpl
def gmlearn_solvers():
    from gmlearn_groupfs.potential import PartitionSolver

    return [PartitionSolver()]


@gm.hookimpl
def gmlearn_experiments():
    def run_groupfs(run):
        from gmlearn_groupfs.experiments import groupfs

        groupfs(run)

    return [
        gm.Experiment(
            name="groupfs",
            summary="Multi-kernel clustering in which every cluster picks its own features, "
            "against its rivals",
            function=run_groupfs,
            data="Expected: multiview/msrcv1.npz, orl.npz, mfeat.npz (arrays view0, view1, ... "
            "and labels), "
            "kernelset_yale_faces.npz, kernelset_orl_faces.npz (X and labels) and "
            "kernelset_reference_results.csv "
            "(dataset, method, acc, nmi, purity). MSRC-v1, ORL and UCI Multiple Features are "
            "published as multi-view "
            "collections; the kernel sets and figures belong to Du et al., IJCAI 2015.",
        )
    ]
