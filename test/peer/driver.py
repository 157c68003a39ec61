"""Runs a release of zae-limiter for the tests: a request per line on standard input, a response per line on standard output.

Usage: driver.py ENDPOINT. Ends when standard input closes. Every request has an "id", which its response repeats, and an "op":

  open     stack, namespace, [cacheSeconds]     opens (and registers) a namespace: {"client", "namespaceId", "version"}
  clock    ms                                   the instant of everything that follows; null for the clock of the machine
  call     client, target, method, args         a method of the repository or of the limiter, with named arguments
  acquire  client, entity, resource, consume, [times], [concurrency], [adjust], [release], [rollBack], [also], [limits]
           {"admitted", "bypassed", "refused", "errors", "first"}: how many, and what the first refusal or error was
  stream   stack, records                       the stream processor on records of a stream: {"processed", "refills", "errors"}
  provision  event                              the provisioner's function on an event of its command line: what it returns
  play     cases                                requests to one shard of a quota, by the release's arithmetic alone (0.17): per case and
                                                request [admitted, tokens, start and applied start of the session, grant count, top-up]

Limits are given as the release itself writes them into its audit trail.
"""

import asyncio
import dataclasses
import enum
import importlib
import json
import os
import sys
import time

ENDPOINT = sys.argv[1]
os.environ.update(
    AWS_ENDPOINT_URL=ENDPOINT,
    AWS_ACCESS_KEY_ID="testing",
    AWS_SECRET_ACCESS_KEY="testing",
    AWS_DEFAULT_REGION="us-east-1",
    AWS_EC2_METADATA_DISABLED="true",
    AWS_MAX_ATTEMPTS="1",
)

# The stream processor logs to standard output, which belongs to the responses.
RESPONSES = sys.stdout
sys.stdout = open(os.devnull, "w", encoding="utf-8")

import zae_limiter  # noqa: E402
from zae_limiter.limiter import RateLimiter  # noqa: E402
from zae_limiter.models import Limit  # noqa: E402
from zae_limiter.repository import Repository  # noqa: E402
from zae_limiter_aggregator.processor import process_stream_records  # noqa: E402


class Clock:
    """Stands in for the module `time` where the release reads the wall clock; everything else is the module's."""

    ms = None

    def time(self):
        return time.time() if self.ms is None else self.ms / 1000

    def __getattr__(self, name):
        return getattr(time, name)


CLOCK = Clock()
for module, name in {
    "zae_limiter.limiter": "time",
    "zae_limiter.lease": "time",
    "zae_limiter.repository": "time",
    "zae_limiter.config_cache": "time",
    "zae_limiter.exceptions": "time",
    "zae_limiter_aggregator.processor": "time_module",
}.items():
    loaded = importlib.import_module(module)
    if hasattr(loaded, name):
        setattr(loaded, name, CLOCK)

CLIENTS = []


class RollBack(Exception):
    """Raised inside a lease to have it rolled back."""


async def open_client(request):
    options = {"config_cache_ttl": request.get("cacheSeconds", 0)}
    if hasattr(zae_limiter, "ResourceDisabled"):
        # A refusal from memory would hide what other clients wrote meanwhile.
        options["rejection_cache_ttl"] = 0
    repository = await Repository.open(
        request["namespace"], stack=request["stack"], region="us-east-1", endpoint_url=ENDPOINT, **options
    )
    CLIENTS.append((repository, RateLimiter(repository=repository)))
    return {
        "client": len(CLIENTS) - 1,
        "namespaceId": repository._namespace_id,
        "version": zae_limiter.__version__,
    }


async def set_clock(request):
    CLOCK.ms = request["ms"]


async def call(request):
    repository, limiter = CLIENTS[request["client"]]
    target = {"repository": repository, "limiter": limiter}[request["target"]]
    args = dict(request["args"])
    for name in ("limits", "baseline"):
        if isinstance(args.get(name), list) and args[name] and isinstance(args[name][0], dict):
            args[name] = [Limit.from_dict(limit) for limit in args[name]]
    return await getattr(target, request["method"])(**args)


