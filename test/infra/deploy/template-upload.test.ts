import {Readable} from 'node:stream'
import {expect, it} from 'vitest'
import {openAws} from '../../../src/lib/infra/aws/clients.js'
import {checkTemplateLength, MAX_INLINE_BYTES, passTemplate} from '../../../src/lib/infra/deploy/template-upload.js'

const LONG = 'x'.repeat(MAX_INLINE_BYTES + 1)

it('needs a bucket for a template that is too long for a request', () => {
  expect(() => checkTemplateLength(LONG.slice(1), undefined)).not.toThrow()
  expect(() => checkTemplateLength(LONG, 'templates')).not.toThrow()
  expect(() => checkTemplateLength(LONG, undefined)).toThrow(
    expect.objectContaining({
      kind: 'usage',
      code: 'deploy.template-length',
      message: 'The template has 51201 bytes, but CloudFormation accepts only 51200 in a request.',
      hint: expect.stringContaining('--template-bucket NAME'),
    }),
  )
  // Bytes count, not characters.
  expect(() => checkTemplateLength('ä'.repeat(MAX_INLINE_BYTES - 1), undefined)).toThrow('102398 bytes')
})

/** Passes a template through a bucket that responds with an error, or with success. */
async function passedTo(region: string, errorCode?: string) {
  using aws = openAws({region}, {})
  const {config} = await aws.s3()
  config.credentials = async () => ({accessKeyId: 'a', secretAccessKey: 'b'})
  const paths: string[] = []
  const body = Readable.from([errorCode === undefined ? '' : `<Error><Code>${errorCode}</Code></Error>`])
  config.requestHandler = {
    handle: async ({method, path}: {method: string; path: string}) => {
      paths.push(`${method} ${path}`)
      return {response: {statusCode: errorCode === undefined ? 200 : 404, headers: {}, body}}
    },
  } as unknown as typeof config.requestHandler
  const source = await passTemplate(aws, {stack: 'prod', template: 'Resources: {}', bucket: 'templates'})
  return {source, paths}
}

it.each([
  ['eu-west-1', 'https://templates.s3.eu-west-1.amazonaws.com'],
  ['us-east-1', 'https://templates.s3.us-east-1.amazonaws.com'],
  ['cn-north-1', 'https://templates.s3.cn-north-1.amazonaws.com.cn'],
])('is uploaded under its hash, and named by the address of the bucket: %s', async (region, address) => {
  const {source, paths} = await passedTo(region)
  const [, key] = /^PUT \/(zael\/prod\/[0-9a-f]{16}\.yaml)$/.exec(paths.join()) ?? []
  expect(source).toEqual({TemplateURL: `${address}/${key}`})
})

it.each([
  ['NoSuchBucket', 'The bucket "templates" does not exist.'],
  ['PermanentRedirect', 'The bucket "templates" is in another region.'],
])('explains a bucket that cannot be used: %s', async (name, message) => {
  await expect(passedTo('eu-west-1', name)).rejects.toMatchObject({code: 'deploy.template-bucket', message})
})
