"""The machine: devices, precision, threads and memory."""
