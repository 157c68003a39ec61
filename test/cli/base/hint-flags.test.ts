import {expect, it} from 'vitest'
import {withTypedFlags} from '../../../src/lib/cli/base/hints.js'
import type {Settings} from '../../../src/lib/cli/base/settings.js'

const FLAGS: Readonly<Record<string, readonly string[]>> = {
  'entity list': ['stack', 'namespace'],
  'limits resolve': ['stack', 'namespace'],
  'migrate run': ['stack'],
  why: ['stack', 'namespace'],
  deploy: ['stack'],
  list: ['region'],
}
const flagsOf = (id: string) => FLAGS[id] && new Set(FLAGS[id])

const setting = (value: string, source: 'flag' | 'environment') => ({value, source, from: undefined})
const settings = (stack: ReturnType<typeof setting>, namespace: ReturnType<typeof setting>) => {
  const nothing = {value: undefined, source: 'default', from: undefined}
  const rest = {region: nothing, profile: nothing, endpointUrl: nothing, output: setting('json', 'flag')}
  return {stack, namespace, ...rest} as unknown as Settings
}
const TYPED = settings(setting('prod', 'flag'), setting("o'x", 'flag'))

it.each([
  ['See `zael entity list`.', "See `zael entity list --stack prod --namespace 'o'\\''x'`."],
  ['See zael limits resolve e r', "See zael limits resolve e r --stack prod --namespace 'o'\\''x'"],
  [
    "the command for that: zael why 'a. B' r rpm=1",
    "the command for that: zael why 'a. B' r rpm=1 --stack prod --namespace 'o'\\''x'",
  ],
  ['Run `zael migrate run`; then go on.', 'Run `zael migrate run --stack prod`; then go on.'],
  ['Run it again: zael migrate run -s other. Then look.', 'Run it again: zael migrate run -s other. Then look.'],
  ['zael list, or zael deploy --stack x', 'zael list, or zael deploy --stack x'],
  ['zael migrate run, then zael deploy', 'zael migrate run --stack prod, then zael deploy --stack prod'],
  ['Run:\n  zael migrate run\n  aws x y', 'Run:\n  zael migrate run --stack prod\n  aws x y'],
  ['zael why --help', 'zael why --help'],
  ['A limiter of zael does it once. `zael local up`', 'A limiter of zael does it once. `zael local up`'],
  ['No command at all.', 'No command at all.'],
])('adds the typed flags that the command takes: %s', (hint, expected) => {
  expect(withTypedFlags(hint, TYPED, flagsOf)).toBe(expected)
  // Once is enough.
  expect(withTypedFlags(expected, TYPED, flagsOf)).toBe(expected)
})

it('does not add values from variables and files', () => {
  const typed = settings(setting('prod', 'environment'), setting('acme', 'flag'))
  expect(withTypedFlags('See `zael entity list`.', typed, flagsOf)).toBe('See `zael entity list --namespace acme`.')
})

it('adds region, profile and endpoint to AWS CLI commands, unless the AWS CLI finds them itself', () => {
  const place = (source: string) => ({
    region: {value: 'eu-west-1', source},
    profile: {value: "o'x", source},
    endpointUrl: {value: undefined, source: 'default'},
  })
  const from = (source: string) => ({...TYPED, ...place(source)}) as unknown as Settings
  const hint = 'Delete it: aws dynamodb delete-table --table-name prod\n  zael deploy'
  const expected =
    "Delete it: aws --region eu-west-1 --profile 'o'\\''x' dynamodb delete-table --table-name prod\n  zael deploy --stack prod"
  for (const source of ['flag', 'environment', 'project', 'user']) {
    expect(withTypedFlags(hint, from(source), flagsOf)).toBe(expected)
    expect(withTypedFlags(expected, from(source), flagsOf)).toBe(expected)
  }
  expect(withTypedFlags(hint, from('aws'), flagsOf)).toContain('it: aws dynamodb delete-table --table-name prod')
  expect(withTypedFlags('Use aws/dynamodb or aws sso login', from('flag'), flagsOf)).toBe(
    'Use aws/dynamodb or aws sso login',
  )
})
