// Writes docs/commands.md from oclif.manifest.json; with --check only says whether the committed file is current.
import {readFileSync, writeFileSync} from 'node:fs'
import process from 'node:process'

const root = new URL('../', import.meta.url)
const file = new URL('docs/commands.md', root)
const {commands} = readJson('oclif.manifest.json')
const {oclif} = readJson('package.json')
const {bin, topics} = oclif

// Said once at the top instead of with every command.
const EVERYWHERE = ['STACK', 'GLOBAL']

const ids = Object.keys(commands).sort()
const fresh = `${[...head(), ...groups().flatMap(groupText)].join('\n').trimEnd()}\n`

if (readCommitted() !== fresh) {
  if (process.argv.includes('--check')) {
    console.error('docs/commands.md does not match the commands: run "npm run build" and commit the file')
    process.exit(1)
  }
  writeFileSync(file, fresh)
  console.log(`docs/commands.md: ${ids.length} commands`)
}

function head() {
  const shared = new Map()
  for (const {flags} of Object.values(commands)) {
    for (const flag of Object.values(flags)) if (EVERYWHERE.includes(groupOf(flag))) shared.set(flag.name, flag)
  }
  return [
    '# Commands',
    '',
    'Generated from the commands themselves by `npm run build`; do not edit. Exit codes: `zael help exit-codes`. Variables:',
    '`zael help environment`. JSON Schemas of the results: [output.md](output.md).',
    '',
    '## Flags of every command on a stack',
    '',
    'Options that you omit come from `ZAEL_` variables, from `zael.config.json` in the working folder or above, or from the',
    "user's own settings; see [`zael config show`](#zael-config-show).",
    '',
    ...flagTable([...shared.values()]),
    '',
  ]
}

function groups() {
  const names = new Map()
  for (const id of ids) {
    const [topic, ...rest] = id.split(':')
    const key = rest.length === 0 ? '' : topic
    names.set(key, [...(names.get(key) ?? []), id])
  }
  return [...names].sort(([a], [b]) => (a < b ? -1 : 1))
}

function groupText([topic, members]) {
  const about = topics[topic]?.description
  const title = topic === '' ? [] : [`## ${topic}`, '', ...(about ? [`${about}.`, ''] : [])]
  return [...(topic === '' ? ['## Single commands', ''] : title), ...members.flatMap(commandText)]
}

function commandText(id) {
  const {summary, description, args, flags, examples = []} = commands[id]
  const name = `${bin} ${id.replaceAll(':', ' ')}`
  const words = Object.values(args).map(arg => {
    const word = `${arg.name.toUpperCase()}${arg.multiple ? '...' : ''}`
    return arg.required ? word : `[${word}]`
  })
  const own = Object.values(flags).filter(flag => !EVERYWHERE.includes(groupOf(flag)))
  return [
    `### ${name}`,
    '',
    ...(summary ? [`${summary}.`, ''] : []),
    '```',
    [name, ...words, ...(own.length > 0 ? ['[FLAGS]'] : [])].join(' '),
    '```',
    '',
    ...(description && description !== summary ? [escaped(description), ''] : []),
    ...argTable(Object.values(args)),
    ...(own.length > 0 ? [...flagTable(own), ''] : []),
    ...(examples.length > 0 ? ['```sh', ...examples.flatMap(exampleLines), '```', ''] : []),
  ]
}

function argTable(args) {
  if (args.length === 0) return []
  const rows = args.map(arg => `| \`${arg.name.toUpperCase()}\` | ${escaped(arg.description ?? '')} |`)
  return ['| argument | |', '|---|---|', ...rows, '']
}

function flagTable(flags) {
  const rows = flags
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))
    .map(flag => {
      const value =
        flag.type === 'boolean'
          ? ''
          : ` ${flag.helpValue?.replaceAll('|', '\\|') ?? flag.options?.join('\\|') ?? 'VALUE'}`
      const notes = [
        flag.required ? 'Required.' : '',
        flag.default === undefined || flag.default === '' || flag.type === 'boolean' ? '' : `Default: ${flag.default}.`,
      ].filter(Boolean)
      const letter = flag.char ? `-${flag.char}, ` : ''
      return `| \`${letter}--${flag.allowNo ? '[no-]' : ''}${flag.name}${value}\` | ${[escaped(flag.description ?? flag.summary ?? ''), ...notes].join(' ')} |`
    })
  return ['| flag | |', '|---|---|', ...rows]
}

function exampleLines(example) {
  const {command, description} = typeof example === 'string' ? {command: example} : example
  return description ? [`# ${description}`, command] : [command]
}

// oclif puts --json into a group of its own spelling; it belongs to the flags of every command.
function groupOf({name, helpGroup}) {
  return name === 'json' ? 'GLOBAL' : helpGroup
}

function escaped(text) {
  return text.replaceAll('|', '\\|').replaceAll('<', '&lt;').replaceAll('\n', ' ')
}

function readJson(name) {
  return JSON.parse(readFileSync(new URL(name, root), 'utf8'))
}

function readCommitted() {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    if (error.code === 'ENOENT') return undefined
    throw error
  }
}
