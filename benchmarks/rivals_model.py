"""Write a GGUF model's weights as a bfloat16 checkpoint, for servers that read no GGUF.

Run by the environment that has transformers: ``rivals_model.py MODEL.gguf FOLDER``. The
checkpoint has no end token, so that servers without ``ignore_eos`` answer to the length
they are asked for.
"""

import json
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    from importlib import import_module

    torch: Any = import_module("torch")
    transformers: Any = import_module("transformers")
    source, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    where = {"gguf_file": source.name}
    loaded = transformers.AutoModelForCausalLM.from_pretrained(
        source.parent, dtype=torch.float32, **where
    )
    # A model that came from GGUF will not be saved; a new one with its weights will.
    config = loaded.config.to_dict()
    config.pop("quantization_config", None)
    model = transformers.AutoModelForCausalLM.from_config(type(loaded.config)(**config))
    model.load_state_dict(loaded.state_dict())
    model.tie_weights()
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(source.parent, **where)
    tokenizer.save_pretrained(folder)
    for name in ("config.json", "generation_config.json"):
        path = folder / name
        values = json.loads(path.read_text()) | {"eos_token_id": None}
        path.write_text(json.dumps(values, indent=1))


if __name__ == "__main__":
    main()
