"""COMPAS: who is charged again within two years (Appendix G)."""

from likewise import GradientFlow
from likewise.data import compas
from likewise.training import (
    BaselineClassifier,
    ProjectClassifier,
    ReductionsClassifier,
    SenSRClassifier,
)
from likewise_studies.further import REMEDIES
from likewise_studies.study import Study

COMPAS = Study(
    name="compas",
    title="COMPAS",
    split=compas,
    methods={
        "Baseline": BaselineClassifier(),
        "Project": ProjectClassifier(),
        "Reductions": ReductionsClassifier(difference_bound=0.05, balanced=False),
        "SenSR": SenSRClassifier(
            learning_rate=1e-4,
            max_iter=16000,
            subspace_rate=0.1,
            full_steps=8,
        ),
    },
    flow=GradientFlow.paper(lam=100, step=0.005, n_steps=200),
    privileged={"sex": "Female", "race": "Caucasian"},
    # Sex and race alone are free: what the model itself makes of them.
    may_matter=("priors_count", "age_cat", "c_charge_degree"),
    remedies=REMEDIES,
    first=1000,
)
