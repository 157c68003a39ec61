import {PassThrough} from 'node:stream'
import {expect, it} from 'vitest'
import {changeWithProgress} from '../../../src/lib/cli/limits/run.js'
import {parseLimit} from '../../../src/lib/core/limits/limit-text.js'
import {NamespaceRepository} from '../../../src/lib/repository/repository.js'
import {describeOnEngine, useTable} from '../../helpers/table.js'
import {newTenant, putBucket} from '../../repository/namespace-table.js'

const terminal = (isTTY: boolean) => Object.assign(new PassThrough(), {isTTY, columns: 80})

describeOnEngine('a change of limits', () => {
  const table = useTable()
  const system = {level: 'system'} as const
  const [before, after] = [parseLimit('rpm=100/min'), parseLimit('rpm=5/min')]

  const populated = async () => {
    const tenant = newTenant(table)
    const namespace = new NamespaceRepository(tenant, undefined)
    await namespace.configs.set(system, [before])
    for (let at = 0; at < 30; at++) await putBucket(tenant, {entity: `user-${at}`, resource: 'gpt-4', limits: [before]})
    return {tenant, namespace}
  }

  it.each([true, false])('counts the live buckets it updated, on a terminal only (%s)', async isTTY => {
    const {namespace} = await populated()
    const stream = terminal(isTTY)
    const change = await changeWithProgress(sync => namespace.setLimits(system, [after], sync), stream)
    expect(change.buckets).toEqual({checked: 30, updated: 30, failed: 0})
    const shown = String(stream.read() ?? '')
    expect(shown.includes('Live buckets updated  30')).toBe(isTTY)
    expect(shown.endsWith('\u001b[2K')).toBe(isTTY)
  })

  it('is made even when Ctrl-C interrupts the update of live buckets', async () => {
    const {namespace, tenant} = await populated()
    let isPressed = false
    tenant.transport.before = operation => {
      if (operation !== 'UpdateItem' || isPressed) return
      isPressed = true // a second one would end this process
      process.emit('SIGINT')
    }
    const stopped = changeWithProgress(sync => namespace.setLimits(system, [after], sync), terminal(false))
    await expect(stopped).rejects.toMatchObject({
      code: 'limits.interrupted',
      kind: 'interrupted',
      message: expect.stringMatching(/^Interrupted\. The change is stored, and \d+ live buckets are updated\./),
    })
    expect((await namespace.configs.get(system))?.limits).toEqual([after])
  })
})
