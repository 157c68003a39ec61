import {describe, expect, it} from 'vitest'
import {fingerprint} from '../../src/lib/manifest/fingerprint.js'
import {parseManifest} from '../../src/lib/manifest/parse.js'

const hashOf = (text: string) => fingerprint(parseManifest(text, {file: 'f'}))

const PYTHON_STYLE = `
namespace: default
system:
  on_unavailable: allow
  limits: {rpm: {capacity: 100}}
resources:
  gpt-4:
    limits:
      tpm: {capacity: 1, burst: 200000, refill_amount: 100000, refill_period: 3600}
      rpm: {capacity: 10}
entities:
  user-1:
    resources:
      gpt-4: {limits: {rpm: {capacity: 7, refill_period: 1}}}
      _default_: {limits: {rpm: {capacity: 5}}}
`

/** The hashes were computed by Python: sha256 of `json.dumps(normal form, sort_keys=True)`. */
describe('the hash of a manifest', () => {
  it('equals the hash that the Python system stores', () => {
    expect(hashOf(PYTHON_STYLE)).toBe('sha256:8d5685b9cf074cb7139a343dd86c99ac99a238d6df7ed77dae1e48da35488762')
    const empty = 'sha256:14c593457e8d50077bb8cc4dce15e59a138c52e3524aed09fc5f6b89fe38e110'
    expect(hashOf('namespace: default')).toBe(empty)
    expect(hashOf('{namespace: default, resources: {}, entities: {}}')).toBe(empty)
    const flags =
      '{namespace: default, resources: {g: {limits: {rpm: 5}, disabled: true, cascade: false}, h: {disabled: bypass}}'
    const withFlags = `${flags}, entities: {u: {resources: {_default_: {cascade: true}}}}}`
    expect(hashOf(withFlags)).toBe('sha256:5b4e8f692a7a85fbd716b4a2bcb4a0363e4e9d36a7920265e07efc0247ad7158')
    const policy = 'sha256:13098cf724afd165c00b44052acf834d7725397d91feaf040ef95d863c14738d'
    expect(hashOf('{namespace: default, system: {on_unavailable: block}}')).toBe(policy)
  })

  it('does not depend on the syntax of the file', () => {
    const text = `{entities: {user-1: {resources: {gpt-4: {limits: {rpm: 7/sec}}}, limits: {rpm: 5}}}, namespace: default,
      resources: {gpt-4: {limits: {rpm: 10/min, tpm: '100k/hour:200k'}}}, system: {limits: {rpm: 100}, on_unavailable: allow}}`
    expect(hashOf(text)).toBe(hashOf(PYTHON_STYLE))
  })

  it('escapes like Python, and includes stated fields that only zael has', () => {
    const text = JSON.stringify({
      namespace: 'default',
      entities: {'user-1': {name: 'Zoë \u007f\u{1F600}"\n', metadata: {a: [1, 2.5, null, true]}}},
    })
    expect(hashOf(text)).toBe('sha256:7573fa88bbc8b7e204ca5d6b8b2e42f91bd7ecb5b79135f7d3bbd0942ac20412')
  })
})
