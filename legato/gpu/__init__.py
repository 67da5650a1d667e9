"""How a step runs: checkpoints, models, attention, sampling, runners.

The only room that imports torch.
"""
