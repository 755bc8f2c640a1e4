"""Many networks in step, by PyTorch: the round of `osamd.paper.algorithm` with a leading model axis."""