async def acquire(request):
    _, limiter = CLIENTS[request["client"]]
    counts = {"admitted": 0, "bypassed": 0, "refused": 0, "errors": 0, "first": None}
    gate = asyncio.Semaphore(request.get("concurrency", 1))
    options = {"also": request["also"]} if "also" in request else {}
    if "limits" in request:
        options["limits"] = [Limit.from_dict(limit) for limit in request["limits"]]

    async def once():
        async with gate:
            try:
                async with limiter.acquire(request["entity"], request["resource"], request["consume"], **options) as lease:
                    counts["admitted"] += 1
                    counts["bypassed"] += getattr(lease, "bypassed", False)
                    if "adjust" in request:
                        await lease.adjust(**request["adjust"])
                    if "release" in request:
                        await lease.release(**request["release"])
                    if request.get("rollBack"):
                        raise RollBack
            except RollBack:
                pass
            except Exception as error:
                is_refusal = type(error).__name__ in ("RateLimitExceeded", "ResourceDisabled")
                counts["refused" if is_refusal else "errors"] += 1
                counts["first"] = counts["first"] or described(error)

    await asyncio.gather(*(once() for _ in range(request.get("times", 1))))
    return counts


async def stream(request):
    run = asyncio.to_thread(process_stream_records, request["records"], request["stack"], ["hourly", "daily"])
    result = await run
    return {"processed": result.processed_count, "refills": result.refills_written, "errors": result.errors}


async def play(request):
    return [played(case) for case in request["cases"]]


def played(case):
    from zae_limiter.bucket import try_consume
    from zae_limiter.models import BucketState

    limit = Limit.from_dict(case["limit"])
    state = BucketState(
        entity_id="u",
        resource="gpt",
        limit_name=limit.name,
        capacity_milli=limit.capacity * 1000,
        refill_amount_milli=limit.refill_amount * 1000,
        refill_period_ms=limit.refill_period_seconds * 1000,
        sched=limit.schedule,
        reset_sched=limit.reset_schedule,
        reset_after_seconds=limit.reset_after_seconds,
        **case["state"],
    )
    answers = []
    for step in case["steps"]:
        now = step["ms"]
        if step.get("announces"):
            state = dataclasses.replace(
                state, window_start_ms=now, window_consumed_mark_milli=state.total_consumed_milli
            )
        if "topUp" in step:
            bought = (state.topped_up_milli or 0) + step["topUp"]
            state = dataclasses.replace(
                state, tokens_milli=state.tokens_milli + step["topUp"], topped_up_milli=bought
            )
        stored = dataclasses.replace(state)
        opened = RateLimiter._open_window_if_elapsed(limit, state, now) is not None
        RateLimiter._apply_reset_edge(limit, state, now)
        RateLimiter._apply_window_roll(limit, state, now, opened=opened)
        result = try_consume(state, step["amount"], now)
        state.tokens_milli = result.new_tokens_milli
        if result.success:
            state.total_consumed_milli += step["amount"] * 1000
            state.last_refill_ms = max(state.last_refill_ms, now)
        answers.append(
            [
                result.success,
                state.tokens_milli,
                state.window_start_ms,
                state.window_applied_ms,
                state.grant_count,
                state.topped_up_milli or 0,
            ]
        )
        # What is refused is not written.
        if not result.success:
            state = stored
    return answers


async def provision(request):
    # Loaded when it is needed: it has dependencies of its own.
    handler = importlib.import_module("zae_limiter_provisioner.handler")
    return await asyncio.to_thread(handler.on_event, request["event"], None)


OPERATIONS = {
    "open": open_client,
    "clock": set_clock,
    "call": call,
    "acquire": acquire,
    "stream": stream,
    "provision": provision,
    "play": play,
}


def described(error):
    return {"type": type(error).__name__, "message": str(error)}


def plain(value):
    """What json cannot write by itself."""
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    return str(value)


async def respond(request):
    try:
        response = {"id": request["id"], "result": await OPERATIONS[request["op"]](request)}
    except Exception as error:
        response = {"id": request["id"], "error": described(error)}
    RESPONSES.write(json.dumps(response, default=plain) + "\n")
    RESPONSES.flush()


async def main():
    reader = asyncio.StreamReader(limit=2**26)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    tasks = set()
    while line := await reader.readline():
        task = asyncio.create_task(respond(json.loads(line)))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    for repository, _ in CLIENTS:
        await repository.close()


asyncio.run(main())
