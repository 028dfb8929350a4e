"""What the benchmarks of the flow share: networks on Adult, and the contenders."""
