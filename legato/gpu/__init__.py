"""How a step runs: checkpoints, models, attention, sampling, runners.

The only room that imports torch.
"""

import os

# Kernel threads that spin between operators take the cores from the event loops and
# from each other: beside other work on two cores, the golden conversations took 110 s
# with spinning threads and 23 s with sleeping ones. OpenMP reads it once, as torch
# loads; whoever sets it, or loads torch first, decides otherwise.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
