"""What `regard bench --peers` runs: Regard and other libraries in turns, on the same tensors of PyTorch."""
