import {spawn} from 'node:child_process'
import {cp, mkdtemp, readFile, rm, symlink, writeFile} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {fileURLToPath} from 'node:url'
import {parseArgs} from 'node:util'
import {MUTANTS, type Mutant} from './mutants.js'

/**
 * `npm run mutate [-- --seeds 12] [--from 0] [--count 10]`: plants faults in a copy of the sources, one at a time, and plays
 * seeds of every profile. A fault is found when runs break a promise that they keep without it.
 */
const {values} = parseArgs({
  options: {
    seeds: {type: 'string', default: '12'},
    from: {type: 'string', default: '0'},
    count: {type: 'string', default: String(MUTANTS.length)},
  },
})

/** Other timing alone may show a known fault at another seed: so many are no proof. */
const MOST_BY_CHANCE = 3

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))
const folder = await mkdtemp(join(tmpdir(), 'zael-mutants-'))
try {
  for (const name of ['src', 'test', 'templates', 'package.json', 'tsconfig.json'])
    await cp(join(ROOT, name), join(folder, name), {recursive: true})
  await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  const sound = await play()
  const chosen = MUTANTS.slice(Number(values.from), Number(values.from) + Number(values.count))
  let found = 0
  for (const mutant of chosen) if (await isFound(mutant, sound)) found++
  console.log(`${found} of ${chosen.length} planted faults found`)
  process.exitCode = found === chosen.length ? 0 : 1
} finally {
  await rm(folder, {recursive: true, force: true})
}

async function isFound(mutant: Mutant, sound: ReadonlySet<string>): Promise<boolean> {
  const path = join(folder, 'src/lib', mutant.file)
  const text = await readFile(path, 'utf8')
  const name = `${mutant.file}: ${mutant.what}`
  if (!text.includes(mutant.from)) {
    console.log(`gone   ${name}`)
    return false
  }
  await writeFile(
    path,
    text.replace(mutant.from, () => mutant.to),
  )
  try {
    const broken = [...(await play())].filter(each => !sound.has(each))
    const kinds = new Set([...sound].map(kindOf))
    const isNew = broken.length > MOST_BY_CHANCE || broken.some(each => !kinds.has(kindOf(each)))
    const oracles = [...new Set(broken.map(each => each.split(' ')[2]))].join(', ')
    console.log(`${isNew ? 'found ' : 'MISSED'} ${name} (${broken.length} violations: ${oracles})`)
    return isNew
  } finally {
    await writeFile(path, text)
  }
}

/** Profile and oracle. */
function kindOf(violation: string): string {
  return violation.replace(/ \d+ /, ' ')
}

/** What seeds of all profiles report: `profile seed oracle` each. */
async function play(): Promise<ReadonlySet<string>> {
  const args = ['--import', 'tsx', 'test/simulation/main.ts', '--seeds', values.seeds, '--list']
  const child = spawn(process.execPath, args, {cwd: folder, stdio: ['ignore', 'pipe', 'inherit']})
  let output = ''
  for await (const chunk of child.stdout) output += chunk
  return new Set(output.split('\n').filter(line => line !== ''))
}
