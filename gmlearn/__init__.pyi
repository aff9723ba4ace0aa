# Every public name, once: gmlearn/__init__.py reads this file, and imports a name on first use.
from gmlearn.registry import (
    PluginError as PluginError,
    PluginWarning as PluginWarning,
    UnknownNameError as UnknownNameError,
    hookimpl as hookimpl,
    plugins as plugins,
    register as register,
)
from gmlearn.potentials import (
    Block as Block,
    Difference as Difference,
    FeatureTable as FeatureTable,
    LearntTable as LearntTable,
    Pairwise as Pairwise,
    PairwiseForm as PairwiseForm,
    Potts as Potts,
    RaggedArrays as RaggedArrays,
    RaggedBlock as RaggedBlock,
    Table as Table,
    Truncated as Truncated,
    Unary as Unary,
    expected_features as expected_features,
)
from gmlearn.model import (
    CRF as CRF,
    WeightLayout as WeightLayout,
    find_grid as find_grid,
    grid_cliques as grid_cliques,
    grid_edges as grid_edges,
    join as join,
)
from gmlearn.model.graph import (
    from_networkx as from_networkx,
    to_networkx as to_networkx,
)
from gmlearn.losses import (
    Hamming as Hamming,
    LabelDistance as LabelDistance,
    Loss as Loss,
    NoLoss as NoLoss,
    WeightedHamming as WeightedHamming,
)
from gmlearn.slaves import (
    CliqueGroup as CliqueGroup,
    ForestGroup as ForestGroup,
    FreeGroup as FreeGroup,
    SlaveGroup as SlaveGroup,
    SlaveResult as SlaveResult,
    SlaveSolver as SlaveSolver,
    SoftResult as SoftResult,
    JunctionTreeGroup as JunctionTreeGroup,
)
from gmlearn.decompositions import (
    Decomposition as Decomposition,
    Slaves as Slaves,
    Subgraphs as Subgraphs,
    decompose as decompose,
    SpanningHypertrees as SpanningHypertrees,
    Strips as Strips,
)
from gmlearn.master import (
    Dual as Dual,
    Round as Round,
)
from gmlearn.solvers import (
    MapSolver as MapSolver,
    Problem as Problem,
    Result as Result,
    SolverRefusal as SolverRefusal,
    Status as Status,
    solve as solve,
)
from gmlearn.probabilities import (
    MarginalMethod as MarginalMethod,
    MarginalProblem as MarginalProblem,
    Marginals as Marginals,
    MarginalStatus as MarginalStatus,
    MethodRefusal as MethodRefusal,
    Samples as Samples,
    k_best as k_best,
    marginals as marginals,
    sample as sample,
)
from gmlearn.parallel import (
    Executor as Executor,
    make_executor as make_executor,
)
from gmlearn.learn import (
    L1 as L1,
    L2 as L2,
    Box as Box,
    ConvexSet as ConvexSet,
    ElasticNet as ElasticNet,
    Fixed as Fixed,
    GroupL2 as GroupL2,
    LazySamples as LazySamples,
    NonNegative as NonNegative,
    NoRegularizer as NoRegularizer,
    Objective as Objective,
    Optimizer as Optimizer,
    OptimizerState as OptimizerState,
    PassReport as PassReport,
    Projection as Projection,
    Regularizer as Regularizer,
    Sample as Sample,
    Simplex as Simplex,
    TrainedModel as TrainedModel,
    Trainer as Trainer,
    TrainingHistory as TrainingHistory,
    TrainingOptions as TrainingOptions,
    build_objective as build_objective,
    load as load,
    train as train,
    Regularization as Regularization,
)
from gmlearn.layers import (
    LossPlan as LossPlan,
    LossResult as LossResult,
    LossState as LossState,
    Relaxed as Relaxed,
    relaxed as relaxed,
    structured_loss as structured_loss,
)
from gmlearn.io import (
    FileFormat as FileFormat,
    FormatError as FormatError,
    ModelBuilder as ModelBuilder,
    Tokens as Tokens,
    compressed as compressed,
    read as read,
    read_evidence as read_evidence,
    read_sample as read_sample,
    read_text as read_text,
    read_weights as read_weights,
    write as write,
    write_sample as write_sample,
)
from gmlearn.experiments import (
    Experiment as Experiment,
    Run as Run,
    clustering_accuracy as clustering_accuracy,
    contingency_table as contingency_table,
    mean_and_error as mean_and_error,
    normalised_mutual_information as normalised_mutual_information,
)
from gmlearn._utils.files import atomic_write as atomic_write
from gmlearn._utils.lazy import lazy_exports as lazy_exports
from gmlearn._utils.progress import progress as progress
from gmlearn._utils.validation import (
    check_array as check_array,
    check_choice as check_choice,
    check_index as check_index,
    check_number as check_number,
    check_random_state as check_random_state,
    naming as naming,
    validate_data as validate_data,
)
from gmlearn._utils.versions import show_versions as show_versions
from gmlearn._version import __version__ as __version__
from gmlearn import (
    plot as plot,
    testing as testing,
)
