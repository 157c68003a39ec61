// biome-ignore-all lint/suspicious/noTemplateCurlyInString: these are texts of sources
/** One planted fault: a text of a source file and what takes its place. */
export interface Mutant {
  readonly what: string
  readonly file: string
  readonly from: string
  readonly to: string
}

const mutant = (file: string, what: string, from: string, to: string): Mutant => ({what, file, from, to})

/** Faults that someone could make, in `core`, `limiter`, `repository` and `aggregator`. */
export const MUTANTS: readonly Mutant[] = [
  ...inFile('core/token-math.ts', [
    [
      'fractions are rounded up',
      'balance.tokensMilli + earned / period',
      'balance.tokensMilli + (earned + period - 1n) / period',
    ],
    [
      'fractions are dropped',
      'return {tokensMilli, remainder: earned % period}',
      'return {tokensMilli, remainder: 0n}',
    ],
    [
      'a balance grows beyond the capacity',
      'if (tokensMilli >= rate.capacityMilli)',
      'if (tokensMilli >= 2n * rate.capacityMilli)',
    ],
    ['retry-after is 5 ms short', '/ rate.refillAmountMilli) + 1', '/ rate.refillAmountMilli) - 5'],
    [
      'the whole capacity is never available',
      'neededMilli > rate.capacityMilli ||',
      'neededMilli >= rate.capacityMilli ||',
    ],
  ]),
  ...inFile('core/bucket.ts', [
    [
      'requests of a batch share the same tokens',
      'left.set(name, (left.get(name) ?? 0n) - milli)',
      'left.set(name, left.get(name) ?? 0n)',
    ],
    [
      'a token too few is enough',
      'entries.every(([name, milli]) => (left.get(name) ?? 0n) >= milli)',
      'entries.every(([name, milli]) => (left.get(name) ?? 0n) + 1000n >= milli)',
    ],
    ['returns are charges', '[name, -milli]', '[name, milli]'],
    ['buckets expire at once', 'Math.max(SHORTEST_LIFETIME_SECONDS, lifetimeSeconds(limits, multiplier))', '1'],
  ]),
  ...inFile('core/shards.ts', [
    [
      'shares add up to more',
      '(value * (position + 1n)) / shards - (value * position) / shards',
      '(value * (position + 1n)) / shards - (value * position) / shards + 500n',
    ],
    ['the wait of several shards is too short', 'return lateEnough + 1', 'return Math.ceil((lateEnough + 1) / 2)'],
  ]),
  ...inFile('core/fullness.ts', [
    [
      'a bucket never counts as filled up',
      'if (limit && limit.tokensMilli >= limit.capacityMilli) return true',
      'if (limit && limit.tokensMilli > limit.capacityMilli) return true',
    ],
    [
      'late returns are not cut off',
      'limit.tokensMilli > limit.capacityMilli) return true',
      'limit.tokensMilli > 9n * limit.capacityMilli) return true',
    ],
    [
      'a bucket counts as full too early',
      'capacityMilli - (refillAmountMilli * BigInt(elapsedMs)) / BigInt(refillPeriodMs)',
      'capacityMilli - (9n * refillAmountMilli * BigInt(elapsedMs)) / BigInt(refillPeriodMs)',
    ],
  ]),
  ...inFile('repository/buckets/writes.ts', [
    [
      'a charge does not check the balance',
      "    e.condition(`${e.name(limitAttribute(name, 'tokens'))} >= ${e.value(n(milli))}`)\n",
      '',
    ],
    [
      'a rewrite does not check the refill instant',
      '  e.condition(`${e.name(names.refilledAt)} = ${e.value(n(record.state.refilledAtMs))}`)\n',
      '',
    ],
    ['a rewrite does not check the shard count', '  requireShardCount(e, record.shardCount)\n  if (plan', '  if (plan'],
    [
      'a rewrite does not move the refill instant',
      'if (plan.refilledAtMs !== record.state.refilledAtMs) e.set',
      'if (plan.refilledAtMs < record.state.refilledAtMs) e.set',
    ],
    [
      'a repetition is not recognised',
      '  e.condition(`attribute_not_exists(${e.name(attribute)}) OR ${e.name(attribute)} <> ${e.value(nonce)}`)\n',
      '',
    ],
    ['charges are not counted', ".add(limitAttribute(name, 'consumed'), n(milli))\n}", '\n}'],
    ['a bucket is created over another', '  e.condition(`attribute_not_exists(${e.name(names.refilledAt)})`)\n', ''],
    [
      'a repetition of a return needs no proof',
      'e.condition(since === undefined ? `attribute_not_exists(${slot})` : `${slot} = ${e.value(s(since))}`)',
      'if (since === slot) e.value(s(since))',
    ],
  ]),
  ...inFile('repository/buckets/marked-write.ts', [
    [
      'an applied write counts as refused',
      'applied: maybeApplied && carriesMark(error.oldItem, mark)',
      'applied: false',
    ],
    [
      'a refused repetition counts as applied',
      'applied: maybeApplied && carriesMark(error.oldItem, mark)',
      'applied: maybeApplied',
    ],
  ]),
  ...inFile('repository/buckets/full-bucket-write.ts', [
    ['a full bucket is not charged', 'n(full - milli)', 'n(full)'],
    [
      'a bucket that is not full counts as full',
      "  e.condition(bounds.map(each => within(each).join(' AND ')).join(' OR '))\n",
      '  bounds.map(each => within(each))\n',
    ],
  ]),
  ...inFile('repository/buckets/plan.ts', [
    [
      'a lowered limit does not clamp',
      'const tokensMilli = isClamped ? ceiling : credited.tokensMilli',
      'const tokensMilli = credited.tokensMilli',
    ],
    [
      'a raised limit fills the bucket',
      'const tokensMilli = isClamped ? ceiling',
      'const tokensMilli = isClamped || rate.capacityMilli > stored.capacityMilli ? ceiling',
    ],
  ]),
  ...inFile('repository/buckets/split.ts', [
    ['a split creates tokens', '    give.add(tk, n(-milli))\n', ''],
    ['a new shard counts what its donor has counted', 'consumedMilli: 0n, remainder: 0n}', 'remainder: 0n}'],
  ]),
  ...inFile('limiter/bucket-queue.ts', [
    [
      'what an abandoned request was charged stays',
      'if (request.isAbandoned) request.cleanUp(this.giveBack(amounts, count))',
      'if (request.isAbandoned) continue',
    ],
    ['overflow comes back', 'if (step.mayHaveOverflowed) await', 'if (step.mayHaveOverflowed && step.refused) await'],
  ]),
  ...inFile('limiter/namespace-limiter.ts', [
    [
      'a refused parent leaves its child charged',
      '    for (const grant of grants) void this.queues.refund(grant.holdings)\n',
      '',
    ],
  ]),
  ...inFile('limiter/lease.ts', [
    ['what was released is rolled back again', '      book(holding, returned, 1n)\n', ''],
    [
      'what was adjusted is not rolled back',
      '        [...deltas].filter(([, milli]) => milli > 0n),\n        1n,',
      '        [...deltas].filter(([, milli]) => milli > 0n),\n        0n,',
    ],
  ]),
  ...inFile('limiter/refusal.ts', [
    ['every refusal names 1 ms', 'Math.max(1, ...statuses.map(status => status.retryAfterMs))', '1'],
  ]),
  ...inFile('limiter/known-bucket.ts', [
    ['refusals are remembered for a minute', 'ageMs <= denyCacheMs', 'ageMs <= 60 * denyCacheMs'],
  ]),
  ...inFile('limiter/limit-steps.ts', [
    [
      'changed limits are never noticed',
      '!changesLimits(plan) && isSameFamily(seen.record, family)',
      'isSameFamily(seen.record, family)',
    ],
    [
      'the first request is not charged',
      'const write = {amounts: sumAmounts(fitting), requests: requestCount(fitting)}',
      'const write = {amounts: new Map<string, bigint>(), requests: requestCount(fitting)}',
    ],
  ]),
  ...inFile('limiter/gather.ts', [
    [
      'a gathered request is charged nothing',
      'const write = {amounts: taken, requests',
      'const write = {amounts: new Map<string, bigint>(), requests',
    ],
  ]),
  ...inFile('aggregator/usage.ts', [
    ['the mark of usage stays behind', 's(last.position))', 's(first.position))'],
    ['the last change is counted again', 'position > mark', 'position >= mark'],
  ]),
  ...inFile('aggregator/batch.ts', [
    ['records that failed are forgotten', '    for (const number of sequenceNumbers) this.#failures.add(number)\n', ''],
  ]),
  ...inFile('aggregator/bucket-change.ts', [
    ['all past consumption counts again', 'milli - (known.get(limit) ?? 0n)', 'milli - 0n * (known.get(limit) ?? 0n)'],
  ]),
  ...inFile('dynamo/errors.ts', [
    [
      'a return in doubt is repeated',
      'if (error instanceof Unavailable) return !error.maybeApplied',
      'if (error instanceof Unavailable) return true',
    ],
  ]),
]

function inFile(file: string, all: readonly (readonly [what: string, from: string, to: string])[]): Mutant[] {
  return all.map(([what, from, to]) => mutant(file, what, from, to))
}
