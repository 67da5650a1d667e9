"""One model over several devices: each rank holds a part and computes every step.

Matrices are split as Megatron-LM does it (https://arxiv.org/abs/1909.08053): queries,
keys, values, gate and up by their rows, so that each rank has whole heads; output and
down by their columns, whose products are added up. Embedding and head are split by the
vocabulary. What starts and tells ranks imports no torch: a new process hears that it is
over before torch is loaded.
"""
