import {createHash} from 'node:crypto'
import {isDeepStrictEqual} from 'node:util'
import {InvalidInput, ZaelError} from '../../core/errors.js'
import {shellWord} from '../../core/text/text.js'
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
  const content: PlanFileJson = {
    zaelPlan: FORMAT,
    namespace: plan.manifest.namespace,
    namespaceId: namespace.id,
    createdAt: isoSeconds(nowMs),
    seen: planFingerprint(plan),
    ...reviewedParts({plan, preview}),
    manifest: text,
    source: source.file === '-' ? null : source.file,
  }
  await writePrivateJson(file, content)
}

const reviewedParts = ({plan, preview}: PreviewedPlan): Pick<PlanFileJson, 'counts' | 'changes' | 'adopted'> => {
  const {counts, changes, adopted} = manifestPlanJson(plan, preview)
  return {counts, changes, adopted}
}

/** Of all values before and after, and of the temporary limits that an apply would end. */
function planFingerprint({changes, counts, boosts}: Plan): string {
  const ended = boosts.filter(({isEnded}) => isEnded)
  const hash = createHash('sha256').update(JSON.stringify([changes, counts, ended]))
  return `sha256:${hash.digest('hex')}`
}

const MOST_NAMED = 5

/** Throws unless a plan of the same manifest makes the reviewed changes, from the same values. */
export function requireReviewed(reviewed: PlanFileJson, previewed: PreviewedPlan, namespaceId: string): void {
  const {namespace} = previewed.plan.manifest
  if (reviewed.namespaceId !== namespaceId) {
    throw outdated(
      reviewed,
      `The plan was made for another namespace "${namespace}", with the id ${reviewed.namespaceId}.`,
    )
  }
  const now = reviewedParts(previewed)
  const {counts, changes, adopted} = reviewed
  const isSame = isDeepStrictEqual({counts, changes, adopted}, JSON.parse(JSON.stringify(now)))
  if (isSame && reviewed.seen === planFingerprint(previewed.plan)) return
  const differences = differencesOf(changes, previewed.plan, now.changes)
  const rest = differences.length - MOST_NAMED
  const lines = [...differences.slice(0, MOST_NAMED), ...(rest > 0 ? [`and ${rest} more`] : [])]
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

/** By scope or entity; the order of changes is fixed. */
function differencesOf(
  reviewed: readonly PlannedChangeJson[],
  {changes}: Plan,
  now: readonly PlannedChangeJson[],
): string[] {
  const subjectOf = (change: PlannedChangeJson) =>
    JSON.stringify(change.kind === 'entity' ? change.entity : change.scope)
  const before = new Map(reviewed.map(change => [subjectOf(change), change]))
  const needed = new Set(now.map(subjectOf))
  return [
    ...now.flatMap((change, at) => {
      const planned = before.get(subjectOf(change))
      const isSame = isDeepStrictEqual(planned, JSON.parse(JSON.stringify(change)))
      const line = changes[at] && changeLine(changes[at])
      return isSame || line === undefined
        ? []
        : [`${line} (${planned ? 'the plan expected other values' : 'not in the plan'})`]
    }),
    ...reviewed.flatMap(change => (needed.has(subjectOf(change)) ? [] : [`${subjectWords(change)}: no longer needed`])),
  ]
}

function subjectWords(change: PlannedChangeJson): string {
  if (change.kind === 'entity') return `entity ${change.entity}`
  const {entity, resource} = change.scope
  if (entity === null) return resource === null ? 'the system' : `resource ${resource}`
  return `entity ${entity}${resource === null ? '' : ` for ${resource}`}`
}
