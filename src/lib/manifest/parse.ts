import {InvalidInput} from '../core/errors.js'
import {DEFAULT_RESOURCE} from '../core/names.js'
import {reportIssues} from '../files/document-issues.js'
import {asText, isMapping, type Mapping, type Problem, reportProblems} from '../files/document-problems.js'
import {Source} from '../files/yaml-source.js'
import type {Manifest} from './manifest.js'
import {manifestSchema, parentCycles} from './schema.js'

/** YAML or JSON. Throws one error with all problems and their positions. */
export function parseManifest(text: string, {file}: {readonly file: string}): Manifest {
  const source = new Source(text, {secondDocument: SECOND_DOCUMENT})
  const manifest = source.value === undefined ? undefined : checkManifest(source, source.value)
  if (!manifest || source.problems.length > 0) throw manifestInvalid(file, source.problems)
  return manifest
}

export const SECOND_DOCUMENT = 'a file is for one namespace'

function checkManifest(source: Source, value: unknown): Manifest | undefined {
  if (value === null) {
    source.report([], 'the file is empty; it needs at least "namespace"')
    return undefined
  }
  const {data, error} = manifestSchema.safeParse(value)
  reportIssues(source, error?.issues ?? [])
  // Outside the schema, which would check them only if there is no other problem.
  const entities = Object.entries(mappingOf(mappingOf(value).entities))
  for (const [id, entity] of entities) if (setsDefaultTwice(entity)) reportSecondDefault(source, id)
  const parents = new Map(entities.map(([id, entity]) => [id, statedParent(entity)]))
  for (const cycle of parentCycles(parents)) reportCycle(source, cycle)
  return data
}

const mappingOf = (value: unknown): Mapping => (isMapping(value) ? value : {})

export const statedParent = (entity: unknown): unknown => asText(mappingOf(entity).parent)

export function setsDefaultTwice(entity: unknown): boolean {
  const {limits, resources} = mappingOf(entity)
  return limits !== undefined && Object.hasOwn(mappingOf(resources), DEFAULT_RESOURCE)
}

export function reportSecondDefault(source: Source, id: string): void {
  const message = `"limits" of the entity already sets ${DEFAULT_RESOURCE}; give only one of them`
  source.report(['entities', id, 'resources', DEFAULT_RESOURCE], message)
}

export function reportCycle(source: Source, cycle: readonly string[]): void {
  source.report(['entities', cycle[0] as string, 'parent'], `the parents form a cycle: ${cycle.join(' → ')}`)
}

export function manifestInvalid(file: string, problems: readonly Problem[]): InvalidInput {
  const {sorted, lines} = reportProblems(file, problems)
  const count = problems.length === 1 ? 'a problem' : `${problems.length} problems`
  return new InvalidInput('manifest.invalid', `The manifest has ${count}:\n${lines.join('\n')}`, {
    hint: 'Nothing was read or written. Fix the file and check it with `zael limits validate`.',
    details: {file, problems: sorted},
  })
}
