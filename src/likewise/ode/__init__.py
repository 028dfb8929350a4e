"""Initial value problems, with no fairness in them."""
