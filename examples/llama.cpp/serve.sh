#!/bin/sh
# Start llama.cpp's server: the llama-server on PATH, or the prebuilt Python package where there is none. Options are those
# of llama-server; LLAMA_PYTHON names the Python that has the package xllamacpp.
if command -v llama-server >/dev/null 2>&1; then
	exec llama-server --host 127.0.0.1 --metrics "$@"
fi
exec "${LLAMA_PYTHON:-python3}" "$(dirname "$0")/server.py" "$@"
