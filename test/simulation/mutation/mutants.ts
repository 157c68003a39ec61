// biome-ignore-all lint/suspicious/noTemplateCurlyInString: these are texts of sources
/** One planted fault. The comment `// Planted fault: <what>` in a function of `src/lib` marks the line it changes. */
export interface Mutant {
  readonly what: string
  /** Name of the function or method that has the mark. */
  readonly inside: string
  /** A piece of the marked line, and its replacement; the whole line is removed when absent. */
  readonly change: readonly [from: string, to: string] | undefined
}

/** Faults that someone could make, in `core`, `limiter`, `repository` and `aggregator`. */
export const MUTANTS: readonly Mutant[] = [
  ...inFunction('shareOf', [['shares add up to more', 'position) / shards', 'position) / shards + 500n']]),
  ...inFunction('parseCron', [
    ['a midnight that occurs twice begins two days', 'hours.size === 24 && minutes.size < 60', 'true'],
  ]),
  ...inFunction('refill', [
    ['fractions are rounded up', 'earned', '(earned + period - 1n)'],
    ['fractions are dropped', 'earned % period', '0n'],
    ['a balance grows beyond the capacity', 'rate.capacityMilli', '2n * rate.capacityMilli'],
  ]),
  ...inFunction('retryAfterMs', [['retry-after is 50 ms short', '+ 1', '- 50']]),
  ...inFunction('isAbove', [
    ['feedback raises a balance', "?.kind !== 'keep') return false", ") return change.kind === 'keep'"],
  ]),
  ...inFunction('lowering', [
    [
      'feedback lowers twice as far',
      'balance.tokensMilli - change.after.tokensMilli',
      '2n * (balance.tokensMilli - change.after.tokensMilli)',
    ],
    ['feedback counts as a request', 'feedback', 'requests: 1, feedback'],
  ]),
  ...inFunction('lowerShards', [['feedback is lost', 'planned?.decision', 'undefined']]),
  ...inFunction('chooseFitting', [
    ['requests of a batch share the same tokens', '(left.get(name) ?? 0n) - milli', 'left.get(name) ?? 0n'],
  ]),
  ...inFunction('covers', [['a request with one token too few is admitted', '< milli', '+ 1000n < milli']]),
  ...inFunction('negateAmounts', [['refunds are charges', '-milli', 'milli']]),
  ...inFunction('expiresAtSeconds', [
    ['buckets expire at once', 'IDLE_LIFETIME_SECONDS, neededUntilSeconds(limits, multiplier, nowMs)', '1'],
  ]),
  ...inFunction('firstEnough', [
    ['the wait of several shards is too short', 'lateEnough', 'Math.ceil(lateEnough / 2)'],
  ]),
  ...inFunction('boundsOfFullness', [
    ['a bucket counts as full too early', 'limit.refillAmountMilli', '9n * limit.refillAmountMilli'],
  ]),
  ...inFunction('sharedTake', [
    ['a shared take credits one token too many', 'earned - asked', 'earned + 1000n - asked'],
    ['a shared take keeps the overflow', 'level - asked', 'capacityMilli - asked'],
  ]),
  ...inFunction('boundsOfRoom', [
    [
      'a bucket that has overflowed counts as one with room',
      '(first.highestMilli.get(name) ?? 0n)',
      '2n * (first.highestMilli.get(name) ?? 0n) + 1n',
    ],
  ]),
  ...inFunction('plannedUpdate', [
    ['a rewrite does not check the refill instant'],
    ['a rewrite does not check whether the limits have changed'],
    ['a rewrite does not move the refill instant', '!==', '<'],
    ['a refill instant that is set back lets earlier attempts through'],
  ]),
  ...inFunction('markedUpdate', [
    ['a repetition is not recognised'],
    ['a write that is delivered twice is applied twice'],
    ['a repetition leaves the first try valid', ' || repeats', ''],
  ]),
  ...inFunction('carriesMark', [['an applied write counts as refused', 'nonce)', 'nonce && slot < 0)']]),
  ...inFunction('addConsumption', [
    ['charges are not counted', ".add(limitAttribute(name, 'consumed'), n(milli))", ''],
  ]),
  ...inFunction('spellSlots', [
    ['a write takes slots whatever the account', 'e.require(account, before)', 'e'],
    ['slots are taken although none is free'],
  ]),
  ...inFunction('planSlots', [
    ['a changed capacity does not change the free slots'],
    ['slots in use are free when their limit is set again', 'account.held.get(name) ?? 0', '0'],
  ]),
  ...inFunction('reapSlots', [
    [
      'the slots of a dead holder are returned whatever its account',
      'e.require(slotAttribute.account(holder), account.text)',
      'e',
    ],
  ]),
  ...inFunction('storeReservation', [['a reservation is stored again after its end']]),
  ...inFunction('returnReservation', [
    ['reserved tokens are returned twice'],
    [
      'reserved tokens that do not come back count as returned',
      'spellReturned(returned)',
      'spellReturned([...tokens.keys()])',
    ],
  ]),
  ...inFunction('mayReturn', [
    ['reserved tokens go to a bucket that did not give them'],
    ['reserved tokens go to a later period', 'return isSamePeriod(', 'return true || isSamePeriod('],
  ]),
  ...inFunction('#takeBack', [['tokens that others have returned are refunded again', 'await ending', '[]']]),
  ...inFunction('sendBeat', [['a beat whose answer was lost ends its holder', 's(next)', "s('')"]]),
  ...inFunction('noteRefused', [['slots whose return was refused are not due any more']]),
  ...inFunction('giveBack', [
    ['returned slots stay in the account', 'of slots', 'of [] as [string, number][]'],
    ['the slots of a lost holder are returned from its successor'],
  ]),
  ...inFunction('answer', [['work starts although its holder did not beat in time', '!slots.holder.isFresh', 'false']]),
  ...inFunction('#isOverdue', [
    ['a holder that beats too late goes on', '>= HOLDER_PERIOD_MS', '>= 100 * HOLDER_PERIOD_MS'],
  ]),
  ...inFunction('#ageMs', [
    [
      'a holder does not count the time for which its machine was suspended',
      'this.#table.clock() - clockMs',
      '0 * clockMs',
    ],
  ]),
  ...inFunction('#send', [
    ['a beat counts from its answer', '= sentAt', '= {steadyMs: this.#timers.now(), clockMs: this.#table.clock()}'],
  ]),
  ...inFunction('#isDead', [
    ['a holder is dead after half of its period', 'DEAD_AFTER_MS', 'DEAD_AFTER_MS / 2'],
    ['a holder is dead although it has beaten', 'now?.beat === seen?.beat && ', ''],
    ['the time of an earlier answer counts for a later one'],
    ['a holder without a record is dead at once', '!seen?.isDead', 'seen && !seen.isDead'],
  ]),
  ...inFunction('planLimit', [['charges of a rewrite are not counted', 'countedMilli !== 0n || ', '']]),
  ...inFunction('createUpdate', [['a bucket is created over another']]),
  ...inFunction('spellLimit', [['charges of requests are not counted']]),
  ...inFunction('spellBounds', [['a bucket that is not full counts as full', 'milli)', 'milli / 4n)']]),
  ...inFunction('guardLimit', [['a rewrite does not ask whether another client has lowered the capacity']]),
  ...inFunction('takeStored', [
    ['a charge does not check the balance', ': milli', ': -9n * milli'],
    ['a charge does not ask whether another client has lowered the capacity', 'limit ?? ', ''],
    ['a refund batched with a request is taken again', ' - (returns?.amounts.get(name) ?? 0n)', ''],
    ['the overflow can be taken too', 'first?.earliestRefillMs ?? nowMs', '0 * (first?.earliestRefillMs ?? nowMs)'],
  ]),
  ...inFunction('admissionUpdate', [
    ['a bypassed request is counted by a late attempt as well', 'e.require', 'isBypassed || e.require'],
    ['a bypass does not end'],
  ]),
  ...inFunction('adjustUpdate', [['a refund goes to a bucket that did not give the tokens']]),
  ...inFunction('requireReturnTarget', [
    ['a refund batched with a request is applied twice when the request is delivered twice'],
  ]),
  ...inFunction('sendMarked', [
    [
      'a refused repetition counts as applied',
      'carriesMark(oldItem, mark)',
      '(maybeApplied || carriesMark(oldItem, mark))',
    ],
    ['a write that a proxy delivers twice counts as refused', 'oldItem && ', 'maybeApplied && oldItem && '],
  ]),
  ...inFunction('sendGuarded', [
    ['a first try that may still arrive is not ruled out', 'outcome.applied || !outcome.isInDoubt', 'timeoutMs > 0'],
  ]),
  ...inFunction('ruleOut', [
    ['a first try that arrives while it is ruled out counts as refused', 'carriesMark', 'tries === 0 && carriesMark'],
  ]),
  ...inFunction('sendGuarded', [['a write on an unread bucket is repeated', "'read'", 'undefined']]),
  ...inFunction('ruleOut', [
    [
      'the refill instant of an unread bucket is not moved past a first try',
      'max(table.clock(), latestMs + 1',
      'min(table.clock(), latestMs',
    ],
  ]),
  ...inFunction('writeTogether', [
    [
      'a first try to charge several shards that may still arrive is not ruled out',
      '!isInDoubt',
      'isInDoubt || !isInDoubt',
    ],
  ]),
  ...inFunction('takeFromFull', [['a full bucket is not charged', ' - milli', '']]),
  ...inFunction('planBucket', [
    ['a changed quota forgets its use', 'ceiling - credited.capacityMilli', '0n'],
    ['a lowered limit is not stored', '!isSameLimit(rate, stored)', 'rate.capacityMilli > stored.capacityMilli'],
    [
      'a raised limit fills the bucket',
      'isClamped',
      'rate.capacityMilli > stored.capacityMilli ? rate.capacityMilli : isClamped',
    ],
  ]),
  ...inFunction('moveTokens', [
    ['a split creates tokens'],
    ['a new shard counts the consumption of its donor again', 'consumedMilli: 0n, ', ''],
    ['a split does not lower the ceiling of its donor'],
  ]),
  ...inFunction('advanceQuota', [
    ['a quota is not restored', 'fromMs', 'toMs'],
    ['a quota is restored again within a minute', 'fromMs', 'fromMs - 60_000'],
    ['a session begins before the last one has ended', 'toMs >= endMs', 'toMs >= endMs - 20_000'],
  ]),
  ...inFunction('hasPendingWindow', [
    [
      'a window that another shard has opened is not started',
      '(session.appliedMs ?? refilledAtMs)',
      '(session.appliedMs ?? refilledAtMs) + 86_400_000',
    ],
  ]),
  ...inFunction('periodOf', [
    [
      'a charge of an ended window is refunded to the next one',
      'resets?.nextMs(Math.min(refilledAtMs, chargedAtMs))',
      'undefined',
    ],
  ]),
  ...inFunction('advanceQuota', [
    ['tokens spent since a window was announced are granted again', 'spentSinceMark', '0n * spentSinceMark'],
  ]),
  ...inFunction('waitFor', [['the wait for a quota is 50 ms short', '+ 1', '- 50']]),
  ...inFunction('wholeRateAt', [
    [
      'a window of the schedule is ignored',
      'limit.kind?.schedule?.at(atMs, whole) ?? {',
      '{...limit.kind?.schedule?.at(atMs, whole), ',
    ],
  ]),
  ...inFunction('requireValidity', [['a charge does not ask whether a calendar has changed something', 'nowMs', '0']]),
  ...inFunction('validityOf', [
    ['a bucket is valid beyond its next reset', ' + LONGEST_VALIDITY_MS)', ') + LONGEST_VALIDITY_MS'],
  ]),
  ...inFunction('requireEnabled', [
    ['a write does not ask whether the switch was thrown', '!seen?.isDisabled', 'seen?.isDisabled && !seen'],
  ]),
  ...inFunction('planKinds', [
    ['a changed kind of limit is not stored', 'e.store(attribute, value)', 'void [attribute, value]'],
  ]),
  ...inFunction('grantOfShard', [
    ['a missing shard is granted tokens that another shard holds for it', 'isInPeriod', '!isInPeriod'],
  ]),
  ...inFunction('announce', [['a session is announced to shards whose own session has not ended', ' - lengthMs', '']]),
  ...inFunction('stampUpdate', [
    ['the switch is not stamped on buckets', 'e.set(names.disabled, bool(true))', 'bool(true)'],
  ]),
  ...inFunction('refusal', [
    [
      'a soft limit refuses after its grace period',
      'if (hasLapsedSoftness(record, amounts, nowMs)) return undefined',
      'hasLapsedSoftness(record, amounts, nowMs)',
    ],
  ]),
  ...inFunction('answer', [['an abandoned request stays charged', 'request.cleanUp(refund', 'void (() => refund']]),
  ...inFunction('#writeTogether', [
    [
      'settlements batched with a request are written again',
      'for (const {resolve} of settlements) resolve()',
      'await this.#writeAlone(settlements)',
    ],
  ]),
  ...inFunction('refund', [
    [
      'the first limit of an abandoned request stays charged',
      'negateAmounts(amounts)',
      'new Map([...negateAmounts(amounts)].slice(1))',
    ],
  ]),
  ...inFunction('piggyback', [
    ['refusals of a refused write are lost'],
    ['piggybacked refusals stay pending', 'if (rest.size === 0) this.#remove(waiting)', 'waiting.counts = counts'],
  ]),
  ...inFunction('fail', [['refusals of an uncertain failed write are counted again', '!this', 'this']]),
  ...inFunction('settle', [['refusals of an uncertain write are counted again', "outcome.isInDoubt ? 'lost' : ", '']]),
  ...inFunction('#addBucket', [['only the first refusing limit is counted', 'of asked', 'of asked.slice(0, 1)']]),
  ...inFunction('#allOrNothing', [
    ['a refused parent leaves its child charged', 'grants.map(', 'grants.slice(grants.length).map('],
  ]),
  ...inFunction('#charge', [['a former parent refuses', 'expected', '[]']]),
  ...inFunction('#chargedAsStored', [['a former parent stays charged']]),
  ...inFunction('#nextOf', [['a grandparent is not charged', 'this.levels.most', '2']]),
  ...inFunction('sameLevel', [['tokens taken later become a level of their own', 'isOf(level', 'false && isOf(level']]),
  ...inFunction('operationPut', [
    ['a top-up is repeated under its key', 'isMissing', '`${isMissing} OR NOT ${isMissing}`'],
  ]),
  ...inFunction('divideByRoom', [['a top-up adds more than was asked for', 'total < room ? total : ', '']]),
  ...inFunction('alignFamily', [['a move does not reach buckets', '&& !isMoved', '|| isMoved']]),
  ...inFunction('#settle', [['a rollback refunds released tokens again']]),
  ...inFunction('overdrawn', [['overdrawn limits are not reported', '!== undefined', '=== undefined']]),
  ...inFunction('#settle', [['a rollback ignores adjustments', '1n)', '0n)']]),
  ...inFunction('batchSettlements', [['a batched refund goes to a newer incarnation of the bucket']]),
  ...inFunction('#moveSoon', [
    ['delayed settlements are repeated with every write'],
    ['delayed settlements are lost when others are written'],
  ]),
  ...inFunction('explainRefusal', [
    ['every refusal reports a wait of 1 ms', '...statuses.map(status => status.retryAfterMs)', ''],
  ]),
  ...inFunction('isFresh', [['refusals are remembered for a minute', '<= denyCacheMs', '<= 60 * denyCacheMs']]),
  ...inFunction('writeGroup', [
    ['a refund goes to a newer incarnation of the bucket', 'returning.incarnation', 'bucket.lastRecord?.incarnation'],
    ['an uncertain refund is repeated', '(outcome.isInDoubt || isOther)', 'isOther'],
    ['an uncertain refund drops the charges batched with it', ': charges', ': new Map<string, bigint>()'],
    ['a refund to an unread bucket is written without a read', '.isSlotKnown', ''],
  ]),
  ...inFunction('leaveToOthers', [
    ['a shard keeps a refund above its ceiling', 'excess < -milli ? excess : -milli', '0n'],
  ]),
  ...inFunction('impossibility', [['the whole capacity is too large', '> capacityMilli', '>= capacityMilli']]),
  ...inFunction('isUpToDate', [['changed limits are never noticed']]),
  ...inFunction('planCreation', [
    ['the first request is not charged', 'sumAmounts(fitting)', 'new Map<string, bigint>()'],
  ]),
  ...inFunction('#takeParts', [['a gathered request is charged nothing', 'taken', 'new Map<string, bigint>()']]),
  ...inFunction('moveMark', [['the mark of usage stays behind', 'last', 'first']]),
  ...inFunction('notYetCounted', [['the last change is counted again', '> mark', '>= mark']]),
  ...inFunction('createSweep', [
    ['a sweep leaves out the last entity', '[...new Set(rows.entities)]', '[...new Set(rows.entities)].slice(0, -1)'],
  ]),
  ...inFunction('sumOfParts', [['a day lacks one of its hours', 'hoursIn(items)', 'hoursIn(items).slice(0, 1)']]),
  ...inFunction('refusedBy', [['all past refusals count again', ' - (seen?.requests ?? 0)', '']]),
  ...inFunction('addToUsage', [
    ['tokens of refusals are not added', 'e.addWithin', "if (!entry.startsWith('t:')) e.addWithin"],
  ]),
  ...inFunction('fail', [['records that failed are forgotten']]),
  ...inFunction('difference', [['all past consumption counts again', '(known', '0n * (known']]),
]

function inFunction(inside: string, all: readonly (readonly [what: string, from?: string, to?: string])[]): Mutant[] {
  return all.map(([what, from, to = '']) => ({what, inside, change: from === undefined ? undefined : [from, to]}))
}
