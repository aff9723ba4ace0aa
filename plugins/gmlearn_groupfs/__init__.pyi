from gmlearn_groupfs.assignment import greedy_assignment as greedy_assignment
from gmlearn_groupfs.estimator import GroupFeatureClustering as GroupFeatureClustering
from gmlearn_groupfs.kernels import KernelBank as KernelBank
from gmlearn_groupfs.potential import (
    AssignmentSolver as AssignmentSolver,
    ClusterLoss as ClusterLoss,
    PartitionSolver as PartitionSolver,
    constrained_assignment as constrained_assignment,
)
from gmlearn_groupfs.synthetic import make_grouped_views as make_grouped_views
