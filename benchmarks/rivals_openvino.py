"""OpenVINO GenAI's continuous batching under the workloads of rivals.py.

Run by OpenVINO's environment, which has nothing of Legato: ``rivals_openvino.py MODEL
THREADS``, the workloads as JSON on standard input. In process, without HTTP and without
decoding text, so kinder to it than a server's figures are to the others.
"""

import json
import random
import resource
import sys
import time
from importlib import import_module
from typing import Any

genai: Any = import_module("openvino_genai")
STARTED_S = time.perf_counter()


def open_pipeline(model: str, threads: int) -> Any:
    settings = genai.SchedulerConfig()
    settings.cache_size = 4
    settings.max_num_batched_tokens = 512
    settings.max_num_seqs = 64
    settings.dynamic_split_fuse = True
    settings.enable_prefix_caching = False
    options = {"INFERENCE_NUM_THREADS": threads}
    return genai.ContinuousBatchingPipeline(model, settings, "CPU", options)


def drive(
    pipeline: Any, load: dict[str, Any], words: list[str]
) -> list[dict[str, Any]]:
    """Run the closed loop; one record a request."""
    config = genai.GenerationConfig()
    config.max_new_tokens = config.min_new_tokens = load["max_tokens"]
    config.ignore_eos, config.do_sample = True, False
    live: dict[int, tuple[Any, dict[str, Any]]] = {}
    records: list[dict[str, Any]] = []

    def begin() -> None:
        number = len(records)
        rng = random.Random(f"{load['seed']} {number}")
        prompt = "".join(rng.choices(words, k=load["prompt_tokens"]))
        records.append({"begun_s": time.perf_counter(), "tokens": 0, "times": []})
        live[number] = pipeline.add_request(number, prompt, config), records[-1]

    while len(records) < min(load["streams"], load["requests"]):
        begin()
    while live:
        pipeline.step()
        now = time.perf_counter()
        for number, (handle, record) in list(live.items()):
            while handle.can_read():
                for output in handle.read().values():
                    record["tokens"] += len(output.generated_ids)
                    record["times"].append(now)
            if handle.get_status() != genai.GenerationStatus.RUNNING:
                del live[number]
                if len(records) < load["requests"]:
                    begin()
    return records


def main() -> None:
    asked = json.load(sys.stdin)
    pipeline = open_pipeline(sys.argv[1], int(sys.argv[2]))
    first = {
        "streams": 1,
        "requests": 1,
        "prompt_tokens": 4,
        "max_tokens": 1,
        "seed": -1,
    }
    drive(pipeline, first, asked["words"])
    started = time.perf_counter() - STARTED_S
    runs = [drive(pipeline, load, asked["words"]) for load in asked["loads"]]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"start_s": started, "peak_rss_mib": peak, "runs": runs}))


if __name__ == "__main__":
    main()
