"""Stepping on a device that works while the host goes on: streams, graphs, staging."""

from .assembly import build_stream_runner
from .cuda_device import CudaDevice
from .device import Device
from .runner import StreamRunner

__all__ = ["CudaDevice", "Device", "StreamRunner", "build_stream_runner"]
