import {mkdtemp, readFile, rm, writeFile} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {afterAll, beforeAll, describe, expect, it} from 'vitest'
import {ROOT, zael} from '../../e2e/zael.js'

interface Described {
  readonly args: Record<string, {readonly required?: boolean; readonly options?: readonly string[]}>
  readonly flags: Record<string, {readonly required?: boolean; readonly type: string}>
}

const {commands}: {commands: Record<string, Described>} = JSON.parse(
  await readFile(join(ROOT, 'oclif.manifest.json'), 'utf8'),
)

/** Commands that read no table, or whose findings include the stack. */
const OTHERS = ['config:show', 'deploy', 'doctor']

const MORE: Readonly<Record<string, string>> = {
  acquire: 'rpm=1',
  'bucket:list': '--resource r',
  'bucket:reset': '--resource r --yes',
  'limits:get': '--system',
  'limits:impact': '--system',
  'limits:set': '--system rpm=1',
  'limits:unset': '--system rpm',
  'migrate:resolve': 'KEY --keep old',
  'namespace:set': '--levels all',
  'usage:show': 'e',
  delete: '--confirm local',
}

const VALUES: Readonly<Record<string, string>> = {amounts: 'rpm=1', limits: 'rpm=1'}

describe('every command on a local stack that is not running', () => {
  let folder = ''

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'zael-down-'))
    await writeFile(join(folder, 'x.csv'), 'id\ne1\n')
    await writeFile(join(folder, 'x.yaml'), 'namespace: default\nsystem: {limits: {rpm: 1}}\n')
  })
  afterAll(() => rm(folder, {recursive: true}))

  const ids = Object.keys(commands).filter(id => 'stack' in (commands[id]?.flags ?? {}) && !OTHERS.includes(id))

  it.each(ids)('exits with 6 and names the folder: %s', async id => {
    const {args = {}, flags = {}} = commands[id] ?? {}
    const given = Object.entries(args).flatMap(([name, {required, options}]) =>
      required ? [name === 'file' ? join(folder, 'x.csv') : (options?.[0] ?? VALUES[name] ?? 'x')] : [],
    )
    const file = flags.file?.required ? ['--file', join(folder, 'x.yaml')] : []
    const words = [...id.split(':'), ...given, ...file, ...(MORE[id]?.split(' ') ?? [])]
    const env = {XDG_DATA_HOME: folder}
    const {code, stdout} = await zael([...words, '--stack', 'local', '--json'], {env})
    expect([code, JSON.parse(stdout).error]).toEqual([
      6,
      expect.objectContaining({
        code: 'local.not-running',
        message: `The local stack is not running (looked in ${join(folder, 'zael', 'local')}).`,
      }),
    ])
  })

  it.each(['deploy --stack prod', 'status --stack prod', 'entity list --stack prod'])(
    'explains that variables of a stopped stack are left in the shell: %s',
    async command => {
      const endpoint = 'http://127.0.0.1:1'
      const own = {AWS_ENDPOINT_URL_DYNAMODB: endpoint, AWS_ACCESS_KEY_ID: 'local', AWS_SECRET_ACCESS_KEY: 'local'}
      const env = {...own, ZAEL_STACK: 'local', AWS_REGION: 'us-east-1', XDG_DATA_HOME: folder}
      const hintOf = async (flags: string, more: object = {}) => {
        const {stdout} = await zael([...`${command}${flags} --json`.split(' ')], {env: {...env, ...more}})
        return JSON.parse(stdout).error.hint
      }
      const names = 'ZAEL_STACK AWS_ENDPOINT_URL_DYNAMODB AWS_REGION AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY'
      expect(await hintOf('')).toBe(
        `AWS_ENDPOINT_URL_DYNAMODB names a local stack that is not running. To start it: zael local up. To use AWS instead: unset ${names}`,
      )
      expect(await hintOf(' --endpoint-url http://127.0.0.1:2')).toContain('Check the network')
      expect(await hintOf('', {AWS_ACCESS_KEY_ID: 'AKIA'})).toContain('Check the network')
    },
  )

  it('includes `local env`, which ZAEL_DATA_DIR points to another folder', async () => {
    const env = {HOME: folder, ZAEL_DATA_DIR: join(folder, 'other')}
    const {code, stderr} = await zael(['local', 'env'], {env})
    expect(code).toBe(6)
    expect(stderr).toContain(`(looked in ${join(folder, 'other', 'local')})`)
    expect(stderr).toContain('set ZAEL_DATA_DIR to the folder of a running stack')
  })
})
