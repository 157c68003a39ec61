import {InvalidInput} from '../core/errors.js'
import {DEFAULT_RESOURCE} from '../core/names.js'
import {reportIssues} from '../documents/issues.js'
import {reportProblems} from '../documents/problems.js'
import {Source} from '../documents/source.js'
import {asText, isMapping, type Mapping} from '../documents/values.js'
import {parentCycles} from './cycles.js'
import type {Manifest} from './manifest.js'
import {manifestSchema} from './schema.js'

/** Parses a manifest in YAML or JSON; throws one error with all problems and their positions. `file` is for messages. */
export function parseManifest(text: string, {file}: {readonly file: string}): Manifest {
  const source = new Source(text, {secondDocument: 'a file is for one namespace'})
  const manifest = source.value === undefined ? undefined : checkManifest(source, source.value)
  if (!manifest || source.problems.length > 0) throw manifestInvalid(file, source)
  return manifest
}

function checkManifest(source: Source, value: unknown): Manifest | undefined {
  if (value === null) {
    source.report([], 'the file is empty; it needs at least "namespace"')
    return undefined
  }
  const {data, error} = manifestSchema.safeParse(value)
  reportIssues(source, error?.issues ?? [])
  // Not part of the schema, which checks them only if there is no other problem.
  const entities = Object.entries(mappingOf(mappingOf(value).entities))
  for (const [id, entity] of entities) reportSecondDefault(source, id, entity)
  reportCycles(source, new Map(entities.map(([id, entity]) => [id, asText(mappingOf(entity).parent)])))
  return data
}

const mappingOf = (value: unknown): Mapping => (isMapping(value) ? value : {})

function reportSecondDefault(source: Source, id: string, entity: unknown): void {
  const {limits, resources} = mappingOf(entity)
  if (limits === undefined || !Object.hasOwn(mappingOf(resources), DEFAULT_RESOURCE)) return
  const message = `"limits" of the entity already sets ${DEFAULT_RESOURCE}; give only one of them`
  source.report(['entities', id, 'resources', DEFAULT_RESOURCE], message)
}

/** Reports each cycle of parents within the file once, at one of its entities. */
function reportCycles(source: Source, parents: ReadonlyMap<string, unknown>): void {
  for (const cycle of parentCycles(parents)) {
    const path = ['entities', cycle[0] as string, 'parent']
    source.report(path, `the parents form a cycle: ${cycle.join(' → ')}`)
  }
}

/** One error with all problems of a file, in line order. */
function manifestInvalid(file: string, {problems}: Source): InvalidInput {
  const {sorted, lines} = reportProblems(file, problems)
  const count = problems.length === 1 ? 'a problem' : `${problems.length} problems`
  return new InvalidInput('manifest.invalid', `The manifest has ${count}:\n${lines.join('\n')}`, {
    hint: 'Nothing was read or written. Fix the file and check it with `zael limits validate`.',
    details: {file, problems: sorted},
  })
}
