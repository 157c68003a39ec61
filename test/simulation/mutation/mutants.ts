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
      'shares add up to more',
      '(value * (position + 1n)) / shards - (value * position) / shards',
      '(value * (position + 1n)) / shards - (value * position) / shards + 500n',
    ],
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
    ['retry-after is 50 ms short', '/ rate.refillAmountMilli) + 1', '/ rate.refillAmountMilli) - 50'],
  ]),
  ...inFile('repository/operations/lesson-plan.ts', [
    ['a lesson raises', "if (change?.kind !== 'keep') return false", "if (change) return change.kind === 'keep'"],
    [
      'a lesson lowers twice as far',
      'change.creditMilli + balance.tokensMilli - change.after.tokensMilli',
      'change.creditMilli + 2n * (balance.tokensMilli - change.after.tokensMilli)',
    ],
    [
      'a lesson counts as a request',
      'write: {amounts: new Map(), lessons',
      'write: {amounts: new Map(), requests: 1, lessons',
    ],
  ]),
  ...inFile('repository/operations/learn.ts', [
    ['a lesson is forgotten', 'return planned?.decision', 'return undefined'],
  ]),
  ...inFile('core/buckets/bucket.ts', [
    [
      'requests of a batch share the same tokens',
      'left.set(name, (left.get(name) ?? 0n) - milli)',
      'left.set(name, left.get(name) ?? 0n)',
    ],
    [
      'a token too few is enough',
      '(tokensMilli.get(name) ?? 0n) < milli',
      '(tokensMilli.get(name) ?? 0n) + 1000n < milli',
    ],
    ['returns are charges', '[name, -milli]', '[name, milli]'],
    [
      'buckets expire at once',
      'return Math.max(Math.floor(nowMs / 1000) + IDLE_LIFETIME_SECONDS, neededUntilSeconds(limits, multiplier, nowMs))',
      'return Math.floor(nowMs / 1000) + 1',
    ],
  ]),
  ...inFile('core/buckets/shards.ts', [
    ['the wait of several shards is too short', 'return lateEnough', 'return Math.ceil(lateEnough / 2)'],
  ]),
  ...inFile('core/buckets/fullness.ts', [
    [
      'a bucket counts as full too early',
      'limit.capacityMilli - (limit.refillAmountMilli * BigInt(elapsedMs))',
      'limit.capacityMilli - (9n * limit.refillAmountMilli * BigInt(elapsedMs))',
    ],
    [
      'a bucket that has overflowed counts as one with room',
      '(share.limits.get(name)?.tokensMilli ?? 0n) <= (first?.highestMilli.get(name) ?? 0n)',
      '(share.limits.get(name)?.tokensMilli ?? 0n) <= 2n * (first?.highestMilli.get(name) ?? 0n) + 1n',
    ],
  ]),
  ...inFile('repository/buckets/writes.ts', [
    [
      'a rewrite does not check the refill instant',
      '  e.condition(`${e.name(names.refilledAt)} = ${e.value(n(record.state.refilledAtMs))}`)\n',
      '',
    ],
    ['a rewrite does not check whether the limits have changed', '  requireLimitsRevision(e, record)\n', ''],
    [
      'a rewrite does not move the refill instant',
      'if (plan.refilledAtMs !== record.state.refilledAtMs) e.set',
      'if (plan.refilledAtMs < record.state.refilledAtMs) e.set',
    ],
    ['a repetition is not recognised', '  if (repeats) requireText(e, attribute, repeats.slotMark)\n', ''],
    [
      'a repetition leaves the first try valid',
      'if (isRevision || repeats) e.set(names.limitsRevision',
      'if (isRevision) e.set(names.limitsRevision',
    ],
    [
      'an applied write counts as refused',
      'names.incarnation].some(name => readString(item, name) === nonce)',
      'names.incarnation].some(name => readString(item, name) === nonce && slot < 0)',
    ],
    ['charges are not counted', "n(-milli)).add(limitAttribute(name, 'consumed'), n(milli))", 'n(-milli))'],
    [
      'charges of a rewrite are not counted',
      "else if (countedMilli !== 0n || change.kind === 'init') e.add(",
      "else if (change.kind === 'init') e.add(",
    ],
    ['a bucket is created over another', '  e.condition(`attribute_not_exists(${e.name(names.refilledAt)})`)\n', ''],
  ]),
  ...inFile('repository/buckets/consume-write.ts', [
    [
      'a charge does not check the balance',
      'const lowest = e.value(n(milli))',
      'const lowest = e.value(n(-9n * milli))',
    ],
    [
      'what is returned with a request is taken again',
      'const change = milli - (returns?.amounts.get(name) ?? 0n)',
      'const change = milli',
    ],
    [
      'what has overflowed can be taken as well',
      'since(bounds[0]?.earliestRefillMs ?? nowMs)',
      'since(0 * (bounds[0]?.earliestRefillMs ?? nowMs))',
    ],
  ]),
  ...inFile('repository/buckets/bypass-write.ts', [
    ['a bypassed request is counted by a late attempt as well', '  requireLimitsRevision(e, seen)\n', ''],
    ['a bypass does not end', '  e.condition(`${e.name(names.bypass)} > ${e.value(n(nowMs))}`)\n', ''],
  ]),
  ...inFile('repository/buckets/adjust-write.ts', [
    [
      'a return goes to another bucket than the one that gave the tokens',
      '    if (!isBypassed) requireText(e, names.incarnation, returns.incarnation)\n',
      '',
    ],
  ]),
  ...inFile('repository/buckets/marked-write.ts', [
    [
      'a refused repetition counts as applied',
      'if (maybeApplied && oldItem && carriesMark(oldItem, mark)) return',
      'if (maybeApplied && oldItem) return',
    ],
  ]),
  ...inFile('repository/buckets/guarded-write.ts', [
    [
      'a first try that may still arrive is not ruled out',
      'if (outcome.applied || !outcome.isInDoubt) return outcome',
      'if (timeoutMs > 0) return outcome',
    ],
    [
      'a first try that arrives while it is ruled out counts as refused',
      'if (carriesMark(current, mark)) return',
      'if (tries === 0 && carriesMark(current, mark)) return',
    ],
    [
      'a write on a bucket that was not seen is repeated',
      "basis.kind === 'refill' ? 'read' : () => update({...mark, repeats: {slotMark}})",
      "basis.kind === 'refill' ? undefined : () => update({...mark, repeats: {slotMark}})",
    ],
    [
      'the refill instant of a bucket that was not seen is not moved beyond a first try',
      'Math.max(table.clock(), latestMs + 1)',
      'Math.min(table.clock(), latestMs)',
    ],
  ]),
  ...inFile('repository/buckets/joint-write.ts', [
    [
      'a first try to charge several shards that may still arrive is not ruled out',
      '  if (!isInDoubt) return false\n',
      '  if (isInDoubt || !isInDoubt) return false\n',
    ],
  ]),
  ...inFile('repository/buckets/full-bucket-write.ts', [
    ['a full bucket is not charged', 'n(full - milli)', 'n(full)'],
    [
      'a bucket that is not full counts as full',
      "limitAttribute(name, 'tokens'))} >= ${e.value(n(milli))}`",
      "limitAttribute(name, 'tokens'))} >= ${e.value(n(milli / 4n))}`",
    ],
  ]),
  ...inFile('repository/buckets/plan.ts', [
    [
      'a lowered limit is not stored',
      'parametersChanged: !isSameLimit(rate, stored),',
      'parametersChanged: rate.capacityMilli > stored.capacityMilli,',
    ],
    [
      'a raised limit fills the bucket',
      'opened?.tokensMilli ?? (isClamped ? ceiling',
      'opened?.tokensMilli ?? (rate.capacityMilli > stored.capacityMilli ? rate.capacityMilli : isClamped ? ceiling',
    ],
  ]),
  ...inFile('repository/buckets/split.ts', [
    ['a split creates tokens', '    give.add(tk, n(-milli))\n', ''],
    ['a new shard counts what its donor has counted', 'consumedMilli: 0n, remainder: 0n}', 'remainder: 0n}'],
  ]),
  ...inFile('core/buckets/kind-refill.ts', [
    [
      'a quota is not restored',
      'resetMs !== undefined && resetMs > fromMs)',
      'resetMs !== undefined && resetMs > toMs)',
    ],
    [
      'a quota is restored again within a minute',
      'resetMs !== undefined && resetMs > fromMs)',
      'resetMs !== undefined && resetMs > fromMs - 60_000)',
    ],
    [
      'a session begins before the last one has ended',
      'if (endMs === undefined || toMs >= endMs) {',
      'if (endMs === undefined || toMs >= endMs - 20_000) {',
    ],
    [
      'a window that another shard has opened is not started',
      'session.startMs > (session.appliedMs ?? refilledAtMs)',
      'session.startMs > (session.appliedMs ?? refilledAtMs) + 86_400_000',
    ],
    [
      'what is charged in a window that is over is returned to the next',
      'endMs: resets?.nextMs(Math.min(refilledAtMs, chargedAtMs)), resetNumber}',
      'endMs: undefined, resetNumber}',
    ],
    [
      'what was spent since a window was announced is granted again',
      'resetTarget(limit, ruleMs) - spentSinceMark(limit, quota)',
      'resetTarget(limit, ruleMs) - 0n * spentSinceMark(limit, quota)',
    ],
    ['the wait for a quota is 50 ms short', 'atMs - nowMs + 1', 'atMs - nowMs - 50'],
  ]),
  ...inFile('core/limits/limit-kind.ts', [
    [
      'a window of the schedule is ignored',
      'return limit.kind?.schedule?.at(atMs, whole) ?? {rate: whole, untilMs: undefined}',
      'return {...limit.kind?.schedule?.at(atMs, whole), rate: whole, untilMs: undefined}',
    ],
  ]),
  ...inFile('repository/buckets/kind-write.ts', [
    [
      'a charge does not ask whether a calendar has changed something',
      'e.condition(isExpected ? `${stored}>${e.value(n(nowMs))}` : `attribute_not_exists(${stored})`)',
      'e.condition(isExpected ? `${stored}>${e.value(n(0))}` : `attribute_not_exists(${stored})`)',
    ],
    [
      'a bucket is valid beyond its next reset',
      'return isScheduled ? (nextBoundary(bucket, nowMs) ?? nowMs + LONGEST_VALIDITY_MS) : undefined',
      'return isScheduled ? (nextBoundary(bucket, nowMs) ?? nowMs) + LONGEST_VALIDITY_MS : undefined',
    ],
    [
      'a write does not ask whether the switch was thrown',
      'if (!seen?.isDisabled) e.condition(`attribute_not_exists(${e.name(names.disabled)})`)',
      'if (seen?.isDisabled) e.condition(`attribute_exists(${e.name(names.disabled)})`)',
    ],
    [
      'a kind that was changed is not stored',
      'for (const [attribute, value] of encodeCalendars(kinds)) store(e, attribute, value)',
      'encodeCalendars(kinds)',
    ],
  ]),
  ...inFile('repository/buckets/quota-shards.ts', [
    [
      'a missing shard is granted what another one holds for it',
      'const isCurrent = isInPeriod(stored, state.refilledAtMs, nowMs)',
      'const isCurrent = !isInPeriod(stored, state.refilledAtMs, nowMs)',
    ],
  ]),
  ...inFile('repository/buckets/session-spread.ts', [
    [
      'a session is announced to shards whose own has not ended',
      '<= ${e.value(n(startMs - lengthMs))}`)',
      '<= ${e.value(n(startMs))}`)',
    ],
  ]),
  ...inFile('repository/buckets/switch-write.ts', [
    [
      'the switch is not stamped on buckets',
      "if (access === 'disabled') e.set(names.disabled, bool(true))\n  else e.remove(names.disabled)",
      "if (access !== 'disabled') e.remove(names.disabled)\n  else bool(true)",
    ],
  ]),
  ...inFile('limiter/queue/known-bucket.ts', [
    [
      'a soft limit refuses when its time has run out',
      '    if (hasLapsedSoftness(record, amounts, nowMs)) return undefined\n',
      '    hasLapsedSoftness(record, amounts, nowMs)\n',
    ],
  ]),
  ...inFile('limiter/queue/bucket-queue.ts', [
    [
      'what an abandoned request was charged stays',
      'request.cleanUp(this.giveBack(amounts, requests, {isBypassed, incarnation, periods}))',
      'continue',
    ],
    [
      'corrections that were written with a request are written again',
      'for (const {resolve} of corrections) resolve()',
      'await this.#correct(corrections)',
    ],
    [
      'of what an abandoned request was charged the first limit stays charged',
      'const attempt = () => this.correct(negateAmounts(amounts)',
      'const attempt = () => this.correct(new Map([...negateAmounts(amounts)].slice(1))',
    ],
  ]),
  ...inFile('limiter/refusal/tally.ts', [
    [
      'refusals of a write that was refused are forgotten',
      "else if (outcome === 'not-counted') this.#add(bucket, taken)",
      '',
    ],
    [
      'refusals wait after they were taken along',
      'if (rest.size === 0) this.#remove(waiting)',
      'waiting.counts = counts',
    ],
    [
      'refusals of a write that has failed in doubt are counted again',
      "mayHaveBeenApplied(error) && !this.#isLeftBehind ? 'lost' : 'not-counted'",
      "mayHaveBeenApplied(error) && this.#isLeftBehind ? 'lost' : 'not-counted'",
    ],
    [
      'refusals of a write that stays in doubt are counted again',
      "this.#end(outcome.isInDoubt ? 'lost' : 'not-counted')",
      "this.#end('not-counted')",
    ],
    [
      'of several limits that refuse one is counted',
      'for (const {name, requested, exceeded} of asked)',
      'for (const {name, requested, exceeded} of asked.slice(0, 1))',
    ],
  ]),
  ...inFile('limiter/levels/namespace-limiter.ts', [
    [
      'a refused parent leaves its child charged',
      'const refunds = grants.map(grant => this.queues.refund(grant.holdings))',
      'const refunds: Promise<void>[] = []',
    ],
    [
      'a parent that an entity has left refuses',
      'if (!grants || (grants instanceof RateLimitExceeded && this.#hasOtherParent(request, expected)))',
      'if (!grants || (grants instanceof RateLimitExceeded && this.#hasOtherParent(request, undefined)))',
    ],
    ['a parent that an entity has left stays charged', '    void this.queues.refund(shared.holdings)\n', ''],
  ]),
  ...inFile('repository/operations/ledger.ts', [
    [
      'a top-up is made again under its key',
      'if (incarnation === NO_INCARNATION) e.condition(isMissing)',
      'if (incarnation === NO_INCARNATION) e.condition(`${isMissing} OR NOT ${isMissing}`)',
    ],
  ]),
  ...inFile('repository/operations/divide.ts', [
    ['a top-up adds more than was asked for', 'const given = total < room ? total : room', 'const given = room'],
  ]),
  ...inFile('repository/limits/family-sync.ts', [
    [
      'a move does not reach buckets',
      'if (isSameFamily(record, family) && !isMoved) return undefined',
      'if (isSameFamily(record, family) || isMoved) return undefined',
    ],
  ]),
  ...inFile('limiter/lease.ts', [
    ['what was released is rolled back again', '      book(holding, returns, 1n)\n', ''],
    [
      'a limit that is overdrawn is not named',
      'kind?.softUntilMs !== undefined && tokensMilli < 0n',
      'kind?.softUntilMs === undefined && tokensMilli < 0n',
    ],
    ['what was adjusted is not rolled back', 'book(holding, charges, 1n)', 'book(holding, charges, 0n)'],
  ]),
  ...inFile('limiter/queue/riders.ts', [
    [
      'tokens are returned with a request to a bucket that was created since',
      '    if (correction.incarnation !== incarnation) return undefined\n',
      '',
    ],
  ]),
  ...inFile('limiter/queue/waiting-corrections.ts', [
    ['what is settled soon is written with every further write', '    this.#soon = []\n', ''],
    ['what is settled soon is forgotten when others are written', '    this.#due.push(...this.#soon)\n', ''],
  ]),
  ...inFile('limiter/queue/refuse.ts', [
    ['every refusal names 1 ms', 'Math.max(1, ...statuses.map(status => status.retryAfterMs))', '1'],
  ]),
  ...inFile('limiter/queue/known-bucket.ts', [
    ['refusals are remembered for a minute', 'ageMs <= denyCacheMs', 'ageMs <= 60 * denyCacheMs'],
  ]),
  ...inFile('limiter/queue/corrections.ts', [
    [
      'tokens are returned to a bucket that was created since',
      'incarnation: returning.incarnation, periods',
      'incarnation: bucket.lastRecord?.incarnation, periods',
    ],
    ['a return in doubt is repeated', 'if (returning && (outcome.isInDoubt || isOther))', 'if (returning && isOther)'],
    [
      'what is charged afterwards is dropped with a return in doubt',
      'deltas = chargesOf(corrections)',
      'deltas = new Map()',
    ],
    [
      'a return to a bucket that is not cached is written without a look at it',
      'if (returning && !bucket.isSlotKnown)',
      'if (returning && !bucket)',
    ],
  ]),
  ...inFile('limiter/queue/apply-limits.ts', [
    ['the whole capacity is too large', 'if (milli > capacityMilli && ', 'if (milli >= capacityMilli && '],
    [
      'changed limits are never noticed',
      '    !changesLimits(plan) &&\n    isSameFamily(seen.record, family)',
      '    isSameFamily(seen.record, family)',
    ],
    [
      'the first request is not charged',
      'const write = {amounts: sumAmounts(fitting), requests: requestCount(fitting)}',
      'const write = {amounts: new Map<string, bigint>(), requests: requestCount(fitting)}',
    ],
  ]),
  ...inFile('limiter/levels/gather.ts', [
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
  ...inFile('aggregator/rollup/sweep.ts', [
    [
      'a sweep leaves out the last entity',
      'const entities = [...new Set(rows.entities)]',
      'const entities = [...new Set(rows.entities)].slice(0, -1)',
    ],
  ]),
  ...inFile('repository/usage/sum.ts', [
    [
      'a day lacks one of its hours',
      "whole.window === 'daily' ? hoursIn(items)",
      "whole.window === 'daily' ? hoursIn(items).slice(0, 1)",
    ],
  ]),
  ...inFile('aggregator/refusals.ts', [
    ['all past refusals count again', 'requests - (seen?.requests ?? 0)', 'requests'],
    [
      'tokens of refusals are not added',
      'e.addWithin(map, entry, n(count))',
      "if (!entry.startsWith('t:')) e.addWithin(map, entry, n(count))",
    ],
  ]),
  ...inFile('aggregator/batch.ts', [
    ['records that failed are forgotten', '    for (const number of sequenceNumbers) this.#failures.add(number)\n', ''],
  ]),
  ...inFile('aggregator/bucket-change.ts', [
    ['all past consumption counts again', 'milli - (known.get(limit) ?? 0n)', 'milli - 0n * (known.get(limit) ?? 0n)'],
  ]),
]

function inFile(file: string, all: readonly (readonly [what: string, from: string, to: string])[]): Mutant[] {
  return all.map(([what, from, to]) => mutant(file, what, from, to))
}
