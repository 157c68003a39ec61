import {mkdtemp, rm, writeFile} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {afterAll, beforeAll, describe, expect, it} from 'vitest'
import {withKnownProfiles} from '../../../src/lib/cli/base/stack-command.js'
import {Denied, RegionMissing, Throttled} from '../../../src/lib/dynamo/errors.js'

let folder = ''

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'zael-profiles-'))
  await writeFile(join(folder, 'config'), '[default]\n[profile ops]\n  region = x\n[ profile "two words" ]\n')
  await writeFile(join(folder, 'credentials'), '[keys]\naws_access_key_id = a\n')
})

afterAll(() => rm(folder, {recursive: true, force: true}))

const env = () => ({
  AWS_CONFIG_FILE: join(folder, 'config'),
  AWS_SHARED_CREDENTIALS_FILE: join(folder, 'credentials'),
})
const anonymous = new Denied('GetItem', Object.assign(new Error('none'), {name: 'CredentialsProviderError'}))
const chosen = (value: string) => ({value, from: '--profile'})

describe('a profile without credentials', () => {
  it('names a missing profile and the nearest ones', async () => {
    expect(await withKnownProfiles(anonymous, chosen('opps'), env())).toMatchObject({
      code: 'aws.profile',
      kind: 'access',
      message: 'AWS profile "opps" not found (--profile).',
      hint: expect.stringMatching(/^Did you mean "ops"\?.*aws configure list-profiles/),
      details: {known: ['default', 'keys', 'ops', 'two words']},
    })
    const nowhere = new RegionMissing()
    expect(await withKnownProfiles(nowhere, chosen('opps'), env())).toMatchObject({code: 'aws.profile'})
    const fromVariable = await withKnownProfiles(
      anonymous,
      {value: undefined, from: undefined},
      {...env(), AWS_PROFILE: 'gone'},
    )
    expect(fromVariable).toMatchObject({message: 'AWS profile "gone" not found (AWS_PROFILE).'})
  })

  it.each(['ops', 'two words', 'keys'])('keeps the error of an existing profile: %s', async name => {
    expect(await withKnownProfiles(anonymous, chosen(name), env())).toBe(anonymous)
  })

  it('keeps other errors, and errors without readable profile files', async () => {
    const other = new Throttled('GetItem')
    expect(await withKnownProfiles(other, chosen('gone'), env())).toBe(other)
    expect(await withKnownProfiles(anonymous, chosen('gone'), {...env(), AWS_CONFIG_FILE: folder})).toBe(anonymous)
    expect(await withKnownProfiles(anonymous, {value: undefined, from: undefined}, env())).toBe(anonymous)
  })
})
