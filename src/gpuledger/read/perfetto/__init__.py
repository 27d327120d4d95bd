"""Perfetto traces with GPU work: of gpuledger itself, of rocprofv3 and of torch."""
