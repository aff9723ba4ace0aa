from gmlearn_mlca.baselines import (
    ITML as ITML,
    KISSME as KISSME,
    XQDA as XQDA,
)
from gmlearn_mlca.estimator import MLCA as MLCA
from gmlearn_mlca.metrics import (
    clustering_accuracy as clustering_accuracy,
    contingency_table as contingency_table,
    delta_loss as delta_loss,
    normalised_mutual_information as normalised_mutual_information,
    rand_loss as rand_loss,
)
from gmlearn_mlca.potentials import (
    KMeansEnergy as KMeansEnergy,
    PartitionDistance as PartitionDistance,
)
from gmlearn_mlca.slaves import SpectralDecomposition as SpectralDecomposition
from gmlearn_mlca.statistics import PartitionStatistics as PartitionStatistics
from gmlearn_mlca.surrogate import SpectralMetric as SpectralMetric
