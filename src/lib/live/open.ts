import type {StackContext} from '../cli/base/context.js'
import type {Settings} from '../cli/base/settings.js'
import {withinTime} from '../cli/output/interrupt.js'
import {keepHeapSmallest} from '../cli/output/long-list.js'
import {plainLine} from '../cli/output/paint.js'
import {needEntity, needResource} from '../insight/lookup/known-names.js'
import type {NamespaceRepository} from '../repository/repository.js'
import {type Table, untilAborted} from '../repository/table/table.js'
import {type WatchedBuckets, watchedBuckets} from './document.js'
import type {WatchRequest} from './flags.js'
import {healthSource} from './health.js'
import type {SortKey, Watch, WatchData, WatchScope, WhySource} from './model/model.js'
import {takeReadings} from './poll/poller.js'
import {openWatch} from './poll/watch.js'

/** Resolves after the first poll. Throws for an unknown resource or entity. */
export async function startWatch(
  stack: StackContext,
  {scope, intervalMs}: WatchRequest,
  {ourVersion, where}: {readonly ourVersion: string; readonly where: string},
  signal: AbortSignal,
): Promise<Watch> {
  const repository = await stack.namespace()
  signal.throwIfAborted()
  const {table} = stack
  const health = healthSource(stack, ourVersion)
  const watch = openWatch({repository, table, scope, intervalMs, health, why: whySource(repository, table, where)})
  signal.addEventListener('abort', () => watch.stop(), {once: true})
  await watch.start()
  try {
    await needScope(repository, scope, watch.data())
    return watch
  } catch (error) {
    await watch.stop()
    throw error
  }
}

const RATE_SORTS: ReadonlySet<SortKey> = new Set(['rate', 'empty', 'pressure'])

/** Reads twice, an interval apart, if the order needs rates. Throws for an unknown resource or entity. */
export function takeSnapshot(
  stack: StackContext,
  {scope, selection, forMs, intervalMs, isWhole}: WatchRequest,
  top: number | undefined,
): Promise<WatchedBuckets> {
  return withinTime(forMs, async signal => {
    const repository = await stack.namespace()
    if (isWhole) keepHeapSmallest()
    const againAfterMs = RATE_SORTS.has(selection.sort) ? intervalMs : undefined
    const result = await takeReadings(repository, stack.table, scope, {signal, againAfterMs, isWhole})
    await needScope(repository, scope, result)
    return watchedBuckets({...result, problem: undefined}, stack.table.clock(), selection, top)
  })
}

export function whereOf({stack, endpointUrl, region, profile}: Settings): string {
  if (endpointUrl.value) return URL.canParse(endpointUrl.value) ? new URL(endpointUrl.value).host : endpointUrl.value
  if (stack.value === 'local') return 'this machine'
  return region.value ?? (profile.value ? `profile ${profile.value}` : 'AWS')
}

/** A scope without buckets is fine if its name exists. */
export async function needScope(
  repository: NamespaceRepository,
  scope: WatchScope,
  {known}: Pick<WatchData, 'known'>,
): Promise<void> {
  if (known.count > 0) return
  if (scope.kind === 'resource') await needResource(repository, scope.resource)
  if (scope.kind === 'entity') await needEntity(repository, scope.entity)
}

export function whySource(repository: NamespaceRepository, table: Table, where: string): WhySource {
  return async ({entity, resource}, signal) => {
    const [{explain}, {whyLines}, {NamespaceRepository: Namespace}] = await Promise.all([
      import('../insight/why/explain.js'),
      import('../cli/acquire/why-presenter.js'),
      import('../repository/repository.js'),
    ])
    // A new instance has no cache, and the signal aborts its requests.
    const bound = untilAborted({...table, namespace: repository.id}, signal)
    const explanation = await explain(new Namespace(bound, undefined), {entity, resource}, table.clock)
    return whyLines(explanation, where).map(plainLine)
  }
}
