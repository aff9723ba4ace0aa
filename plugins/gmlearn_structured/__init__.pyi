from gmlearn_structured.estimator import (
    StructuredBase as StructuredBase,
    StructuredEstimator as StructuredEstimator,
)
from gmlearn_structured.graphs import (
    ChainCRF as ChainCRF,
    GraphCRF as GraphCRF,
    GridCRF as GridCRF,
)
from gmlearn_structured.labels import (
    MultiClassCRF as MultiClassCRF,
    MultiLabelCRF as MultiLabelCRF,
)
from gmlearn_structured.synthetic import (
    crosses as crosses,
    label_sets as label_sets,
    noisy_words as noisy_words,
)
from gmlearn_structured.vectorizer import SequenceVectorizer as SequenceVectorizer
