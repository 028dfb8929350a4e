"""Audits machine-learning models for individual fairness."""
