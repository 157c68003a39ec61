import {createHash} from 'node:crypto'
import type {Limit} from '../core/limit.js'
import {kindForm} from '../schema/audit-record.js'
import type {Json} from '../schema/json-attribute.js'
import {byText, type Manifest, type ManifestEntity, type ManifestScope, policiesForm} from './manifest.js'

/**
 * The hash that the Python system stores for a manifest: of its normal form as JSON with sorted keys, formatted like
 * Python's `json.dumps`. Fields that only zael knows (parents, metadata…) are included only where they are stated.
 */
export function fingerprint(manifest: Manifest): string {
  return `sha256:${createHash('sha256')
    .update(pythonJson(normalForm(manifest)))
    .digest('hex')}`
}

function normalForm({namespace, system, resources, entities}: Manifest): Json {
  const policy = system?.onUnavailable
  return {
    namespace,
    ...(system && {
      system: {limits: limitsForm(system.limits), ...(policy === undefined ? {} : {on_unavailable: policy})},
    }),
    ...(resources.size > 0 && {resources: scopesForm(resources)}),
    ...(entities.size > 0 && {
      entities: Object.fromEntries([...entities].map(([id, entity]) => [id, entityForm(entity)])),
    }),
  }
}

function entityForm({scopes, ...record}: ManifestEntity): Json {
  return {...(record as {[key: string]: Json}), resources: scopesForm(scopes)}
}

function scopesForm(scopes: ReadonlyMap<string, ManifestScope>): Json {
  return Object.fromEntries(
    [...scopes].map(([name, {limits, policies}]) => [name, {limits: limitsForm(limits), ...policiesForm(policies)}]),
  )
}

function limitsForm(limits: readonly Limit[]): Json {
  return Object.fromEntries(
    limits.map(({name, capacity, refillAmount, refillPeriodSeconds, ...limit}) => [
      name,
      {
        capacity,
        refill_amount: refillAmount,
        // The period of a quota means nothing; Python has its default there.
        refill_period: limit.reset ? 60 : refillPeriodSeconds,
        ...kindForm(limit),
        ...(limit.unit !== undefined && {unit: limit.unit}),
      },
    ]),
  )
}

/** Keys sorted, separators `", "` and `": "`, everything outside ASCII escaped. */
function pythonJson(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(pythonJson).join(', ')}]`
  if (value === null || typeof value !== 'object') return ascii(JSON.stringify(value))
  const entries = Object.entries(value).sort(([a], [b]) => byText(a, b))
  return `{${entries.map(([key, each]) => `${ascii(JSON.stringify(key))}: ${pythonJson(each)}`).join(', ')}}`
}

function ascii(text: string): string {
  return text.replace(/[\u007f-\uffff]/g, unit => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
}
