import {createHash} from 'node:crypto'
import type {Limit} from '../core/limits/limit.js'
import {kindForm} from '../schema/audit-record.js'
import type {Json} from '../schema/json-attribute.js'
import {byText, type Manifest, type ManifestEntity, type ManifestScope, policiesForm} from './manifest.js'

/** The hash that the Python system stores: sorted `json.dumps`. Fields only zael knows count only where stated. */
export function fingerprint(manifest: Manifest): string {
  const hash = createHash('sha256')
  for (const piece of normalForm(manifest)) hash.update(piece)
  return `sha256:${hash.digest('hex')}`
}

/** In pieces, to save memory. Sections are sorted by name. */
function* normalForm({namespace, system, resources, entities}: Manifest): Generator<string, void> {
  const policy = system?.onUnavailable
  yield '{'
  if (entities.size > 0) {
    yield '"entities": {'
    let isFirst = true
    for (const id of [...entities.keys()].sort(byText)) {
      yield `${isFirst ? '' : ', '}${pythonText(id)}: ${pythonJson(entityForm(entities.get(id) as ManifestEntity))}`
      isFirst = false
    }
    yield '}, '
  }
  const rest = pythonJson({
    namespace,
    ...(system && {
      system: {limits: limitsForm(system.limits), ...(policy === undefined ? {} : {on_unavailable: policy})},
    }),
    ...(resources.size > 0 && {resources: scopesForm(resources)}),
  })
  yield rest.slice(1)
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
        // A quota's period means nothing; Python has its default there.
        refill_period: limit.reset ? 60 : refillPeriodSeconds,
        ...kindForm(limit),
        ...(limit.unit !== undefined && {unit: limit.unit}),
      },
    ]),
  )
}

/** Sorted keys, separators `", "` and `": "`, non-ASCII escaped. */
function pythonJson(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(pythonJson).join(', ')}]`
  if (value === null || typeof value !== 'object') return pythonText(value)
  const entries = Object.entries(value).sort(([a], [b]) => byText(a, b))
  return `{${entries.map(([key, each]) => `${pythonText(key)}: ${pythonJson(each)}`).join(', ')}}`
}

function pythonText(value: Json): string {
  return JSON.stringify(value).replace(/[\u007f-\uffff]/g, unit => {
    return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
  })
}
