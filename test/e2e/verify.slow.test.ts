import {beforeAll, expect, it} from 'vitest'
import {keys} from '../../src/lib/schema/keys.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {VerifyScene} from '../insight/verify/scene.js'
import {tableCli} from './table-cli.js'

describeOnEngine('zael verify', () => {
  const table = useTable()
  const cli = tableCli(table)
  let scene: VerifyScene

  beforeAll(async () => {
    scene = await VerifyScene.open(table)
  })

  const masked = (text: string) => text.replaceAll(scene.table.namespace, 'NS').replaceAll(table.name, 'STACK')

  it('finds no problem and exits with 0', async () => {
    expect(masked(await cli.show('verify', 80))).toMatch(/^\d+ items of stack "STACK": no findings\n$/)
    expect(await cli.tell('verify')).toMatchObject({clean: true, findings: [], count: 0, repaired: 0})
  })

  it('names inconsistencies, exits with 6, and repairs them with --fix', async () => {
    const ofParent = keys.bucket(scene.table.namespace, 'user-1', 'gpt-4', 0)
    await scene.change(ofParent, {parent_id: {S: 'team-\u001b[31m2'}})
    const found = await cli.run('verify --entity user-1')
    expect(found.code).toBe(6)
    expect(masked(found.stdout).replaceAll(/\d{4}-\S+Z/g, 'T')).toMatchInlineSnapshot(`
      "8 items of stack "STACK", entity user-1: 1 finding

      parent  a parent that is missing or differs
        NS/BUCKET#user-1#gpt-4#0 #STATE
          The bucket has parent team-\\x1b[31m2; its entity has parent team-1. (repairable, last written T)

      Next:
        zael verify -s STACK --fix  repair the repairable findings, after confirmation
      "
    `)
    expect(await cli.run('verify --json').then(({code, stdout}) => [code, JSON.parse(stdout).count])).toEqual([6, 1])

    // Without a terminal and without --yes nothing is changed.
    expect(await cli.fail('verify --fix')).toMatchObject({code: 2, error: {code: 'confirm.needed'}})
    expect(await scene.get(ofParent)).toMatchObject({parent_id: {S: 'team-\u001b[31m2'}})

    expect(await cli.tell('verify --fix --yes')).toMatchObject({
      clean: true,
      repaired: 1,
      findings: [{kind: 'parent', entity: 'user-1', outcome: 'repaired'}],
    })
    expect(await scene.get(ofParent)).toMatchObject({parent_id: {S: 'team-1'}})
    const {events} = await cli.tell('audit list user-1 --action verify_repaired --since 1h')
    expect(events).toMatchObject([{resource: 'gpt-4', details: {kind: 'parent'}}])
  })

  it('refuses bad input', async () => {
    expect(await cli.fail('verify --cursor nonsense')).toMatchObject({code: 2, error: {code: 'page.cursor'}})
    expect(await cli.fail('verify --rate-limit 0')).toMatchObject({code: 2})
    expect(await cli.fail('verify --yes')).toMatchObject({code: 2})
    expect(await cli.fail('verify --since yesterday')).toMatchObject({code: 2})
  })
})
