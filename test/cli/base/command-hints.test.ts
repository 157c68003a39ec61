import {expect, it} from 'vitest'
import {asFailure} from '../../../src/lib/cli/base/failure.js'
import {withCommandHint} from '../../../src/lib/cli/base/hints.js'
import {ZaelError} from '../../../src/lib/core/errors.js'
import {RequestTooLarge, unknownLimit} from '../../../src/lib/limiter/refusal/errors.js'
import {entityExists} from '../../../src/lib/repository/entities/lineage.js'
import {missing, nothingApplies} from '../../../src/lib/repository/limits/checks.js'
import {namespaceNameTaken, namespaceState} from '../../../src/lib/repository/namespaces/errors.js'
import {needsMigration} from '../../../src/lib/repository/table/version-compatibility.js'
import {readSources} from '../../helpers/sources.js'

const record = {id: 'n1', name: 'acme', status: 'active', createdAt: '', deletedAt: undefined} as const

it.each([
  [new RequestTooLarge('e', 'r', 'rpm', 9, 5), 'zael why e r rpm=9'],
  [new RequestTooLarge("o'hara", 'r', 'rpm', 9, 5), `zael why 'o'\\''hara' r rpm=9`],
  [unknownLimit('e', 'r', ['rmp'], ['rpm']), 'Did you mean "rpm"? See zael limits resolve e r'],
  [nothingApplies('e', 'r'), 'zael limits set --entity e --resource r rpm=100/min'],
  [missing({level: 'system'}), 'zael limits list'],
  [
    missing({level: 'system'}, 'rmp', [{name: 'rpm', capacity: 1, refillAmount: 1, refillPeriodSeconds: 60}]),
    'It has rpm.',
  ],
  [namespaceState(record, 'is active', 'delete'), 'zael namespace delete acme'],
  [namespaceState(record, 'is already deleted', 'purge'), 'zael namespace purge n1'],
  [namespaceState({...record, name: 'my team'}, 'is active', 'delete'), "`zael namespace delete 'my team'`"],
  [namespaceState({...record, id: 'a;b'}, 'is already deleted', 'purge'), "`zael namespace purge 'a;b'`"],
  [namespaceState({...record, id: 'a;b'}, 'is half purged', 'finish purge'), "`zael namespace purge 'a;b'`"],
  [
    namespaceNameTaken({...record, id: 'a;b', name: "o'hara"}, 'n2'),
    `\`zael namespace delete 'o'\\''hara'\`, then recover 'a;b'.`,
  ],
  [namespaceState(record, 'is active', 'none'), 'Nothing to recover.'],
  [entityExists('user-1'), 'zael entity update user-1'],
  [needsMigration('0.9.0'), 'zael migrate run'],
])('adds the command that helps to an error: %s', (error, command) => {
  const result = asFailure(error)
  expect(result.hint).toContain(command)
  expect(result).toMatchObject({code: error.code, kind: error.kind, message: error.message, details: error.details})
})

it('keeps the nearest names, and unknown errors', () => {
  const near = new ZaelError('notFound', 'entity.missing', 'x', {hint: 'Did you mean y?', details: {nearest: ['y']}})
  const other = new ZaelError('failed', 'other', 'x', {hint: 'h'})
  for (const error of [near, other]) expect(withCommandHint(error)).toBe(error)
})

it('names no commands in errors of the library', () => {
  const commands =
    /zael (acquire|audit|bucket|deploy|doctor|entity|limits|list|local|migrate|namespace|status|usage|why)\b/
  const library = readSources().filter(({path}) =>
    /^src\/lib\/(core|schema|dynamo|repository|limiter|local\/testing)\//.test(path),
  )
  expect(library.length).toBeGreaterThan(50)
  const named = library.flatMap(({path, text}) =>
    text
      .split('\n')
      .filter(line => commands.test(line) && !/^\s*(\/\/|\*|\/\*\*)/.test(line))
      .map(line => `${path}: ${line.trim()}`),
  )
  expect(named).toEqual([])
})
