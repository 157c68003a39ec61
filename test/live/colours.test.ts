import {afterAll, expect, inject, it, vi} from 'vitest'
import {openStack} from '../../src/lib/cli/base/context.js'
import {findSettings} from '../../src/lib/cli/base/settings.js'
import {parseLimits} from '../../src/lib/core/limits/limit-text.js'
import {bucketActions} from '../../src/lib/live/actions/actions.js'
import {whySource} from '../../src/lib/live/run.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {newTenant, putBucket} from '../repository/namespace-table.js'

// A terminal with colours, whatever this test runs in.
vi.mock('@oclif/core/ux', () => ({colorize: (_: string, text: string) => `\u001b[2m${text}\u001b[0m`}))

// Modules that were first loaded here keep the mock, and the next files of this process would share them.
afterAll(() => {
  vi.resetModules()
})

describeOnEngine('on a terminal with colours', () => {
  const table = useTable()

  it('removes the colours of command texts before the live view shows them', async () => {
    const flags = {stack: table.name, namespace: 'default', 'endpoint-url': inject('engineEndpoint')}
    await using stack = await openStack(flags, {})
    await stack.repository.namespaces.register('default')
    const namespace = await stack.namespace()
    const limits = parseLimits(['rpm=100'])
    await namespace.setLimits({level: 'system'}, limits)
    await putBucket({...newTenant(table), namespace: namespace.id}, {entity: 'ada', resource: 'r', limits, consumed: 5})
    const {signal} = new AbortController()
    const {settings} = await findSettings({flags, env: {}, folder: '/', configDir: '/nowhere'})
    const target = {entity: 'ada', resource: 'r', limit: 'rpm', isDisabled: false, refusingParents: []}
    const {lines, perform} = await bucketActions(stack, settings, signal).ask('boost', target, 'rpm=200 --for 1h')
    const why = await whySource(namespace, stack.table, '')(target, signal)
    const texts = [...why, ...lines, ...(await perform())]
    expect(texts.join('\n')).toMatch(/level +[\s\S]*rpm +100\/min → 200\/min/)
    for (const text of texts) expect(text).toMatch(/^\P{Cc}*$/u)
  })
})
