import {expect, it} from 'vitest'
import {Repository} from '../../../src/lib/repository/repository.js'
import {type Item, n, s} from '../../../src/lib/schema/attribute-value.js'
import {describeOnEngine} from '../../helpers/table.js'
import {useOldTable} from '../old-table-scene.js'

const single = (limit: string, resource: string): Item => ({
  PK: s(`RESOURCE#${resource}`),
  SK: s(`#LIMIT#${limit}`),
  resource: s(resource),
  limit_name: s(limit),
  capacity: n(10),
  burst: n(10),
  refill_amount: n(10),
  refill_period_seconds: n(60),
})

const whole = (PK: string, limits: Readonly<Record<string, number>>, rest: Item = {}): Item => ({
  PK: s(PK),
  SK: s('#CONFIG'),
  ...rest,
  ...Object.fromEntries(
    Object.entries(limits).flatMap(([name, capacity]) => [
      [`l_${name}_cp`, n(capacity)],
      [`l_${name}_ra`, n(capacity)],
      [`l_${name}_rp`, n(60)],
    ]),
  ),
})

describeOnEngine('a limit that was removed in a newer layout', () => {
  const scene = useOldTable(4, () => [
    ...['rpm', 'tpm'].flatMap(limit => [single(limit, 'gpt-4'), single(limit, 'db')]),
    whole('RESOURCE#gpt-4', {rpm: 500}, {config_version: n(1)}),
    // All its limits were removed.
    whole('RESOURCE#empty', {}, {config_version: n(1)}),
    single('rpm', 'empty'),
    // A newer item with all limits, and one with only a setting (D-30).
    whole('SYSTEM#', {rpm: 7, tpm: 8}, {config_version: n(1), on_unavailable: s('allow')}),
    {PK: s('default/SYSTEM#'), SK: s('#CONFIG'), audit_retention_days: n(30)},
    whole('RESOURCE#twice', {rpm: 1, tpm: 2}, {config_version: n(1)}),
    whole('default/RESOURCE#twice', {tpm: 3}, {config_version: n(1)}),
  ])

  it('stays removed', async () => {
    await scene.migrate()
    const repository = new Repository({stack: scene.name, transport: scene.own, clock: () => scene.nowMs})
    const {configs} = await repository.namespace('default')
    const capacities = async (resource: string) =>
      Object.fromEntries(
        ((await configs.get({level: 'resource', resource}))?.limits ?? []).map(({name, capacity}) => [name, capacity]),
      )
    expect(await capacities('gpt-4')).toEqual({rpm: 500})
    expect(await capacities('db')).toEqual({rpm: 10, tpm: 10})
    expect(await capacities('empty')).toEqual({})
    expect(await capacities('twice')).toEqual({tpm: 3})
    const system = await configs.get({level: 'system'})
    expect(system).toMatchObject({onUnavailable: 'allow', auditRetentionDays: 30})
    expect(system?.limits.map(({name}) => name)).toEqual(['rpm', 'tpm'])
    expect((await scene.verify()).differences.shown).toEqual([])
  })
})

describeOnEngine('settings of the system level next to its single limits', () => {
  const scene = useOldTable(2, () => [
    {...single('rpm', 'gpt-4'), PK: s('SYSTEM#')},
    whole('SYSTEM#', {}, {config_version: n(1), on_unavailable: s('allow')}),
  ])

  it('remove no limit', async () => {
    await scene.migrate()
    const repository = new Repository({stack: scene.name, transport: scene.own, clock: () => scene.nowMs})
    expect(await (await repository.namespace('default')).configs.get({level: 'system'})).toMatchObject({
      onUnavailable: 'allow',
      limits: [{name: 'rpm', capacity: 10}],
    })
  })
})
