"""Measures acquires of zae-limiter for bench/rivals.ts: a request per line on standard input, a result per line on standard output.

Usage: rivals.py ENDPOINT STACK. Ends when standard input closes. A request has a "kind" (admitted or refused), "concurrency" and "ms";
its result "perSecond", "p50Ms", "p99Ms" and "cpuMicros", the processor time of this process per operation.
"""

import asyncio
import itertools
import json
import os
import sys
import time

ENDPOINT, STACK = sys.argv[1:]
os.environ.update(
    AWS_ENDPOINT_URL=ENDPOINT,
    AWS_ACCESS_KEY_ID="local",
    AWS_SECRET_ACCESS_KEY="local",
    AWS_DEFAULT_REGION="us-east-1",
    AWS_EC2_METADATA_DISABLED="true",
)

from zae_limiter import RateLimitExceeded  # noqa: E402
from zae_limiter.limiter import RateLimiter  # noqa: E402
from zae_limiter.models import Limit  # noqa: E402
from zae_limiter.repository import Repository  # noqa: E402

BUCKETS = 64
TURN = itertools.count()


async def start():
    repository = await Repository.open("rivals", stack=STACK, region="us-east-1", endpoint_url=ENDPOINT)
    plenty = [Limit.per_hour("rpm", 100_000_000), Limit.per_hour("tpm", 100_000_000_000)]
    await repository.set_resource_defaults("gpt-4", plenty)
    await repository.set_resource_defaults("scarce", [Limit.per_hour("rpm", 1)])
    return repository, RateLimiter(repository=repository)


async def admitted(limiter):
    async with limiter.acquire(f"user-{next(TURN) % BUCKETS}", "gpt-4", {"rpm": 1, "tpm": 500}):
        pass


async def refused(limiter):
    try:
        async with limiter.acquire(f"user-{next(TURN) % BUCKETS}", "scarce", {"rpm": 1}):
            pass
    except RateLimitExceeded:
        pass


async def measure(limiter, kind, concurrency, ms):
    operation = {"admitted": admitted, "refused": refused}[kind]
    latencies = []
    started, started_cpu = time.perf_counter(), time.process_time()

    async def lane():
        while time.perf_counter() - started < ms / 1000:
            sent = time.perf_counter()
            await operation(limiter)
            latencies.append(time.perf_counter() - sent)

    await asyncio.gather(*(lane() for _ in range(concurrency)))
    elapsed, cpu = time.perf_counter() - started, time.process_time() - started_cpu
    latencies.sort()
    return {
        "perSecond": len(latencies) / elapsed,
        "p50Ms": latencies[len(latencies) // 2] * 1000,
        "p99Ms": latencies[min(len(latencies) - 1, len(latencies) * 99 // 100)] * 1000,
        "cpuMicros": cpu * 1e6 / len(latencies),
    }


async def main():
    repository, limiter = await start()
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(await measure(limiter, request["kind"], request["concurrency"], request["ms"])), flush=True)
    await repository.close()


asyncio.run(main())
