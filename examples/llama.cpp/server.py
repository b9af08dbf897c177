#!/usr/bin/env python3
"""Start llama.cpp's HTTP server from the prebuilt Python package xllamacpp.

Use it where there is no llama-server on PATH. It understands the few llama-server options of the example and serves until
it gets SIGTERM:

    server.py --model FILE --port N [--ctx-size N] [--parallel N] [--threads N] [--no-cache-prompt] [--cache-ram MIB]
"""

import argparse
import signal
import threading

import xllamacpp


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--ctx-size", type=int, default=2048)
    parser.add_argument("--parallel", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no-cache-prompt", action="store_true")
    parser.add_argument("--cache-ram", type=int, help="copies of evicted prompts kept in memory, MiB; 0 keeps none")
    return parser.parse_args()


def main():
    args = parse()
    params = xllamacpp.CommonParams()
    params.model.path = args.model
    params.hostnames = ["127.0.0.1"]
    params.port = args.port
    params.n_ctx = args.ctx_size
    params.n_parallel = args.parallel
    params.endpoint_metrics = True
    params.cpuparams.n_threads = args.threads
    params.cpuparams_batch.n_threads = args.threads
    if args.no_cache_prompt:
        params.cache_prompt = False
    if args.cache_ram is not None:
        params.cache_ram_mib = args.cache_ram
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    server = xllamacpp.Server(params)
    print("listening on", server.listening_address, flush=True)
    stopped.wait()


if __name__ == "__main__":
    main()
