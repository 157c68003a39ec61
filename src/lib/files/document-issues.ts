import * as z from 'zod'
import {InvalidInput} from '../core/errors.js'
import {describeValue, isMapping, notOneOf} from './document-problems.js'
import type {ProblemPlace, Source} from './yaml-source.js'

/** The params of a custom issue are a `ProblemPlace`. */
export function reportIssues(
  source: Pick<Source, 'report' | 'valueAt'>,
  issues: readonly z.core.$ZodIssue[],
  above: readonly PropertyKey[] = [],
): void {
  const misspelled = new Set<string>()
  for (const issue of issues) {
    if (issue.code !== 'unrecognized_keys') continue
    const path = [...above, ...issue.path]
    const messages = issue.message.split('\n')
    for (const [at, key] of issue.keys.entries()) source.report([...path, key], messages[at] ?? '', {at: 'key'})
    misspelled.add(JSON.stringify(path))
  }
  for (const issue of issues) {
    const path = [...above, ...issue.path]
    // A misspelled key explains why another key is missing.
    if (issue.code === 'unrecognized_keys' || misspelled.has(JSON.stringify(path))) continue
    if (issue.code === 'invalid_key') {
      source.report(path, issue.issues[0]?.message ?? issue.message, {at: 'key'})
    } else if (issue.code === 'invalid_union') {
      // Unions here are of scalars, with a mapping at the end.
      reportIssues(source, issue.errors.at(isMapping(source.valueAt(path)) ? -1 : 0) ?? [], path)
    } else {
      source.report(path, issue.message, issue.code === 'custom' ? (issue.params as ProblemPlace | undefined) : {})
    }
  }
}

export function fieldsOf<Shape extends z.ZodRawShape>(what: string, shape: Shape) {
  const names = Object.keys(shape)
  return z.strictObject(shape, {
    error: issue =>
      issue.code === 'unrecognized_keys'
        ? issue.keys.map(key => notOneOf('a key here', key, names)).join('\n')
        : `${what} must be a mapping, not ${describeValue(issue.input)}`,
  })
}

export function entriesOf<Name extends z.ZodType<string, string>, Value extends z.ZodType>(
  what: string,
  name: Name,
  value: Value,
) {
  const entries = z.record(name, value, {
    error: issue => `${what} must be a mapping, not ${describeValue(issue.input)}`,
  })
  // z.record silently drops this key.
  const refuseProto = (input: unknown, ctx: z.RefinementCtx): unknown => {
    const key = '__proto__'
    const refused = isMapping(input) && Object.hasOwn(input, key) ? name.safeParse(key).error : undefined
    for (const {message} of refused?.issues ?? []) {
      ctx.addIssue({code: 'custom', message, path: [key], params: {at: 'key'} satisfies ProblemPlace})
    }
    return input
  }
  return z.preprocess(refuseProto, entries)
}

export function checkedNameOf(check: (name: string) => string, rule: string, missing?: string) {
  const error = ({input}: {readonly input?: unknown}) =>
    input === undefined && missing !== undefined ? missing : `${rule}, not ${describeValue(input)}`
  return z.string({error}).check(({value, issues}) => {
    try {
      check(value)
    } catch (error) {
      if (!(error instanceof InvalidInput)) throw error
      issues.push({code: 'custom', input: value, message: error.message.replace(/\.$/, '')})
    }
  })
}
