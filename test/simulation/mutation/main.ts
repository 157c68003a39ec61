import {mkdir, readFile, rm, writeFile} from 'node:fs/promises'
import {availableParallelism} from 'node:os'
import {join} from 'node:path'
import {parseArgs} from 'node:util'
import {forEachConcurrently} from '../../../src/lib/dynamo/concurrency.js'
import {readSources} from '../../helpers/sources.js'
import {writeTable} from '../page.js'
import {CACHE, Copy} from './copy.js'
import {profilesFor} from './likely.js'
import {MUTANTS, type Mutant} from './mutants.js'
import {plantFault} from './place.js'

/**
 * Plants one fault at a time in a copy of the sources, and plays seeds until an oracle reports a violation that the
 * same seed does not cause without the fault. Results are kept in .cache, to resume a run.
 */
const USAGE = `npm run mutate [-- --seeds 24] [--only TEXT] [--from 0] [--count 10] [--workers N] [--resume] [--write]
  --seeds N    seeds of every profile
  --only TEXT  only faults with this text in their function or description
  --from N     leaves the first N faults out
  --count N    plants at most so many
  --workers N  how many play at a time; as many as there are cores unless given
  --resume     does not plant again what an earlier run has found
  --write      puts the table into docs/how-tested.md`

const {values} = parseArgs({
  options: {
    seeds: {type: 'string', default: '24'},
    only: {type: 'string', default: ''},
    from: {type: 'string', default: '0'},
    count: {type: 'string', default: String(MUTANTS.length)},
    workers: {type: 'string', default: String(availableParallelism())},
    resume: {type: 'boolean', default: false},
    write: {type: 'boolean', default: false},
    help: {type: 'boolean', default: false},
  },
})
if (values.help) {
  console.log(USAGE)
  process.exit(0)
}

/** The oracle that found a fault, with profile and seed, by function and description. */
const FOUND = join(CACHE, 'found-mutants.json')
const found = new Map<string, string>(values.resume ? await readFound() : [])
const sources = readSources()
const from = Number(values.from)
const chosen = MUTANTS.filter(mutant => nameOf(mutant).includes(values.only)).slice(from, from + Number(values.count))
await mkdir(CACHE, {recursive: true})
const sound = await Copy.make()
const copies: Copy[] = []
try {
  const left = chosen.filter(mutant => !found.has(nameOf(mutant)))
  await forEachConcurrently(each(left), Number(values.workers), async mutant => {
    const copy = copies.pop() ?? (await Copy.make())
    const by = await finderOf(copy, mutant)
    copies.push(copy)
    console.log(`${by ? 'found ' : 'MISSED'} ${nameOf(mutant)} (${by ?? ''})`)
    if (!by) return
    found.set(nameOf(mutant), by)
    await writeFile(FOUND, JSON.stringify([...found], undefined, 1))
  })
  const rows = chosen.map(
    mutant => `| \`${mutant.inside}\` | ${mutant.what} | ${found.get(nameOf(mutant)) ?? '**not found**'} |`,
  )
  const total = `${chosen.filter(mutant => found.has(nameOf(mutant))).length} of ${chosen.length} planted faults found`
  console.log(total)
  const head = ['<details>', '<summary>All planted faults</summary>', '', '| function | planted fault | found by |']
  const table = [`${total}.`, '', ...head, '|---|---|---|', ...rows, '', '</details>']
  if (values.write) await writeTable('faults', table.join('\n'))
  process.exitCode = rows.some(row => row.includes('**not found**')) ? 1 : 0
} finally {
  for (const copy of [sound, ...copies]) await rm(copy.folder, {recursive: true, force: true})
}

/** The oracle that finds a planted fault, with profile and seed; `undefined` if none does. */
async function finderOf(copy: Copy, mutant: Mutant): Promise<string | undefined> {
  const planted = plantFault(sources, mutant)
  await copy.plant(planted)
  try {
    for (const profiles of profilesFor(planted.path)) {
      for await (const {profile, seed, oracle} of copy.play(profiles, ['--seeds', values.seeds])) {
        if (!(await sound.reports(profile, seed, oracle))) return `${oracle} (${profile} ${seed})`
      }
    }
    return undefined
  } finally {
    await copy.restore()
  }
}

async function readFound(): Promise<[string, string][]> {
  const text = await readFile(FOUND, 'utf8').catch(() => '[]')
  return JSON.parse(text)
}

function nameOf({inside, what}: Mutant): string {
  return `${inside}: ${what}`
}

async function* each<T>(elements: Iterable<T>): AsyncGenerator<T, void> {
  yield* elements
}
