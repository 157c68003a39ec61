import {describe, expect, it} from 'vitest'
import {isSameManaged, type Managed} from '../../src/lib/schema/provisioner-record.js'

const names = (count: number) => Array.from({length: count}, (_, at) => `r-${at}`)

const managed = (entities: Record<string, readonly string[]>, rest: Partial<Managed> = {}): Managed => ({
  managesSystem: false,
  resources: [],
  ...rest,
  entities: new Map(Object.entries(entities)),
})

describe('two records', () => {
  it.each<[string, Managed, Managed]>([
    ['in another order', managed({a: ['x', 'y'], b: ['z']}), managed({b: ['z'], a: ['y', 'x']})],
    ['with repetitions', managed({a: ['x']}, {resources: ['r']}), managed({a: ['x', 'x']}, {resources: ['r', 'r']})],
    ['with an entity that has no resource', managed({a: ['x']}), managed({a: ['x'], b: []})],
    ['with many resources', managed({a: names(50)}), managed({a: names(50).reverse()})],
  ])('manage the same, %s', (_, a, b) => {
    expect([isSameManaged(a, b), isSameManaged(b, a)]).toEqual([true, true])
  })

  it.each<[string, Managed, Managed]>([
    ['the system', managed({}), managed({}, {managesSystem: true})],
    ['a resource', managed({}, {resources: ['r']}), managed({}, {resources: ['r', 's']})],
    ['an entity', managed({a: ['x']}), managed({a: ['x'], b: ['x']})],
    ['a resource of an entity', managed({a: ['x']}), managed({a: ['x', 'y']})],
    ['one of many', managed({a: names(50)}), managed({a: names(51)})],
    ['an entity, and have as many', managed({a: ['x']}), managed({b: ['x']})],
  ])('differ by %s', (_, a, b) => {
    expect([isSameManaged(a, b), isSameManaged(b, a)]).toEqual([false, false])
  })
})
