"""Fills a table with a release of zae-limiter before 0.6, as an application did: limits come with each request.

Usage: populate.py ENDPOINT NAME < requests. Makes the table ZAEL-NAME. Every request is an object with "entity", "resource",
"limits" (a list of {"name", "capacity", "burst", "amount", "seconds"}) and "consume" (by limit); with "parent" the entity is
created below that one and the request cascades; with "stored" its limits are stored first, and used. Prints for
each request what is available afterwards, by limit.
"""

import asyncio
import json
import os
import sys

ENDPOINT, NAME = sys.argv[1:3]
os.environ.update(
    AWS_ACCESS_KEY_ID="testing",
    AWS_SECRET_ACCESS_KEY="testing",
    AWS_DEFAULT_REGION="us-east-1",
    AWS_EC2_METADATA_DISABLED="true",
    AWS_MAX_ATTEMPTS="1",
)

from zae_limiter import Limit, RateLimiter  # noqa: E402


def limit_of(given):
    return Limit(
        name=given["name"],
        capacity=given["capacity"],
        burst=given["burst"],
        refill_amount=given["amount"],
        refill_period_seconds=given["seconds"],
    )


async def play(limiter, request):
    entity, resource = request["entity"], request["resource"]
    limits = [limit_of(limit) for limit in request["limits"]]
    parent = request.get("parent")
    if await limiter.get_entity(entity) is None:
        await limiter.create_entity(entity, name=entity, parent_id=parent)
    if request.get("stored"):
        await limiter.set_limits(entity, limits, resource=resource)
    options = {"cascade": parent is not None, "use_stored_limits": bool(request.get("stored"))}
    async with limiter.acquire(
        entity_id=entity, resource=resource, limits=limits, consume=request["consume"], **options
    ):
        pass
    return await limiter.available(entity, resource, limits)


async def main():
    limiter = RateLimiter(name=NAME, region="us-east-1", endpoint_url=ENDPOINT)
    await limiter._repository.create_table()
    print(json.dumps([await play(limiter, request) for request in json.load(sys.stdin)]))
    await limiter.close()


asyncio.run(main())
