"""The planner and its bookkeeping: pages, prefix, order, budget, batching.

Pure and synchronous: no I/O, no clock of its own, no torch.
"""
