"""Training methods, as scikit-learn estimators that can be audited as they are. They need torch."""

from likewise.extras import need

need("torch", "torch", "likewise.training")

from likewise.training.baseline import BaselineClassifier as BaselineClassifier
from likewise.training.project import ProjectClassifier as ProjectClassifier
from likewise.training.reductions import ReductionsClassifier as ReductionsClassifier
from likewise.training.sensr import SenSRClassifier as SenSRClassifier
