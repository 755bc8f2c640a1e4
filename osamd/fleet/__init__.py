"""Many networks in step, by PyTorch: the round of `osamd.algorithm` with a leading model axis."""
