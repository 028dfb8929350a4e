"""Training methods, as scikit-learn estimators."""
