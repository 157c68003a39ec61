import {beforeAll, expect, it} from 'vitest'
import {encodeEntityId} from '../../src/lib/core/encoded-name.js'
import {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import {Repository} from '../../src/lib/repository/repository.js'
import {encodeResourceName} from '../../src/lib/schema/hashed-name.js'
import {tableCli} from '../e2e/table-cli.js'
import {describeOnEngine, useTable} from '../helpers/table.js'

const MODEL = 'claude-3-5-sonnet@20240620'
const LONG = 'bedrock/ap-northeast-1/1-month-commitment/anthropic.claude-instant-v1'

describeOnEngine('encoded names on the command line', () => {
  const table = useTable()
  const cli = tableCli(table)

  beforeAll(async () => {
    await new Repository({stack: table.name, transport: table.transport}).namespaces.register('default')
    for (const resource of [MODEL, LONG]) await cli.tell(`limits set --resource ${resource} rpm=5/min --yes`)
    await using limiter = new RateLimiter({stack: table.name, transport: table.transport})
    for (const entity of ['::1', 'auth0|123', 'user 1']) {
      for (const resource of [MODEL, LONG].map(encodeResourceName))
        await limiter.acquire({entity: encodeEntityId(entity), resource, consume: {rpm: 1}})
    }
  })

  it('are shown decoded in tables and sentences, and as stored in JSON', async () => {
    expect(await cli.show('limits list', 120)).toMatch(/^resource +- +claude-3-5-sonnet@20240620 +rpm=5\/min$/m)
    const buckets = await cli.show(`bucket list --resource ${MODEL}`, 120)
    expect(buckets).toMatch(/^::1 /m)
    expect(buckets).toMatch(/^auth0\|123 /m)
    // Several words could be mistaken for columns.
    expect(buckets).toMatch(/^x--user__201 /m)
    expect(await cli.show('bucket show ::1', 120)).toMatch(/^Buckets of ::1\n(?:.*\n)*claude-3-5-sonnet@20240620 /m)
    expect(await cli.tell('bucket show ::1')).toMatchObject({entity: 'x--::1'})
    expect((await cli.run(`bucket list --resource ${MODEL} --output csv`)).stdout).toMatch(/^::1,/m)
    const {stderr} = await cli.run('bucket show ::2')
    expect(stderr).toContain('Entity "::2" does not exist.')
  })

  it.each(['::1', 'x--::1'])('are accepted as shown and as stored: %s', async entity => {
    const bucket = {entity: 'x--::1', resource: 'x--claude-3-5-sonnet__4020240620'}
    for (const resource of [MODEL, bucket.resource]) {
      expect(JSON.parse((await cli.run(`acquire ${entity} ${resource} rpm=1 --json`)).stdout)).toMatchObject(bucket)
      expect(await cli.run(`why ${entity} ${resource} rpm=9`)).toMatchObject({
        stdout: expect.stringMatching(/^::1, claude-3-5-sonnet@20240620: .*zael limits set --entity ::1 /s),
      })
      expect(await cli.tell(`limits resolve ${entity} ${resource}`)).toMatchObject(bucket)
    }
    expect(await cli.tell(`entity disable ${entity}`)).toMatchObject({scope: {entity: bucket.entity}})
    expect(await cli.tell(`entity enable ${entity}`)).toMatchObject({scope: {entity: bucket.entity}})
  })

  it('are shown decoded in the audit log, and accepted there in both forms', async () => {
    const stored = `$RESOURCE:${encodeResourceName(MODEL)}`
    expect(await cli.show('audit list', 200)).toMatch(/ \$RESOURCE:claude-3-5-sonnet@20240620 +claude-3-5-sonnet@/)
    for (const subject of [`$RESOURCE:${MODEL}`, stored])
      expect(await cli.tell(`audit list ${subject}`)).toMatchObject({events: [{entity: stored, action: 'limits_set'}]})
    expect(await cli.tell(`audit list $RESOURCE:${LONG}`)).toMatchObject({events: [{action: 'limits_set'}]})
  })

  it('are accepted in full if they are hashed', async () => {
    const {resource} = await cli.tell(`limits get --resource ${LONG}`)
    expect(resource).toMatch(/^h--.{22}-commitment\/anthropic.claude-instant-v1$/)
    expect(await cli.tell(`limits get --resource ${resource}`)).toMatchObject({resource})
  })

  it('do not make other names valid', async () => {
    for (const name of ["'user 1'", 'a#b', '$SYSTEM', '_default_', "'x;y'"])
      expect(await cli.fail(`limits set --resource ${name} rpm=1/min --yes`)).toMatchObject({
        code: 2,
        error: {code: 'name.invalid'},
      })
  })
})
