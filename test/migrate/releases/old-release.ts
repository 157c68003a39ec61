import {spawnSync} from 'node:child_process'
import {join} from 'node:path'
import {fileURLToPath} from 'node:url'
import {describe, inject} from 'vitest'
import {pythonEnvironment} from '../../helpers/python-environment.js'

/** Releases of zae-limiter that took the limits with each request; the later one counts consumption in buckets. */
export const OLD_RELEASES = ['0.4', '0.5'] as const

export type OldRelease = (typeof OLD_RELEASES)[number]

const POPULATE = fileURLToPath(new URL('populate.py', import.meta.url))

const programs = new Map(
  OLD_RELEASES.map(release => {
    const usedFor = `Tests with zae-limiter ${release}`
    return [release, pythonEnvironment({name: `zae-limiter-${release}`, usedFor})]
  }),
)

/** Like `describe`, for tests with these releases; skipped when there is no Python or no engine. */
export const describeWithOldReleases = describe.skipIf(
  inject('engineEndpoint') === '' || [...programs.values()].includes(undefined),
)

/** A limit as those releases had it: the burst is the ceiling. */
export interface OldReleaseLimit {
  readonly name: string
  readonly capacity: number
  readonly burst: number
  readonly amount: number
  readonly seconds: number
}

/** One request of an application. */
export interface OldRequest {
  readonly entity: string
  readonly resource: string
  readonly limits: readonly OldReleaseLimit[]
  readonly consume: Readonly<Record<string, number>>
  /** The request cascades to it. */
  readonly parent?: string
  /** The limits are stored for the entity, and used. */
  readonly stored?: true
}

/** Makes a table with a release, and its requests; returns the name of the table and what was left after each request. */
export function populate(
  release: OldRelease,
  name: string,
  requests: readonly OldRequest[],
): {table: string; available: readonly Record<string, number>[]} {
  const python = join(programs.get(release) ?? '', 'python')
  const args = ['-W', 'ignore', POPULATE, inject('engineEndpoint'), name]
  const {status, stdout, stderr} = spawnSync(python, args, {input: JSON.stringify(requests), encoding: 'utf8'})
  if (status !== 0) throw new Error(`zae-limiter ${release}: ${stderr}`)
  return {table: `ZAEL-${name}`, available: JSON.parse(stdout)}
}
