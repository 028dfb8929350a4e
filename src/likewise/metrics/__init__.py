"""Fair metrics: which people count as alike."""
