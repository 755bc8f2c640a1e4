"""Hand-written kernels for fleets of networks, on the CPU and on the GPU."""
