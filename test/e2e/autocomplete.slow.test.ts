import {expect, inject, it} from 'vitest'
import {Repository} from '../../src/lib/repository/repository.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {BIN, run, zael} from './zael.js'

/** Candidates of bash for a line, after `zael autocomplete`. */
async function offeredByBash(line: string, env: Record<string, string> = {}): Promise<string[]> {
  const script = `
    zael() { "${process.execPath}" "${BIN}" "$@"; }
    eval "$(zael autocomplete bash)"
    COMP_LINE='${line}'; COMP_POINT=\${#COMP_LINE}
    _zael_complete zael '${line.split(' ').at(-1)}'
    printf '%s\\n' "\${COMPREPLY[@]}"`
  const {stdout} = await run('bash', ['-c', script], {env})
  return stdout.trimEnd().split('\n')
}

describeOnEngine('zael autocomplete', () => {
  const table = useTable()

  it('completes commands, flags and values in bash', async () => {
    expect(await offeredByBash('zael local ')).toEqual(['down', 'env', 'logs', 'status', 'up'])
    expect(await offeredByBash('zael local up --en')).toEqual(['--engine'])
    expect(await offeredByBash('zael local up --engine dyno')).toEqual(['dynoxide'])
  })

  it('C-36 completes the names of entities', async () => {
    const place = `--stack ${table.name} --endpoint-url ${inject('engineEndpoint')}`
    await zael(['namespace', 'create', 'default', ...place.split(' ')])
    for (const id of ['ada', 'adele', 'ben']) await zael(['entity', 'create', id, ...place.split(' ')])
    // A slow completion offers nothing, so a busy machine needs another try.
    await expect.poll(() => offeredByBash(`zael entity show ${place} ad`)).toEqual(['ada', 'adele'])
  })

  it('finds a name after the first 200', async () => {
    const place = ['--stack', table.name, '--endpoint-url', inject('engineEndpoint')]
    await zael(['namespace', 'create', 'many', ...place])
    const {entities} = await new Repository({stack: table.name, transport: table.transport}).namespace('many')
    const ids = [...Array.from({length: 200}, (_, at) => `a${at}`), 'zoe']
    await Promise.all(ids.map(id => entities.create({id})))
    const offered = async () => (await zael(['__complete', 'entity', 'show', '-n', 'many', ...place, 'z'])).stdout
    await expect.poll(offered).toBe('zoe\n')
  })

  it('offers deleted namespaces only where they apply, and ids with @ and :', async () => {
    const place = ['--stack', table.name, '--endpoint-url', inject('engineEndpoint')]
    await zael(['namespace', 'create', 'gone', ...place])
    await zael(['namespace', 'delete', 'gone', '--yes', ...place])
    const [{id}] = JSON.parse((await zael(['namespace', 'orphans', ...place, '--json'])).stdout).namespaces
    const offered = async (...line: string[]) => (await zael(['__complete', ...line])).stdout
    // Late lookups offer nothing: a busy machine needs another try.
    await expect.poll(() => offered('namespace', 'purge', ...place, '')).toContain(id)
    expect(await offered('namespace', 'show', ...place, '')).not.toContain(id)
    await zael(['entity', 'create', 'user:1@example.org', ...place])
    await expect.poll(() => offered('entity', 'show', ...place, 'user:1@')).toContain('user:1@example.org')
  })

  it('offers encoded names as commands show them, and as stored where that is typed', async () => {
    const place = ['--stack', table.name, '--endpoint-url', inject('engineEndpoint')]
    await zael(['namespace', 'create', 'encoded', ...place])
    const here = [...place, '-n', 'encoded']
    for (const id of ['::1', 'auth0|1', 'auth0|2', 'auth-1']) await zael(['entity', 'create', id, ...here])
    await zael(['limits', 'set', '--resource', 'claude@1', 'rpm=1/min', '--yes', ...here])
    const offered = async (...line: string[]) => (await zael(['__complete', ...line])).stdout
    const entities = (typed: string) => offered('entity', 'show', ...here, typed)
    await expect.poll(() => entities('')).toBe('auth-1\n::1\nauth0|1\nauth0|2\n')
    await expect.poll(() => entities('auth')).toBe('auth-1\nauth0|1\nauth0|2\n')
    await expect.poll(() => entities(':')).toBe('::1\n')
    await expect.poll(() => entities('x--a')).toBe('x--auth0__7c1\nx--auth0__7c2\n')
    await expect.poll(() => offered('limits', 'get', ...here, '--resource', 'cl')).toBe('claude@1\n')
    await expect
      .poll(() => offeredByBash(`zael entity show ${here.join(' ')} auth0`))
      .toEqual(['auth0\\|1', 'auth0\\|2'])
  })

  it('offers and prints nothing when the stack is unavailable', async () => {
    const {stdout, stderr, code} = await zael(['__complete', 'entity', 'show', '--endpoint-url=http://127.0.0.1:1', ''])
    expect({stdout, stderr, code}).toEqual({stdout: '', stderr: '', code: 0})
  })

  it('refuses an unknown shell', async () => {
    const {code, stderr} = await zael(['autocomplete', 'tcsh'])
    expect(code).toBe(2)
    expect(stderr).toContain('bash')
    expect((await zael(['autocomplete'])).code).toBe(2)
  })
})
