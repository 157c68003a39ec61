import {mkdtemp, rm} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {afterAll, afterEach, beforeAll, expect, inject, it, vi} from 'vitest'
import {openStack} from '../../../src/lib/cli/base/context.js'
import {withLocalHint} from '../../../src/lib/cli/base/hints.js'
import {ZaelError} from '../../../src/lib/core/errors.js'
import {bringDown} from '../../../src/lib/local/down.js'
import {findStateDir} from '../../../src/lib/local/state-dir/state.js'
import {bringUp} from '../../../src/lib/local/up.js'
import {Namespaces} from '../../../src/lib/repository/namespaces/namespaces.js'
import {Scene} from '../../helpers/limiter.js'
import {describeOnEngine, useTable} from '../../helpers/table.js'

let folder = ''

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'zael-test-'))
})

afterAll(async () => {
  await rm(folder, {recursive: true})
})

afterEach(() => vi.unstubAllEnvs())

/** An environment with everything in it that could lead astray. */
const misleading = () => ({
  XDG_DATA_HOME: folder,
  AWS_PROFILE: 'no-such-profile',
  AWS_REGION: 'mars-1',
  AWS_ENDPOINT_URL_DYNAMODB: 'http://127.0.0.1:1',
})

const flags = {stack: 'local', namespace: 'default'}

it('names the command that starts the local stack when it is not running', async () => {
  await expect(openStack(flags, misleading())).rejects.toMatchObject({
    code: 'local.not-running',
    kind: 'negative',
    hint: expect.stringMatching(/^zael local up/),
  })
})

describeOnEngine('a stack selected by flags', () => {
  const table = useTable()

  it('is found at the given endpoint, whatever its name', async () => {
    await new Namespaces(new Scene(table).tenant).register('default')
    const named = {stack: table.name, namespace: 'default', 'endpoint-url': inject('engineEndpoint')}
    await using context = await openStack(named, {})
    expect(context.table.name).toBe(table.name)
    expect((await context.repository.namespaces.list()).map(({name}) => name)).toEqual(['default'])
    await (await context.namespace()).entities.create({id: 'team-1'})

    await using elsewhere = await openStack({...named, namespace: 'nowhere'}, {})
    await expect(elsewhere.namespace()).rejects.toMatchObject({kind: 'notFound'})
  })

  it('resolves "local" to the running local stack, without credentials or region', async () => {
    const home = findStateDir(misleading())
    const options = {inMemory: true, reset: false, aggregator: false, version: '0.0.0'}
    const {state} = await bringUp(home, options)
    try {
      await using context = await openStack(flags, misleading())
      expect((await context.repository.namespaces.list()).map(({name}) => name)).toEqual(['default'])
      expect(await bringUp(home, options)).toMatchObject({started: false, state: {pid: state.pid}})

      // While it runs, an error on the way to AWS names it, unless another stack was named.
      vi.stubEnv('XDG_DATA_HOME', folder)
      vi.stubEnv('ZAEL_DATA_DIR', undefined)
      const refused = new ZaelError('access', 'aws.credentials', 'No credentials.')
      const setting = {key: 'stack', value: 'zae-limiter', from: undefined} as const
      const endpointUrl = {...setting, key: 'endpointUrl', value: undefined, source: 'default'} as const
      const from = (source: 'default' | 'flag') => ({stack: {...setting, source}, endpointUrl})
      expect(await withLocalHint(refused, from('default'), {})).toMatchObject({
        code: 'aws.credentials',
        hint: expect.stringContaining('add --stack local'),
      })
      expect(await withLocalHint(refused, from('flag'), {})).toBe(refused)
    } finally {
      await bringDown(home, {purge: true})
    }
  })
})
