import {spawn} from 'node:child_process'
import {cp, mkdir, mkdtemp, readFile, rm, writeFile} from 'node:fs/promises'
import {join} from 'node:path'
import {createInterface} from 'node:readline'
import {fileURLToPath} from 'node:url'
import {parseArgs} from 'node:util'
import {writeTable} from '../page.js'
import {MUTANTS, type Mutant} from './mutants.js'

/**
 * `npm run mutate [-- --seeds 24] [--only TEXT] [--from 0] [--count 10] [--profile NAME] [--write]`: plants faults in a copy of the
 * sources, one at a time, and plays seeds of every profile, or of one. A fault is found by an oracle that reports nothing for the same seeds without it.
 */
const {values} = parseArgs({
  options: {
    seeds: {type: 'string', default: '24'},
    /** Only plants with this text in their file or description. */
    only: {type: 'string', default: ''},
    from: {type: 'string', default: '0'},
    profile: {type: 'string', multiple: true, default: []},
    count: {type: 'string', default: String(MUTANTS.length)},
    write: {type: 'boolean', default: false},
  },
})

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))
await mkdir(join(ROOT, '.cache'), {recursive: true})
const folder = await mkdtemp(join(ROOT, '.cache', 'mutants-'))
try {
  for (const name of ['src', 'test', 'templates', 'package.json', 'tsconfig.json'])
    await cp(join(ROOT, name), join(folder, name), {recursive: true})
  const sound = await play(() => false)
  if (sound.size > 0) console.log(`without a planted fault: ${[...sound].join(', ')}`)
  const chosen = MUTANTS.filter(({file, what}) => `${file}: ${what}`.includes(values.only)).slice(
    Number(values.from),
    Number(values.from) + Number(values.count),
  )
  const rows: string[] = []
  let found = 0
  for (const mutant of chosen) {
    const by = await findersOf(mutant, sound)
    if (by) found++
    rows.push(`| \`${mutant.file}\` | ${mutant.what} | ${by ?? '**not found**'} |`)
  }
  const total = `${found} of ${chosen.length} planted faults found`
  console.log(total)
  const head = [`${total}.`, '', '| file | planted fault | found by |', '|---|---|---|']
  if (values.write) await writeTable('faults', [...head, ...rows].join('\n'))
  process.exitCode = found === chosen.length ? 0 : 1
} finally {
  await rm(folder, {recursive: true, force: true})
}

/** The oracles that find a planted fault; `undefined` when none does. */
async function findersOf({file, what, from, to}: Mutant, sound: ReadonlySet<string>): Promise<string | undefined> {
  const path = join(folder, 'src/lib', file)
  const text = await readFile(path, 'utf8')
  if (text.split(from).length !== 2) throw new Error(`${file}: the place for "${what}" is gone, or there are several`)
  await writeFile(
    path,
    text.replace(from, () => to),
  )
  try {
    const finders = (all: ReadonlySet<string>) => [...all].filter(oracle => !sound.has(oracle))
    const found = finders(await play(all => finders(all).length > 0)).join(', ')
    console.log(`${found ? 'found ' : 'MISSED'} ${file}: ${what} (${found})`)
    return found || undefined
  } finally {
    await writeFile(path, text)
  }
}

/** The oracles that report something in seeds of all profiles, until it is enough. */
async function play(isEnough: (oracles: ReadonlySet<string>) => boolean): Promise<ReadonlySet<string>> {
  const node = ['--max-semi-space-size=64', '--disable-warning=ZAEL_UNLIMITED', '--import', 'tsx']
  const profiles = values.profile.flatMap(name => ['--profile', name])
  const args = [...node, 'test/simulation/main.ts', '--seeds', values.seeds, '--list', ...profiles]
  const child = spawn(process.execPath, args, {cwd: folder, stdio: ['ignore', 'pipe', 'inherit']})
  const oracles = new Set<string>()
  for await (const line of createInterface(child.stdout)) {
    oracles.add(line.split(' ')[2] as string)
    if (isEnough(oracles)) break
  }
  child.kill()
  return oracles
}
