"""What `regard bench --peers` runs: Regard and other libraries in turns, on the same PyTorch tensors."""
