"""Statistics: additive sums, estimates, intervals, multiplicity and decisions."""
