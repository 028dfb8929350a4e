"""Methods: matched pairs, gradient flow, reach, flip, and the fair metric they go by."""
