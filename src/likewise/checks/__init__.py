"""What needs maps, metrics and statistics together."""
