"""The benchmark: us and our peers on the same streams, speed with quality beside it. See docs/benchmark.md."""
