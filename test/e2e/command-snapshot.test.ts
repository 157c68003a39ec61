import {readFile} from 'node:fs/promises'
import {join} from 'node:path'
import {expect, it} from 'vitest'
import {resultSchemas} from './schemas.js'
import {ROOT, run} from './zael.js'

interface ManifestFlag {
  readonly char?: string
  readonly type: string
  readonly required?: boolean
  readonly multiple?: boolean
  readonly default?: unknown
  readonly options?: readonly string[]
}

interface ManifestCommand {
  readonly aliases: readonly string[]
  readonly args: Readonly<Record<string, {readonly required?: boolean; readonly multiple?: boolean}>>
  readonly flags: Readonly<Record<string, ManifestFlag>>
}

/** The part of a JSON schema that says whether unknown keys are allowed. */
interface Schema {
  readonly title?: string
  readonly anyOf?: readonly Schema[]
  readonly additionalProperties?: boolean
}

/** The interface that scripts rely on: ids, arguments, flags, their letters, choices and defaults, without help texts. */
function surfaceOf({aliases, args, flags}: ManifestCommand): object {
  const flag = (name: string, {char, type, required, multiple, default: otherwise, options}: ManifestFlag) =>
    [
      char ? `-${char}` : '',
      `--${name}`,
      type === 'boolean' ? '' : options ? options.join('|') : 'VALUE',
      multiple ? 'repeatable' : '',
      required ? 'required' : '',
      otherwise === undefined ? '' : `default ${JSON.stringify(otherwise)}`,
    ]
      .filter(Boolean)
      .join(' ')
  return {
    ...(aliases.length > 0 ? {aliases} : {}),
    args: Object.entries(args).map(([name, {required, multiple}]) => {
      return `${name}${multiple ? '...' : ''}${required ? '' : ' (optional)'}`
    }),
    flags: Object.entries(flags)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, each]) => flag(name, each)),
  }
}

it('matches the committed snapshot of commands and flags', async () => {
  const {commands} = JSON.parse(await readFile(join(ROOT, 'oclif.manifest.json'), 'utf8'))
  const surface = Object.entries<ManifestCommand>(commands).map(([id, each]) => [
    id.replaceAll(':', ' '),
    surfaceOf(each),
  ])
  // After a deliberate change, run this file with --update, and add it to the changelog.
  await expect(`${JSON.stringify(Object.fromEntries(surface), null, 2)}\n`).toMatchFileSnapshot('command-snapshot.json')
})

it('uses -n for --namespace in every command, and for nothing else', async () => {
  const {commands} = JSON.parse(await readFile(join(ROOT, 'oclif.manifest.json'), 'utf8'))
  const named = Object.values<ManifestCommand>(commands).flatMap(({flags}) =>
    Object.entries(flags).flatMap(([name, {char}]) =>
      char === 'n' || name === 'namespace' ? [`-${char} --${name}`] : [],
    ),
  )
  expect([...new Set(named)]).toEqual(['-n --namespace'])
})

it('gives every command a summary and two or three examples that name it', async () => {
  const {commands} = JSON.parse(await readFile(join(ROOT, 'oclif.manifest.json'), 'utf8'))
  const entries = Object.entries<{summary?: string; examples?: readonly {command: string}[]}>(commands)
  const poor = entries.flatMap(([id, {summary, examples = []}]) => {
    const words = `zael ${id.replaceAll(':', ' ')}`
    const named = examples.filter(({command}) => command.includes(words))
    return summary && named.length >= 2 && examples.length <= 4 ? [] : [id]
  })
  expect(poor).toEqual([])
})

it('has a schema for every command with --json output', async () => {
  const {commands} = JSON.parse(await readFile(join(ROOT, 'oclif.manifest.json'), 'utf8'))
  const ids = Object.keys(commands).filter(id => !/^(help|version|local:)/.test(id))
  const schemas = resultSchemas()
  const missing = ids.filter(id => {
    const command = id.replaceAll(':', ' ')
    const schema = (schemas[command] ?? {}) as Schema
    const isStrict = (schema.anyOf ?? [schema]).every(({additionalProperties}) => additionalProperties === false)
    return schema.title !== `zael ${command}` || !isStrict
  })
  expect(missing).toEqual([])
})

it('C-39 generates docs/commands.md from the commands', async () => {
  expect(await run(process.execPath, ['.ci/commands-doc.js', '--check'], {})).toEqual({code: 0, stdout: '', stderr: ''})
})
