import {createHash} from 'node:crypto'
import {isDeepStrictEqual} from 'node:util'
import {InvalidInput, ZaelError} from '../../core/errors.js'
import {firstItems, shellWord} from '../../core/text/text.js'
import type {Plan} from '../../manifest/plan.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import {isoSeconds} from '../../schema/attribute-value.js'
import {changeLine, manifestPlanJson} from './manifest-presenter.js'
import type {PlanFileJson, PlannedChangeJson} from './results.js'
import type {PreviewedPlan} from './run.js'

/** A change takes about 1 KB. */
export const MAX_PLAN_BYTES = 256 * 2 ** 20

const CODE = 'manifest.plan-file'

/** Of a plan file. A later version has another number if an older one would misread it. */
const FORMAT = 1

/** `undefined` if the text is not a plan file. Throws if it is damaged or of another version. */
export function parsePlanFile(text: string, file: string): PlanFileJson | undefined {
  if (!/^\s*\{/.test(text)) return undefined
  let document: Partial<PlanFileJson> | null
  try {
    document = JSON.parse(text)
  } catch {
    return undefined
  }
  if (document?.zaelPlan === undefined) return undefined
  const {zaelPlan, namespaceId, seen, manifest, changes} = document
  const hasTexts = [namespaceId, seen, manifest].every(field => typeof field === 'string')
  if (zaelPlan === FORMAT && hasTexts && Array.isArray(changes)) return document as PlanFileJson
  throw new InvalidInput(CODE, `${file} is a plan file that is damaged, or of another version of zael.`, {
    hint: `Nothing was changed. Write it again: zael limits plan -f MANIFEST --out ${shellWord(file)}`,
    details: {file},
  })
}

/** Only its owner can read it. Replaces an earlier plan file, and no other file. */
export async function writePlanFile(
  file: string,
  {plan, preview}: PreviewedPlan,
  source: {
    readonly namespace: NamespaceRepository
    /** The manifest, and its file as typed. */
    readonly text: string
    readonly file: string
    readonly nowMs: number
  },
): Promise<void> {
  const [{readText}, {writePrivateJson}] = await Promise.all([
    import('../../files/read-document.js'),
    import('../../local/state-dir/private-file.js'),
  ])
  const hint = 'Nothing was written. Give the name of a new file, or of an earlier plan file.'
  const refused = () => new InvalidInput(CODE, `${file} exists and is not a plan file.`, {hint, details: {file}})
  // A device or pipe cannot be replaced.
  const accept = (stats: {isFile(): boolean}) => {
    if (stats.isFile()) return true
    throw refused()
  }
  const existing = await readText({
    file: file === '-' ? './-' : file,
    code: CODE,
    maxBytes: MAX_PLAN_BYTES,
    hint,
    accept,
  })
  if (existing !== undefined && !parsePlanFile(existing, file)) throw refused()
  const {namespace, text, nowMs} = source
  const reviewed = {...reviewedParts({plan, preview}), manifest: text}
  const content: PlanFileJson = {
    zaelPlan: FORMAT,
    namespace: plan.manifest.namespace,
    namespaceId: namespace.id,
    createdAt: isoSeconds(nowMs),
    seen: fingerprint(reviewed),
    ...reviewed,
    source: source.file === '-' ? null : source.file,
  }
  await writePrivateJson(file, content)
}

type ReviewedParts = Pick<PlanFileJson, 'counts' | 'changes' | 'adopted' | 'ended'>

/** As in the file, so without undefined fields. */
function reviewedParts({plan, preview}: PreviewedPlan): ReviewedParts {
  const {counts, changes, adopted, boosts} = manifestPlanJson(plan, preview)
  return JSON.parse(JSON.stringify({counts, changes, adopted, ended: boosts.filter(({ends}) => ends)}))
}

/** Detects an edited file: a manifest with fewer changes would look partly applied. */
function fingerprint({counts, changes, adopted, ended, manifest}: ReviewedParts & {manifest: string}): string {
  const hash = createHash('sha256').update(JSON.stringify([counts, changes, adopted, ended, manifest]))
  return `sha256:${hash.digest('hex')}`
}

const MOST_NAMED = 5

/** Throws unless a plan of the same manifest makes the reviewed changes, or the rest of them, from the same values. */
export function requireReviewed(reviewed: PlanFileJson, previewed: PreviewedPlan, namespaceId: string): void {
  const {namespace} = previewed.plan.manifest
  if (reviewed.namespaceId !== namespaceId) {
    throw outdated(reviewed, `The plan is for another namespace "${namespace}", with the id ${reviewed.namespaceId}.`)
  }
  if (reviewed.seen !== fingerprint(reviewed)) {
    throw outdated(reviewed, `The plan file was edited after ${reviewed.createdAt}.`)
  }
  const differences = differencesOf(reviewed, previewed.plan, reviewedParts(previewed))
  if (differences.length === 0) return
  const lines = firstItems(differences, MOST_NAMED, rest => `and ${rest} more`)
  const list = lines.map(line => `\n  ${line}`).join('')
  throw outdated(reviewed, `The table has changed since the plan of ${reviewed.createdAt}.${list}`, {differences})
}

function outdated({source}: PlanFileJson, message: string, details: Record<string, unknown> = {}): ZaelError {
  const manifest = typeof source === 'string' ? shellWord(source) : 'MANIFEST'
  return new ZaelError('conflict', 'manifest.plan-outdated', message, {
    hint: `Nothing was changed. Review a new plan: zael limits plan -f ${manifest} --out FILE`,
    details,
  })
}

/** By scope or entity. A reviewed change that the new plan lacks was already made, because the manifest is the same. */
function differencesOf(reviewed: ReviewedParts, {changes}: Plan, now: ReviewedParts): string[] {
  const before = new Map(reviewed.changes.map(change => [subjectOf(change), change]))
  const known = new Set([...before.keys(), ...reviewed.adopted.map(scope => JSON.stringify(scope))])
  const isPlannedEnd = (boost: unknown) => reviewed.ended.some(each => isDeepStrictEqual(each, boost))
  return [
    ...now.changes.flatMap((change, at) => {
      const planned = before.get(subjectOf(change))
      const line = changes[at] && changeLine(changes[at])
      return (planned && isSame(planned, change)) || line === undefined
        ? []
        : [`${line} (${planned ? 'the plan expected other values' : 'not in the plan'})`]
    }),
    ...now.ended
      .filter(boost => !isPlannedEnd(boost))
      .map(({scope, limit}) => `${scopeText(scope)}: ends the temporary limit ${limit.name} (not in the plan)`),
    ...now.adopted
      .filter(scope => !known.has(JSON.stringify(scope)))
      .map(scope => `${scopeText(scope)}: becomes managed (not in the plan)`),
  ]
}

const subjectOf = (change: PlannedChangeJson): string =>
  JSON.stringify(change.kind === 'entity' ? change.entity : change.scope)

/** A killed apply has already recorded all scopes as managed. */
function isSame(planned: PlannedChangeJson, now: PlannedChangeJson): boolean {
  const isRecorded = planned.kind === 'limits' && now.kind === 'limits' && planned.adopts
  return isDeepStrictEqual(planned, isRecorded ? {...now, adopts: true} : now)
}

function scopeText({entity, resource}: PlanFileJson['adopted'][number]): string {
  if (entity === null) return resource === null ? 'the system' : `resource ${resource}`
  return `entity ${entity}${resource === null ? '' : ` for ${resource}`}`
}
