import {execFile} from 'node:child_process'
import {mkdir, mkdtemp, readFile, rm, writeFile} from 'node:fs/promises'
import {join} from 'node:path'
import {fileURLToPath} from 'node:url'
import {promisify} from 'node:util'
import {afterAll, beforeAll, expect, inject, it} from 'vitest'
import {Namespaces} from '../../src/lib/repository/namespaces/namespaces.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnEngine, PATIENT_MS, useTable} from '../helpers/table.js'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const run = promisify(execFile)

/** Declarations that the examples omit. */
const PRELUDE = 'const callModel = async () => ({tokens: 812})\n'

async function examples(file: string): Promise<string> {
  const text = await readFile(join(ROOT, file), 'utf8')
  return [...text.matchAll(/^```ts\n([\s\S]*?)^```/gm)].map(match => match[1]).join('\n')
}

it('stops the local stack in the last command that uses it', async () => {
  const text = await readFile(join(ROOT, 'README.md'), 'utf8')
  expect([...text.matchAll(/^\$ .*?zael local (\w+)/gm)].map(([, command]) => command)).toEqual([
    'up',
    'env',
    'status',
    'down',
  ])
})

describeOnEngine('the library example of the README', () => {
  const table = useTable()
  let folder: string
  beforeAll(async () => {
    await new Namespaces(new Scene(table).tenant).register('default')
    // Inside the package, so that `zael` is found by its own name, as it is in a project that has it installed.
    await mkdir(join(ROOT, '.cache'), {recursive: true})
    folder = await mkdtemp(join(ROOT, '.cache', 'readme-'))
    // So slow that nothing to be seen comes back while it runs.
    const code = (await examples('README.md'))
      .replaceAll("'prod'", `'${table.name}', timeoutMs: ${PATIENT_MS}`)
      .replaceAll('/min', '/day')
    await writeFile(join(folder, 'example.ts'), PRELUDE + code)
    const settings = {extends: '../../tsconfig.json', compilerOptions: {rootDir: '../..'}, include: ['example.ts']}
    await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(settings))
  })
  afterAll(() => rm(folder, {recursive: true}))

  it('compiles', async () => {
    const tsc = join(ROOT, 'node_modules', '.bin', 'tsc')
    await expect(run(tsc, ['--noEmit', '-p', folder]).catch(error => error.stdout)).resolves.toMatchObject({stdout: ''})
  })

  it('runs, and prints the remaining balance', async () => {
    const {PATH} = process.env
    const env = {
      PATH,
      AWS_ENDPOINT_URL_DYNAMODB: inject('engineEndpoint'),
      AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED: 'true',
    }
    const {stdout, stderr} = await run(process.execPath, ['--import', 'tsx', join(folder, 'example.ts')], {
      cwd: ROOT,
      env,
    })
    expect(stderr).toBe('')
    expect(stdout).toMatch(/^\{ rpm: 59, tpm: 99\d{3} \}\n$/)
  })
})
