from gmlearn_multicut.estimator import Multicut as Multicut, MulticutLearner as MulticutLearner
from gmlearn_multicut.graph import EdgeGraph as EdgeGraph
from gmlearn_multicut.losses import PairLoss as PairLoss
from gmlearn_multicut.potentials import (
    SignedGraph as SignedGraph,
    multicut_model as multicut_model,
)
from gmlearn_multicut.primal import (
    greedy_contraction as greedy_contraction,
    kernighan_lin as kernighan_lin,
)
from gmlearn_multicut.slaves import (
    CycleDecomposition as CycleDecomposition,
    CycleGroup as CycleGroup,
)
from gmlearn_multicut.solver import (
    GreedyContraction as GreedyContraction,
    KernighanLin as KernighanLin,
    MulticutSolver as MulticutSolver,
)
